# SPDX-License-Identifier: Apache-2.0
"""Proves that a journal's lines are all there, as they were written, or names the first that is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import check_file, read_file
from outrider.core.files.journal_files import (
    CLOSED,
    CONTINUED,
    FULL,
    MOST_BYTES,
    NOTHING,
    Entry,
    Head,
    changed_of,
    full_of,
    hash_of,
    head_of,
    key_of,
    read_head,
    read_line,
)
from outrider.core.files.private_files import read_private

NOT_SIGNED = "its signature does not fit: it was changed, or written with another key"


@dataclass(frozen=True)
class Proof:
    """What a journal's chain shows. `line` of `file` is the first that is not as written, 0 where all are.

    `torn`: bytes at the end that are the beginning of a line whose writer was killed.
    """

    entries: tuple[Entry, ...]
    file: Path
    line: int = 0
    reason: str = ""
    torn: bytes = b""

    @property
    def holds(self) -> bool:
        """Whether every line is there, as it was written."""
        return self.line == 0

    @property
    def is_closed(self) -> bool:
        """Whether the last line is a closing one: else a writer runs, or was killed."""
        return bool(self.entries) and self.entries[-1].did == CLOSED


def prove(path: Path, key_file: Path | None = None, most_bytes: int = MOST_BYTES) -> Proof:
    """Check every line of a journal, and of the full file before it, and the journal's head.

    Raises ConfigError where there is no journal, or no key to prove it with.
    """
    _check(path)
    key = _key(key_file or key_of(path))
    head = read_head(path, key)  # first: a writer that runs may add lines meanwhile
    lines, full = _lines(path), _lines(full_of(path)) if full_of(path).exists() else []
    # A writer that was killed between the two files has left both alike.
    is_double = full == lines and sum(map(len, lines)) >= most_bytes
    chain = _Chain(path, key)
    if not is_double:
        chain.follow(full_of(path), full, goes_back=True)
    if not chain.reason:
        chain.follow(path, lines, goes_back=is_double)
    return chain.proof(head)


@dataclass
class _Chain:
    """The entries so far. `line` of `file` is the next one, or the one that `reason` objects to."""

    path: Path
    key: bytes
    entries: list[Entry] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)
    file: Path = Path()
    line: int = 1
    reason: str = ""
    torn: bytes = b""

    def follow(self, file: Path, lines: list[bytes], goes_back: bool) -> None:
        """Add the lines of a file. `goes_back`: the file before it may have been dropped, as too old."""
        self.file = file
        for self.line, line in enumerate(lines, 1):
            entry = read_line(line, self.key, Entry)
            if entry is None and file == self.path and self.line == len(lines) and self._is_begun(line):
                self.torn = line
                return
            self.reason = self._objection(entry, goes_back)
            if entry is None or self.reason:
                return
            self.entries.append(entry)
            self.hashes.append(hash_of(line))
        self.line = len(lines) + 1

    def _is_begun(self, line: bytes) -> bool:
        """Whether this is the beginning of the next line; a file system may fill the rest with zeros."""
        n = self.entries[-1].n + 1 if self.entries else 1
        begun, start = line.rstrip(b"\0"), f'{{"n":{n},"at":"'.encode()
        return not line.endswith(b"\n") and (begun.startswith(start) or start.startswith(begun))

    def _objection(self, entry: Entry | None, goes_back: bool) -> str:
        """Why a line is not the next one; empty where it is."""
        if entry is None:
            return NOT_SIGNED
        previous = self.entries[-1] if self.entries else None
        if self.line == 1 and entry.did == CONTINUED and entry.what != FULL:
            changed = changed_of(self.path)
            return "" if changed.exists() else f"it continues {changed}, which is not there"
        if previous is None:
            return self._objection_to_first(entry, goes_back)
        if entry.n != previous.n + 1 or entry.before != self.hashes[-1]:
            return f"it does not follow entry {previous.n}: lines were left out, put in or moved"
        return ""

    def _objection_to_first(self, entry: Entry, goes_back: bool) -> str:
        if (entry.n, entry.before) == (1, NOTHING):
            return ""
        if self.line == 1 and entry.did == CONTINUED:
            return "" if goes_back else f"it continues {full_of(self.path)}, whose entries are not there"
        return f"it is entry {entry.n}, and none before it is there: lines were left out"

    def proof(self, head: Head | None) -> Proof:
        """The proof, once all lines are followed and are those up to the head at least."""
        torn = self.torn
        if not self.reason:
            self.reason = self._objection_to_end(head)
            if self.reason and torn:
                self.reason, torn = NOT_SIGNED, b""
        return Proof(tuple(self.entries), self.file, self.line if self.reason else 0, self.reason, torn)

    def _objection_to_end(self, head: Head | None) -> str:
        """Why the lines end elsewhere than the head says. Lines after it are as good: a writer was killed."""
        file, last = head_of(self.path), self.entries[-1].n if self.entries else 0
        if head is None:
            return f"{file}, which names the last entry, is not there or not as written"
        if head.n > last:
            return f"it is not there, nor is what follows up to entry {head.n}, the last one by {file}"
        named = (line for entry, line in zip(self.entries, self.hashes, strict=True) if entry.n == head.n)
        if head.n and head.line not in named:
            return f"{file} names an entry {head.n} that is not there"
        return ""


def _check(path: Path) -> None:
    try:
        check_file(path)
    except OSError as error:
        raise ConfigError(f"cannot read the journal {path}: {error.strerror}") from None


def _lines(path: Path) -> list[bytes]:
    try:
        if path.stat().st_size > 2 * MOST_BYTES:
            raise ConfigError(f"{path} is larger than a journal gets: name another file")
        return read_file(path).splitlines(keepends=True)
    except OSError as error:
        raise ConfigError(f"cannot read the journal {path}: {error.strerror}") from None


def _key(path: Path) -> bytes:
    try:
        return read_private(path).strip().encode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the journal's key: {error}; give it with --journal-key") from None
