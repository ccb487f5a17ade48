# SPDX-License-Identifier: Apache-2.0
"""Questions that need a private and a public document, from benchmarks/documents.yaml."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import cause_of
from outrider.runtime.common.paths import benchmark_file

DOCUMENTS_FILE = "documents.yaml"
_Words = Annotated[tuple[str, ...], Meta(min_length=1)]


class TwoSided(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the file, whose header explains the fields."""

    question: str
    told: str
    known: str
    answer: str
    private: _Words
    public: _Words


def two_sided_questions(number: int) -> tuple[TwoSided, ...]:
    """Returns the first `number` entries. Raises ConfigError if there are not enough."""
    path = benchmark_file(DOCUMENTS_FILE)
    try:
        entries = msgspec.yaml.decode(path.read_bytes(), type=tuple[TwoSided, ...])
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} holds no questions ({cause_of(error)}): restore the file") from None
    if not 1 <= number <= len(entries):
        raise ConfigError(f"{number} questions were asked for: choose 1 to {len(entries)}")
    return entries[:number]


def holds(text: str, words: Iterable[str]) -> bool:
    """Whether a text contains one of some words, in any case."""
    return any(word in text.lower() for word in words)
