# SPDX-License-Identifier: Apache-2.0
"""Opens files that a person names, and refuses at once anything else, such as a pipe that never ends."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from outrider.core.errors import ConfigError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def in_home(path: str | Path) -> Path:
    """Return the path with the home folder in place of a leading `~` or `~user`.

    Shells do this only at the start of a word: not after `--key-file=` or `key_file:=`, and not in a file.
    Raises ConfigError if there is no such home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{path} is in a home folder that is not known: set HOME, or write the whole path"
        ) from error


def cause_of(error: Exception) -> str:
    """Return the cause that an error of the system, of UTF-8 or of a parser names, in one line."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no UTF-8 text"
    text = error.strerror if isinstance(error, OSError) else None
    return " ".join((text or str(error)).split()) or type(error).__name__


def check_file(path: Path) -> None:
    """Raise OSError if the path does not exist or is not a file."""
    _check_kind(path.stat(), path)


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading. Raises OSError, also for anything but a file, and never blocks."""
    check_file(path)  # first: opening a socket gives another error, and a device may have effects
    return open(path, "rb", opener=_open_descriptor)


def read_file(path: Path) -> bytes:
    """Return the content of a file. Raises OSError like `open_file`."""
    with open_file(path) as file:
        return file.read()


def read_text(path: Path) -> str:
    """Return the UTF-8 text of a file, with newlines as line ends and without a byte order mark.

    Raises OSError like `open_file`, and UnicodeDecodeError.
    """
    return read_file(path).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def _open_descriptor(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_kind(os.fstat(descriptor), Path(path))  # the file may have been replaced since
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_kind(found: os.stat_result, path: Path) -> None:
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "")
    if kind:
        raise OSError(errno.EINVAL, f"it is {kind}, and no file", str(path))
