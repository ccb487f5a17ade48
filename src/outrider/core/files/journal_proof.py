# SPDX-License-Identifier: Apache-2.0
"""Proves that a journal's lines are complete and unchanged, or names the first that is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import cause_of, check_file, open_file
from outrider.core.files.journal_files import (
    CLOSED,
    CONTINUED,
    FULL,
    MAX_BYTES,
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

_MAX_READ = 2 * MAX_BYTES + 1
NOT_SIGNED = "its signature does not fit: it was changed, or written with another key"


@dataclass(frozen=True)
class Fault:
    """`line` of `file` is not as it was written; the first `after` entries come before it."""

    file: Path
    line: int
    reason: str
    after: int


@dataclass(frozen=True)
class Proof:
    """What a journal's chain shows: the proven entries, and the faults in order.

    After a changed file the chain continues with the lines that its writer has written since; `goes_on`
    says whether it reaches the head. `torn`: bytes at the end that begin a line whose writer was killed.
    """

    entries: tuple[Entry, ...]
    faults: tuple[Fault, ...] = ()
    goes_on: bool = True
    torn: bytes = b""

    @property
    def holds(self) -> bool:
        """Whether all lines are present and unchanged."""
        return not self.faults

    @property
    def first(self) -> Fault:
        """The first fault; if there is none, line 0 of no file."""
        return self.faults[0] if self.faults else Fault(Path(), 0, "", len(self.entries))

    @property
    def is_closed(self) -> bool:
        """Whether the last line is a closing one; otherwise a writer is running, or was killed."""
        return bool(self.entries) and self.entries[-1].did == CLOSED


def prove(path: Path, key_file: Path | None = None, most_bytes: int = MAX_BYTES) -> Proof:
    """Check every line of a journal, of the full and the changed file before it, and the journal's head.

    Raises ConfigError if there is no journal, or no key to prove it with.
    """
    _check(path)
    key = _key(key_file or key_of(path))
    earlier: tuple[int, ...] | None = None
    while earlier != (earlier := _earlier_files(path)):  # a file was put aside meanwhile: read all again
        head = read_head(path, key)  # first, because a running writer may add lines meanwhile
        lines, full = _lines(path), _lines(full_of(path)) if full_of(path).exists() else []
    # A writer that was killed between the two files has left two equal files.
    is_double = full == lines and sum(map(len, lines)) >= most_bytes
    files = [(path, lines)] if is_double else [(full_of(path), full), (path, lines)]
    continued = [number for number, (_, there) in enumerate(files) if _continues_changed(there, key)]
    if continued:
        files.insert(continued[-1], (changed_of(path), _changed_lines(path)))
    chain = _Chain(path, key)
    for file, there in files:
        if not chain.follow(file, there, goes_back=file != path or is_double):
            break
    return chain.proof(head)


def is_chained(file: Path, key: bytes) -> bool:
    """Return whether the lines of one file are unchanged and chained; earlier files are not checked."""
    try:
        chain = _Chain(file, key)
        chain.follow(file, _lines(file), goes_back=True)
    except ConfigError:
        return False
    return not (chain.reason or chain.torn)


@dataclass
class _Chain:
    """The entries so far. `line` of `file` is the next line, or the one that `reason` objects to."""

    path: Path
    key: bytes
    entries: list[Entry] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    file: Path = Path()
    line: int = 1
    reason: str = ""
    torn: bytes = b""

    def follow(self, file: Path, lines: list[bytes], goes_back: bool) -> bool:
        """Add the lines of a file; return whether the next file may follow, as after a changed one.

        `goes_back`: the file before this one may have been dropped as too old.
        """
        before, self.file = self.file, file
        for self.line, line in enumerate(lines, 1):
            entry = read_line(line, self.key, Entry)
            if entry is None and file == self.path and self.line == len(lines) and self._is_begun(line):
                self.torn = line
                return True
            if entry is not None and self.line == 1 and _is_of_changed(entry):
                self._go_on_after(before, entry)
            else:
                self.reason = self._objection(entry, goes_back)
            if entry is None or self.reason:
                break
            self.entries.append(entry)
            self.hashes.append(hash_of(line))
        else:
            self.line = len(lines) + 1
        if self.reason:
            self._find(self.reason)
        return not self.reason or file == changed_of(self.path)

    def _go_on_after(self, before: Path, entry: Entry) -> None:
        """Record a fault: the writer found the file before this entry changed, even if it looks whole now."""
        changed, last = changed_of(self.path), self.entries[-1].n if self.entries else 0
        continues = "it continues a file that was not as written"
        if before != changed:
            self._find(f"{continues}, and which has gone")
        elif not self.reason and entry.n > last + 1:
            self._find(f"{continues}, and {changed} has no entries {last + 1} to {entry.n - 1}")
        elif not self.reason:
            self._find(f"{continues}; {changed} does not show how")
        self.reason = ""

    def _find(self, reason: str) -> None:
        self.faults.append(Fault(self.file, self.line, reason, len(self.entries)))

    def _is_begun(self, line: bytes) -> bool:
        """Return whether this is the beginning of the next line; a file system may pad it with zeros."""
        n = self.entries[-1].n + 1 if self.entries else 1
        begun, start = line.rstrip(b"\0"), f'{{"n":{n},"at":"'.encode()
        return not line.endswith(b"\n") and (begun.startswith(start) or start.startswith(begun))

    def _objection(self, entry: Entry | None, goes_back: bool) -> str:
        """Return why a line is not the next one; empty if it is."""
        if entry is None:
            return NOT_SIGNED
        previous = self.entries[-1] if self.entries else None
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
        """Return the proof, once all lines have been followed; they must reach the head."""
        torn = self.torn
        if not self.reason:
            self.reason = self._objection_to_end(head)
            if self.reason and torn:
                self.reason, torn = NOT_SIGNED, b""
            if self.reason:
                self._find(self.reason)
        return Proof(tuple(self.entries), tuple(self.faults), not self.reason, torn)

    def _objection_to_end(self, head: Head | None) -> str:
        """Return why the lines do not end as the head says.

        Lines after it are valid: their writer was killed.
        """
        file, last = head_of(self.path), self.entries[-1].n if self.entries else 0
        if head is None:
            return f"{file}, which names the last entry, is not there or not as written"
        if head.n > last:
            return f"it is not there, nor is what follows up to entry {head.n}, the last one by {file}"
        named = (line for entry, line in zip(self.entries, self.hashes, strict=True) if entry.n == head.n)
        if head.n and head.line not in named:
            return f"{file} names an entry {head.n} that is not there"
        return ""


def _is_of_changed(first: Entry) -> bool:
    """Return whether a first line continues a file that its writer found changed."""
    return first.did == CONTINUED and first.what != FULL


def _continues_changed(lines: list[bytes], key: bytes) -> bool:
    first = read_line(lines[0], key, Entry) if lines else None
    return first is not None and _is_of_changed(first)


def _changed_lines(path: Path) -> list[bytes]:
    """Return the lines of the changed file; none if it cannot be read, which is a fault too."""
    try:
        return _lines(changed_of(path))
    except ConfigError:
        return []


def _earlier_files(path: Path) -> tuple[int, ...]:
    """Return what identifies the earlier files, to notice when they are replaced."""
    found = [earlier.stat() for earlier in (full_of(path), changed_of(path)) if earlier.exists()]
    return tuple(number for earlier in found for number in (earlier.st_ino, earlier.st_mtime_ns))


def _check(path: Path) -> None:
    try:
        check_file(path)
    except OSError as error:
        raise ConfigError(f"cannot read the journal {path}: {error.strerror}") from None


def _lines(path: Path) -> list[bytes]:
    """Return a file's lines.

    Of a file larger than a journal gets, only the first, and the last one is cut.
    """
    try:
        with open_file(path) as file:
            content = file.read(_MAX_READ)
        return (content + b"\n" * (len(content) == _MAX_READ)).splitlines(keepends=True)
    except OSError as error:
        raise ConfigError(f"cannot read the journal {path}: {error.strerror}") from None


def _key(path: Path) -> bytes:
    try:
        return read_private(path).strip().encode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot read the journal's key {path}: {cause_of(error)}; give it with --journal-key"
        ) from None
