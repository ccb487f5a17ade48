# SPDX-License-Identifier: Apache-2.0
"""Outrider's prompts for real language models, from benchmarks/prompts.yaml, in Qwen2.5's format."""

from __future__ import annotations

from itertools import chain

import msgspec

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import cause_of
from outrider.core.language.prompt import PROMPT_SUFFIX, TEXT_PREFIX
from outrider.core.values import Prompt
from outrider.runtime.common.paths import benchmark_file

PROMPTS_FILE = "prompts.yaml"


class _Questions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The questions of the file, whose header explains the fields."""

    coding: tuple[str, ...]
    household: tuple[str, ...]
    training: tuple[str, ...]


def real_prompts(number: int | None = None) -> list[Prompt]:
    """Returns the first `number` questions for measurements; all for None.

    Questions about coding and the household alternate. Raises ConfigError if there are not enough.
    """
    questions = _read()
    measured = list(chain.from_iterable(zip(questions.coding, questions.household, strict=True)))
    if number is not None and not 1 <= number <= len(measured):
        raise ConfigError(f"{number} prompts were asked for: choose 1 to {len(measured)}")
    return [asked(question) for question in measured[:number]]


def training_questions() -> tuple[str, ...]:
    """Returns the questions on whose answers early exits are trained. No measurement uses them.

    Raises ConfigError.
    """
    return _read().training


def asked(question: str) -> Prompt:
    """Returns a question as a prompt for a language model."""
    return Prompt(f"{TEXT_PREFIX}{question}{PROMPT_SUFFIX}", b"")


def _read() -> _Questions:
    path = benchmark_file(PROMPTS_FILE)
    try:
        return msgspec.yaml.decode(path.read_bytes(), type=_Questions)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} holds no prompts ({cause_of(error)}): restore the file") from None
