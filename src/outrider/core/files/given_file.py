# SPDX-License-Identifier: Apache-2.0
"""Files that a person names: what is no file, and may never end, is refused at once."""

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


def expanded(path: str | Path) -> Path:
    """The path with the home folder that a `~` stands for. Raises ConfigError where there is none."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigError(
            f"{path} is in a home folder that is not known: set HOME, or give another path"
        ) from None


def check_file(path: Path) -> None:
    """Raises OSError for what is no file, or is not there."""
    _check_kind(path.stat(), path)


def open_file(path: Path) -> BinaryIO:
    """The file, opened for reading. Raises OSError, for what is no file too, and never waits for it."""
    check_file(path)  # to open a socket fails for another reason, and to open a device may do something
    return open(path, "rb", opener=_open_descriptor)


def read_file(path: Path) -> bytes:
    """What a file holds. Raises OSError as `open_file` does."""
    with open_file(path) as file:
        return file.read()


def read_text(path: Path) -> str:
    """What a file holds in UTF-8, its lines ended as Python has them, and without a byte order mark. Raises
    OSError as `open_file` does, and UnicodeDecodeError.
    """
    return read_file(path).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def _open_descriptor(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_kind(os.fstat(descriptor), Path(path))  # another file may have taken its place
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_kind(found: os.stat_result, path: Path) -> None:
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "")
    if kind:
        raise OSError(errno.EINVAL, f"it is {kind}, and no file", str(path))
