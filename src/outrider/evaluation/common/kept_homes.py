# SPDX-License-Identifier: Apache-2.0
"""Homes that were tried, kept as they end: a run that was ended goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from outrider.core.files.terminal import tracked
from outrider.core.processes import work_through
from outrider.evaluation.common.kept_records import KeptRecords

HOMES_FILE = "homes.jsonl"


class HomeTask(Protocol):
    """A home to try."""

    @property
    def home_seed(self) -> int:
        """The home's seed."""


class HomeOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was seen in the home of a seed."""

    seed: int


Task = TypeVar("Task", bound=HomeTask)
Outcome = TypeVar("Outcome", bound=HomeOutcome)


class KeptHomes(Generic[Outcome]):
    """Outcomes by the seed of their home, in a folder's file where one is given, else in memory alone."""

    def __init__(self, folder: Path | None, kind: type[Outcome], common: Mapping[str, str | int]) -> None:
        """Raises ConfigError as `KeptRecords` does."""
        path = None if folder is None else folder / HOMES_FILE
        self._records = KeptRecords(path, kind, "homes", common)
        self.outcomes = {outcome.seed: outcome for outcome in self._records.read}

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome, on disk before the next home is tried. Raises ConfigError."""
        self.outcomes[outcome.seed] = outcome
        self._records.add(outcome)

    def tried(self, tasks: Sequence[Task], work: Callable[[Task], Outcome], processes: int) -> list[Outcome]:
        """Returns the outcome of each task's home, once those that are missing have been tried."""
        missing = [task for task in tasks if task.home_seed not in self.outcomes]
        for outcome in tracked(work_through(work, missing, processes), "homes", total=len(missing)):
            self.add(outcome)
        return [self.outcomes[task.home_seed] for task in tasks]
