# SPDX-License-Identifier: Apache-2.0
"""Prompts of homes that are in no training data, and the shipped pair to answer them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from outrider.core.errors import ConfigError
from outrider.core.language.prompt import PROMPT_PREFIX, PROMPT_SUFFIX
from outrider.core.model_options import DRAFT_BRANCHES
from outrider.core.pairs import check_pair
from outrider.core.ports import LanguageModel
from outrider.core.values import Prompt
from outrider.runtime.common.paths import models_folder
from outrider.runtime.datasets.dataset import home_examples

FIRST_HOME_SEED = 2_000_000_000
"""Above every seed of the training homes."""
HOMES_PER_SEED = 1_000_000


@dataclass(frozen=True)
class Pair:
    """A target, and the draft that proposes tokens to it."""

    target: LanguageModel
    draft: LanguageModel


def load_pair(models: Path | None = None) -> Pair:
    """Returns the target and the draft of a models folder.

    Raises ModelError if they are missing or do not fit each other.
    """
    from outrider.models import load_model  # takes seconds to import

    folder = models_folder(models)
    target = load_model(folder / "target")
    draft = load_model(folder / "draft", role="draft", sessions=DRAFT_BRANCHES)
    check_pair(target, draft)
    return Pair(target, draft)


def load_reader_model(models: Path | None = None) -> LanguageModel:
    """Returns the model of a models folder that answers questions from memories. Raises ModelError."""
    from outrider.models import load_model  # takes seconds to import

    return load_model(models_folder(models) / "reader")


def check_frames(frames: int, seed: int) -> None:
    """Raise ConfigError if the number of frames or the seed is too small."""
    if frames < 1 or seed < 0:
        raise ConfigError("frames must be at least 1 and seed at least 0")


def first_home_seed(seed: int) -> int:
    """Returns the seed of the first held-out home; homes of different seeds do not overlap."""
    return FIRST_HOME_SEED + seed * HOMES_PER_SEED


def held_out_prompts(number: int, seed: int) -> Iterator[Prompt]:
    """Yields one prompt for each of `number` frames, from as many homes as necessary."""
    return islice(_endless_prompts(seed), number)


def _endless_prompts(seed: int) -> Iterator[Prompt]:
    for home_seed in count(first_home_seed(seed)):
        for index, example in enumerate(home_examples(home_seed)):
            query = example.queries[index % len(example.queries)]
            yield Prompt(PROMPT_PREFIX + query.user_text + PROMPT_SUFFIX, example.jpeg)
