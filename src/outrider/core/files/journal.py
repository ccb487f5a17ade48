# SPDX-License-Identifier: Apache-2.0
"""A journal of requests and actions. Each line is signed, and chained to the line before it.

Each line holds the hash of the line before it and a signature, made with a key that only the journal's
owner may read. A separate head names the newest entry and is signed too. So without the key no line can be
changed, removed or inserted, not even at the end; `prove` names the first such line.

Lines are on the disk before the head names them. A crash may leave lines that the head does not name yet,
or the beginning of a line, but never a head that names a missing line. Several processes may write to one
journal. A full one is kept as `NAME.1`, and the chain continues in a new file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import open_file
from outrider.core.files.journal_files import (
    CONTINUED,
    FULL,
    LOST,
    MAX_BYTES,
    Entry,
    Head,
    changed_of,
    full_of,
    hash_of,
    key_of,
    read_head,
    read_line,
    signed_line,
    write_head,
)
from outrider.core.files.journal_proof import Proof, is_chained, prove
from outrider.core.files.private_files import open_private
from outrider.core.files.secret_file import load_secret
from outrider.core.files.writing import append_whole, replace_file, writing_to

MAX_CHARACTERS = 200
"""The most characters of `who`, `did` and `what` each; the rest is cut off."""
MAX_AT_ONCE = 100
TORN = "a line that was not written to its end"
_MAX_LINE_BYTES = 8192
Note = tuple[str, str, str]
"""The `who`, `did` and `what` of an entry."""


class NotNamedError(ConfigError):
    """The lines are written and valid, but the head does not name them."""


class Journal:
    """Appends entries. Raises ConfigError if the file or its key cannot be used."""

    def __init__(self, path: Path, most_bytes: int = MAX_BYTES) -> None:
        if path.exists() and not path.is_file():
            raise ConfigError(f"the journal {path} is no file: choose another place")
        self.path = path
        self._most_bytes = most_bytes
        self._key = load_secret(key_of(self.path), "journal key").encode()
        with writing_to(path), self._alone():
            if not path.exists() and read_head(path, self._key) is None:
                self._name(Head())

    def write(self, who: str, did: str, what: str = "") -> None:
        """Add a line after those of other processes. Raises ConfigError if the system refuses."""
        self.write_all([(who, did, what)])

    def write_all(self, notes: Sequence[Note]) -> None:
        """Add several lines like `write`; up to MAX_AT_ONCE of them are written all or none."""
        with writing_to(self.path), self._alone():
            while notes:
                notes = notes[self._append(notes[:MAX_AT_ONCE]) :]

    def _append(self, notes: Sequence[Note]) -> int:
        """Return how many of the lines were written: none if the file has been replaced."""
        with open_private(self.path, "a+b") as file:
            last = _last_line(file)
            entry = read_line(last, self._key, Entry) if last else None
            head = read_head(self.path, self._key)
            newest = Head(entry.n, hash_of(last)) if entry else Head()
            if (last and entry is None) or not _is_at(head, newest, entry):
                proof = prove(self.path, most_bytes=self._most_bytes)
                if not proof.goes_on:
                    self._keep_changed(file, head or newest)
                    return 0
                if proof.torn:
                    newest = self._cut(file, proof)
            if file.seek(0, os.SEEK_END) >= self._most_bytes:
                self._put_aside(file, newest)
                return 0
            lines = b""
            for note in notes:
                line = self._line(newest, note)
                newest, lines = Head(newest.n + 1, hash_of(line)), lines + line
            append_whole(file, lines)
            try:
                self._name(newest)
            except ConfigError as error:
                raise NotNamedError(str(error)) from None
        return len(notes)

    def _cut(self, file: IO[bytes], proof: Proof) -> Head:
        """Remove an incomplete last line and record that; return the newest entry after it."""
        file.truncate(file.seek(0, os.SEEK_END) - len(proof.torn))
        newest = Head(proof.entries[-1].n if proof.entries else 0, hash_of(_last_line(file)))
        line = self._line(newest, ("journal", LOST, TORN))
        file.write(line)
        return Head(newest.n + 1, hash_of(line))

    def _put_aside(self, file: IO[bytes], newest: Head) -> None:
        """Keep the full file as `NAME.1` if all its lines are as written, else as a changed one;
        start a new file.
        """
        if is_chained(self.path, self._key):
            self._go_on(file, full_of(self.path), newest, FULL)
        else:
            self._keep_changed(file, newest)

    def _keep_changed(self, file: IO[bytes], newest: Head) -> None:
        changed = changed_of(self.path)
        self._go_on(file, changed, newest, f"the earlier file is not as written: it is {changed.name}")

    def _go_on(self, file: IO[bytes], kept: Path, newest: Head, reason: str) -> None:
        """Start a new file; at every moment one exists."""
        file.seek(0)
        _make_way(kept)
        replace_file(kept, file.read())
        line = self._line(newest, ("journal", CONTINUED, reason))
        replace_file(self.path, line)
        self._name(Head(newest.n + 1, hash_of(line)))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Exclude other writers by a lock on the key file, which is never replaced."""
        with open_file(key_of(self.path)) as key:
            fcntl.flock(key, fcntl.LOCK_EX)
            yield

    def _name(self, newest: Head) -> None:
        write_head(self.path, newest.n, newest.line, self._key)

    def _line(self, newest: Head, note: Note) -> bytes:
        at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        who, did, what = map(_short, note)
        return signed_line(Entry(newest.n + 1, at, who, did, what, newest.line), self._key)


def _make_way(kept: Path) -> None:
    """Rename anything but a regular file, such as a pipe, because writing to it might never end."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(kept.lstat().st_mode):
            kept.rename(kept.with_name(f"{kept.name}.other"))


def _is_at(head: Head | None, newest: Head, entry: Entry | None) -> bool:
    """Return whether the head names the newest entry, or the one before it if its writer was killed."""
    if head is None:
        return False
    named = [(newest.n, newest.line)] + ([(entry.n - 1, entry.before)] if entry else [])
    return (head.n, head.line) in named


def _last_line(file: IO[bytes]) -> bytes:
    """Return the last line with its end; empty for an empty file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _MAX_LINE_BYTES))
    return (file.read().splitlines(keepends=True) or [b""])[-1]


def _short(text: str) -> str:
    return text[:MAX_CHARACTERS].encode(errors="replace").decode()
