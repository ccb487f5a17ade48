# SPDX-License-Identifier: Apache-2.0
"""Homes that were tried, kept as they end: a run that was ended goes on where it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from outrider.evaluation.common.kept_records import KeptRecords
from outrider.evaluation.signs.trials import SignOutcome

HOMES_FILE = "homes.jsonl"


class KeptHomes:
    """Outcomes by the seed of their home, in a folder's file where one is given, else in memory alone."""

    def __init__(self, folder: Path | None, common: Mapping[str, str | int]) -> None:
        """Raises ConfigError as `KeptRecords` does."""
        path = None if folder is None else folder / HOMES_FILE
        self._records = KeptRecords(path, SignOutcome, "homes", common)
        self.outcomes = {outcome.seed: outcome for outcome in self._records.read}

    def add(self, outcome: SignOutcome) -> None:
        """Keep an outcome, on disk before the next home is tried. Raises ConfigError."""
        self.outcomes[outcome.seed] = outcome
        self._records.add(outcome)
