# SPDX-License-Identifier: Apache-2.0
"""Saves records and the outcomes of homes as they come, so that an interrupted run can continue."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Generic, Protocol, TypeVar

import msgspec

from outrider.core.errors import ConfigError
from outrider.core.files.private_files import make_private_folder, open_private
from outrider.core.files.terminal import tracked
from outrider.core.files.writing import append_whole, try_lock, writing_to
from outrider.core.processes import work_through

HOMES_FILE = "homes.jsonl"

Record = TypeVar("Record", bound=msgspec.Struct)


class RecordFile(Generic[Record]):
    """Records in a file, one line of JSON each; without a file none is saved.

    The file's first line holds what all of them have in common. `records` holds the records that were in the
    file. The file is locked while this object lives: two commands would measure the same, and it would
    count twice.
    """

    def __init__(
        self, path: Path | None, kind: type[Record], what: str, common: Mapping[str, str | int]
    ) -> None:
        """`what` names the records in messages.

        Raises ConfigError for a file whose records have other things in common, that another command has
        locked, or that cannot be used.
        """
        self._path, self._kind, self._what = path, kind, what
        self.records: list[Record] = []
        if path is None:
            return
        make_private_folder(path.parent)
        self._file: IO[bytes] = open_private(path, "ab")
        weakref.finalize(self, self._file.close)
        try:
            _lock(self._file, path)
            if path.stat().st_size:
                self._read(path, common)
            else:
                self._append(msgspec.json.encode(common))
        except ConfigError:
            self._file.close()
            raise

    def add(self, record: Record) -> None:
        """Save a record to disk, before the next is measured. Raises ConfigError."""
        self._append(msgspec.json.encode(record))

    def _append(self, line: bytes) -> None:
        if self._path is None:
            return
        with writing_to(self._path):
            append_whole(self._file, line + b"\n")

    def _read(self, path: Path, common: Mapping[str, str | int]) -> None:
        """Read the records. A line that a kill cut off is dropped, and its record is measured again."""
        head, *lines = path.read_bytes().split(b"\n")
        try:
            header = msgspec.json.decode(head)
            self.records = [msgspec.json.decode(line, type=self._kind) for line in lines[:-1]]
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path} holds no {self._what} ({error}): delete it") from None
        if header != common:
            raise ConfigError(
                f"{path} holds {self._what} of {header}, not of {common}: choose another folder"
            )
        if lines and lines[-1]:
            with writing_to(path):
                self._file.truncate(path.stat().st_size - len(lines[-1]))


def _lock(file: IO[bytes], path: Path) -> None:
    if not try_lock(file.fileno()):
        raise ConfigError(
            f"another command adds to {path}: wait until it has ended, or choose another folder"
        )


class HomeTask(Protocol):
    """A task in the home of a seed."""

    @property
    def home_seed(self) -> int:
        """The seed of the home."""


class HomeOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome in the home of a seed."""

    seed: int


Task = TypeVar("Task", bound=HomeTask)
Outcome = TypeVar("Outcome", bound=HomeOutcome)


class HomeRecords(Generic[Outcome]):
    """Outcomes by the seed of their home, saved in a folder's file, or only in memory without a folder."""

    def __init__(self, folder: Path | None, kind: type[Outcome], common: Mapping[str, str | int]) -> None:
        """Raises ConfigError as `RecordFile` does."""
        path = None if folder is None else folder / HOMES_FILE
        self._records = RecordFile(path, kind, "homes", common)
        self.outcomes = {outcome.seed: outcome for outcome in self._records.records}

    def add(self, outcome: Outcome) -> None:
        """Save an outcome to disk, before the next home is tried. Raises ConfigError."""
        self.outcomes[outcome.seed] = outcome
        self._records.add(outcome)

    def run_missing(
        self, tasks: Sequence[Task], work: Callable[[Task], Outcome], processes: int
    ) -> list[Outcome]:
        """Returns the outcome of each task's home, after trying those that are missing."""
        missing = [task for task in tasks if task.home_seed not in self.outcomes]
        for outcome in tracked(work_through(work, missing, processes), "homes", total=len(missing)):
            self.add(outcome)
        return [self.outcomes[task.home_seed] for task in tasks]
