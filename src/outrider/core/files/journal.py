# SPDX-License-Identifier: Apache-2.0
"""A journal of who asked for what, and of what was done: each line signed, and chained to the one before.

A line is the JSON of an `Entry`. `before` is the SHA-256 of the line before it, `signature` the HMAC-SHA256
of the entry without its signature, by a key that only the journal's owner may read. So no line can be
changed, left out or put in without the key; `prove` names the first that was. Lines cut off at the end leave
no trace in the file, but the writer's closing line is missing then.

Several processes may write to one journal. A full one is kept as `NAME.1`; the chain goes on in a new file.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

import msgspec

from outrider.core.errors import ConfigError
from outrider.core.files.private_files import (
    home_folder,
    open_private,
    read_private,
)
from outrider.core.files.secret_file import load_secret
from outrider.core.files.writing import replace_file, writing_to

JOURNAL_SUFFIX = ".journal"
JOURNAL_VARIABLE = "OUTRIDER_JOURNAL"
MOST_BYTES = 8 << 20
MOST_CHARACTERS = 200
"""Of `who`, `did` and `what` each; the rest is left out."""
OPENED, CLOSED, CONTINUED, LOST = "opened", "closed", "continued", "lost"
_MOST_LINE_BYTES = 8192


def journal_at(path: str = "") -> Path:
    """The journal's file: as given, else `$OUTRIDER_JOURNAL`, else one in the home folder."""
    given = path or os.environ.get(JOURNAL_VARIABLE)
    return Path(given).expanduser() if given else home_folder() / f"robot{JOURNAL_SUFFIX}"


def key_of(journal: Path) -> Path:
    """The file of the key that a journal is signed with."""
    return journal.with_suffix(".journal_key")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line. `at`: UTC; `who` asked, or is a part of the robot; `did` is a word such as `say`."""

    n: int
    at: str
    who: str
    did: str
    what: str
    before: str
    signature: str = ""


@dataclass(frozen=True)
class Proof:
    """What a journal's chain shows. `line` of `file` is the first that is not as written, 0 where all are."""

    entries: tuple[Entry, ...]
    file: Path
    line: int = 0
    reason: str = ""

    @property
    def holds(self) -> bool:
        """Whether every line is as it was written."""
        return self.line == 0

    @property
    def is_closed(self) -> bool:
        """Whether the last line is a closing one: else a writer runs or was killed, or lines are cut off."""
        return bool(self.entries) and self.entries[-1].did == CLOSED


class Journal:
    """Appends entries. Raises ConfigError where the file or its key cannot be used."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._most_bytes = most_bytes
        self._key = load_secret(key_of(self.path), "journal key").encode()

    def write(self, who: str, did: str, what: str = "") -> None:
        """Add a line, after those of other processes. Raises ConfigError where the system refuses."""
        with writing_to(self.path):
            while not self._append(who, did, what):
                pass

    def _append(self, who: str, did: str, what: str) -> bool:
        """Whether the line is written; else the file is now another one."""
        with self._opened() as file:
            last = _last_line(file)
            entry = _read(last, self._key) if last else None
            if last and entry is None:
                kept = self.path.with_name(f"{self.path.name}.changed")
                reason = f"the end of the earlier file is not as written: it is {kept.name}"
            elif file.seek(0, os.SEEK_END) >= self._most_bytes:
                kept, reason = _full(self.path), "the earlier file is full"
            else:
                file.write(self._line(entry, last, who, did, what))
                return True
            # Under the lock, and without a moment in which there is no file: nobody begins another chain.
            file.seek(0)
            replace_file(kept, file.read())
            replace_file(self.path, self._line(entry, last, "journal", CONTINUED, reason))
        return False

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        """The file, locked; never one that another process has just moved away."""
        while True:
            with open_private(self.path, "a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if self.path.exists() and os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                    yield file
                    return

    def _line(self, entry: Entry | None, last: bytes, who: str, did: str, what: str) -> bytes:
        at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        who, did, what = map(_short, (who, did, what))
        new = Entry((entry.n if entry else 0) + 1, at, who, did, what, _hash(last))
        return _encoded(msgspec.structs.replace(new, signature=_signature(new, self._key)))


def prove(path: Path, key_file: Path | None = None) -> Proof:
    """Check every line of a journal, and of the full file before it where that is there.

    Raises ConfigError where there is no journal, or no key to prove it with.
    """
    key = _key(key_file or key_of(path))
    files = {file: _lines(file) for file in (_full(path), path) if file == path or file.exists()}
    if files.get(_full(path)) == files[path]:  # its writer was killed before it began the new one
        del files[_full(path)]
    entries: list[Entry] = []
    last = b""
    for file, lines in files.items():
        for number, line in enumerate(lines, 1):
            entry = _read(line, key)
            reason = _objection(entry, entries[-1] if entries else None, last)
            if entry is None or reason:
                return Proof(tuple(entries), file, number, reason)
            entries.append(entry)
            last = line
    return Proof(tuple(entries), path)


def _full(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def _objection(entry: Entry | None, previous: Entry | None, last: bytes) -> str:
    """Why a line does not follow the one before it; empty where it does."""
    if entry is None:
        return "its signature does not fit: it was changed, or written with another key"
    if previous is not None and (entry.n != previous.n + 1 or entry.before != _hash(last)):
        return f"it does not follow entry {previous.n}: lines were left out, put in or moved"
    return ""


def _read(line: bytes, key: bytes) -> Entry | None:
    """The entry of a line, or None for one that is not exactly as this key's owner wrote it."""
    try:
        entry = msgspec.json.decode(line, type=Entry)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    unsigned = msgspec.structs.replace(entry, signature="")
    right = hmac.compare_digest(entry.signature.encode(), _signature(unsigned, key).encode())
    return entry if right and _encoded(entry) == line else None


def _encoded(entry: Entry) -> bytes:
    return msgspec.json.encode(entry) + b"\n"


def _signature(unsigned: Entry, key: bytes) -> str:
    return hmac.new(key, _encoded(unsigned), hashlib.sha256).hexdigest()


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _last_line(file: IO[bytes]) -> bytes:
    """With its end; empty for an empty file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _MOST_LINE_BYTES))
    return (file.read().splitlines(keepends=True) or [b""])[-1]


def _lines(path: Path) -> list[bytes]:
    try:
        if path.stat().st_size > 2 * MOST_BYTES:
            raise ConfigError(f"{path} is larger than a journal gets: name another file")
        return path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise ConfigError(f"cannot read the journal {path}: {error.strerror}") from None


def _key(path: Path) -> bytes:
    try:
        return read_private(path).strip().encode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the journal's key: {error}; give it with --journal-key") from None


def _short(text: str) -> str:
    return text[:MOST_CHARACTERS].encode(errors="replace").decode()
