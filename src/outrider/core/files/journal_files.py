# SPDX-License-Identifier: Apache-2.0
"""The files of a journal and its signed lines: the entries, and the head, which names the newest entry.

A line is the JSON of a value; `signature` is the HMAC-SHA256 of the value without it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path
from typing import TypeVar

import msgspec

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import in_home, read_file
from outrider.core.files.private_files import home_folder
from outrider.core.files.writing import replace_file

JOURNAL_SUFFIX = ".journal"
JOURNAL_VARIABLE = "OUTRIDER_JOURNAL"
MAX_BYTES = 8 << 20
OPENED, CLOSED, CONTINUED, LOST = "opened", "closed", "continued", "lost"
FULL = "the earlier file is full"
NOTHING = hashlib.sha256(b"").hexdigest()


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line. `at`: time in UTC; `who`: the client, or a part of the robot; `did`: a word such as `say`.

    `before` is the SHA-256 of the line before it.
    """

    n: int
    at: str
    who: str
    did: str
    what: str
    before: str
    signature: str = ""


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The newest entry's number and the SHA-256 of its line; before the first entry, 0 and NOTHING."""

    n: int = 0
    line: str = NOTHING
    signature: str = ""


_Signed = TypeVar("_Signed", Entry, Head)


def journal_at(path: str = "") -> Path:
    """Return the journal's file: the given one, else `$OUTRIDER_JOURNAL`, else one in the home folder."""
    setting = path or os.environ.get(JOURNAL_VARIABLE)
    return in_home(setting) if setting else home_folder() / f"robot{JOURNAL_SUFFIX}"


def key_of(journal: Path) -> Path:
    """Return the file of the key that signs a journal."""
    return journal.with_suffix(".journal_key")


def head_of(journal: Path) -> Path:
    """Return the file of a journal's head."""
    return journal.with_suffix(".journal_head")


def full_of(journal: Path) -> Path:
    """Return where a full journal is kept."""
    return journal.with_name(f"{journal.name}.1")


def changed_of(journal: Path) -> Path:
    """Return where a journal is kept that its writer found changed."""
    return journal.with_name(f"{journal.name}.changed")


def read_head(journal: Path, key: bytes) -> Head | None:
    """Return the head, or None without one written with this key. Raises ConfigError."""
    try:
        return read_line(read_file(head_of(journal)), key, Head)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read the journal's head {head_of(journal)}: {error.strerror}") from None


def write_head(journal: Path, n: int, line: str, key: bytes) -> None:
    """Replace the head, whole or not at all; it is on the disk on return. Raises ConfigError."""
    replace_file(head_of(journal), signed_line(Head(n, line), key))


def signed_line(unsigned: _Signed, key: bytes) -> bytes:
    """Return the line of a value, with its signature."""
    return _encoded(msgspec.structs.replace(unsigned, signature=_signature(unsigned, key)))


def read_line(line: bytes, key: bytes, kind: type[_Signed]) -> _Signed | None:
    """Return the value of a line, or None if it is not exactly as written with this key."""
    try:
        value = msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    unsigned = msgspec.structs.replace(value, signature="")
    right = hmac.compare_digest(value.signature.encode(), _signature(unsigned, key).encode())
    return value if right and _encoded(value) == line else None


def hash_of(line: bytes) -> str:
    """Return the SHA-256 of a line."""
    return hashlib.sha256(line).hexdigest()


def _encoded(value: Entry | Head) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def _signature(unsigned: Entry | Head, key: bytes) -> str:
    return hmac.new(key, _encoded(unsigned), hashlib.sha256).hexdigest()
