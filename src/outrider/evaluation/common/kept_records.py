# SPDX-License-Identifier: Apache-2.0
"""Records kept as they are measured: a run that was ended goes on where it was."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from outrider.core.errors import ConfigError
from outrider.core.files.private_files import make_private_folder, open_private
from outrider.core.files.writing import writing_to

Record = TypeVar("Record", bound=msgspec.Struct)


class KeptRecords(Generic[Record]):
    """Records in a file where one is given, a line of JSON each, else nowhere.

    The file's first line holds what all of them have in common. `read` are those that the file had.
    """

    def __init__(
        self, path: Path | None, kind: type[Record], what: str, common: Mapping[str, str | int]
    ) -> None:
        """`what` names the records in messages.

        Raises ConfigError for a file whose records have other things in common, or that cannot be used.
        """
        self._path, self._kind, self._what = path, kind, what
        self.read: list[Record] = []
        if path is None:
            return
        make_private_folder(path.parent)
        if path.exists() and path.stat().st_size:
            self._read(path, common)
        else:
            self._append(msgspec.json.encode(common))

    def add(self, record: Record) -> None:
        """Keep a record, on disk before the next is measured. Raises ConfigError."""
        self._append(msgspec.json.encode(record))

    def _append(self, line: bytes) -> None:
        if self._path is None:
            return
        with writing_to(self._path), open_private(self._path, "ab") as file:
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self, path: Path, common: Mapping[str, str | int]) -> None:
        """A line that a kill cut off is dropped, and its record measured anew."""
        head, *lines = path.read_bytes().split(b"\n")
        try:
            found = msgspec.json.decode(head)
            self.read = [msgspec.json.decode(line, type=self._kind) for line in lines[:-1]]
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path} holds no {self._what} ({error}): delete it") from None
        if found != common:
            raise ConfigError(f"{path} holds {self._what} of {found}, not of {common}: choose another folder")
        if lines and lines[-1]:
            with writing_to(path), path.open("r+b") as file:
                file.truncate(path.stat().st_size - len(lines[-1]))
