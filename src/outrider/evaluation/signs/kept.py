# SPDX-License-Identifier: Apache-2.0
"""Homes that were tried, kept as they end: a run that was ended goes on where it was."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from outrider.core.errors import ConfigError
from outrider.core.files.private_files import make_private_folder, open_private
from outrider.core.files.writing import writing_to
from outrider.evaluation.signs.trials import SignOutcome

HOMES_FILE = "homes.jsonl"


class KeptHomes:
    """Outcomes by the seed of their home, in a folder's file where one is given, else in memory alone.

    The file's first line holds what all its homes have in common.
    """

    def __init__(self, folder: Path | None, common: Mapping[str, str | int]) -> None:
        """Raises ConfigError for a folder whose homes have other things in common, or that cannot be used."""
        self.outcomes: dict[int, SignOutcome] = {}
        self._path = None if folder is None else folder / HOMES_FILE
        if self._path is None:
            return
        make_private_folder(self._path.parent)
        if self._path.exists() and self._path.stat().st_size:
            self._read(self._path, common)
        else:
            self._append(msgspec.json.encode(common))

    def add(self, outcome: SignOutcome) -> None:
        """Keep an outcome, on disk before the next home is tried. Raises ConfigError."""
        self.outcomes[outcome.seed] = outcome
        self._append(msgspec.json.encode(outcome))

    def _append(self, line: bytes) -> None:
        if self._path is None:
            return
        with writing_to(self._path), open_private(self._path, "ab") as file:
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self, path: Path, common: Mapping[str, str | int]) -> None:
        """What a kill cut off in its midst is dropped, and tried anew."""
        head, *lines = path.read_bytes().split(b"\n")
        try:
            found = msgspec.json.decode(head)
            known = [msgspec.json.decode(line, type=SignOutcome) for line in lines[:-1]]
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path} holds no homes ({error}): delete it") from None
        if found != common:
            raise ConfigError(f"{path} holds homes of {found}, not of {common}: choose another folder")
        if lines and lines[-1]:
            with writing_to(path), path.open("r+b") as file:
                file.truncate(path.stat().st_size - len(lines[-1]))
        self.outcomes = {outcome.seed: outcome for outcome in known}
