# SPDX-License-Identifier: Apache-2.0
"""Files that only their owner may read, from their first byte on.

A file or folder gets its mode when it is created. The process's umask is not changed, because all threads
share it.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import stat
from pathlib import Path
from typing import IO, Any

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import in_home, open_file

log = logging.getLogger(__name__)

FILE_MODE, FOLDER_MODE = 0o600, 0o700
OTHERS = 0o077
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The system's errors for a full disk, a used-up quota and a file that may not grow."""
HOME_FOLDER = Path("~/.outrider")


def home_folder() -> Path:
    """Return the folder for files that nobody chose a place for. Raises ConfigError without a home."""
    return in_home(HOME_FOLDER)


def open_private(path: Path, mode: str) -> IO[Any]:
    """Open a file for writing, like `open` with this mode.

    The rights of an existing file are tightened before anything is written. Raises ConfigError for a link,
    for a file of another user, and if the system refuses; in mode `x`, FileExistsError for an existing
    file.
    """
    encoding = None if "b" in mode else "utf-8"
    try:
        return open(path, mode, encoding=encoding, opener=_open_descriptor)
    except FileExistsError:
        raise
    except OSError as error:
        raise cannot_write(path, error) from error


def write_private(path: Path, content: str) -> None:
    """Replace the content of a file, opened like `open_private`."""
    try:
        with open_private(path, "w") as file:
            file.write(content)
    except OSError as error:
        raise cannot_write(path, error) from error


def keep_private(path: Path) -> None:
    """Remove the rights of others from a file, if it exists. Raises ConfigError.

    The file is not opened, because closing it would release the locks that this process holds on it.
    """
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            raise _leads_away(path)
        if _is_open_to_others(found, path):
            path.chmod(FILE_MODE)
    except FileNotFoundError:
        return
    except OSError as error:
        _warn(path, error)


def make_private_folder(folder: Path) -> None:
    """Create a folder, and those above it, for its owner alone. Raises ConfigError.

    An existing folder keeps its rights, except Outrider's own in the home folder, which is tightened.
    """
    try:
        make_missing(folder)
        if _is_own(folder):
            _tighten_folder(folder)
    except OSError as error:
        raise ConfigError(
            f"cannot write {folder}: cannot make the folder ({error.strerror}); choose another place"
        ) from error


def make_missing(folder: Path) -> None:
    """Create the missing ones of a folder and those above it, for their owner alone. Raises OSError."""
    for missing in reversed(list(itertools.takewhile(_is_missing, (folder, *folder.parents)))):
        missing.mkdir(FOLDER_MODE, exist_ok=True)


def cannot_write(path: Path, error: OSError) -> ConfigError:
    """Return the error for a path that the system refuses to write."""
    room = "make room, or " if error.errno in NO_ROOM else ""
    return ConfigError(f"cannot write {path} ({error.strerror}): {room}choose another place")


def read_private(path: Path) -> str:
    """Return the text of an existing secret, without a byte order mark.

    Raises OSError, UnicodeDecodeError, and ConfigError for a file that others may read or another user may
    have written.
    """
    with open_file(path) as file:
        found = os.fstat(file.fileno())
        if stat.S_IMODE(found.st_mode) & OTHERS:
            raise ConfigError(f"{path} is open to other users: run `chmod 600 {path}`")
        if found.st_uid not in (os.geteuid(), 0):
            raise ConfigError(f"{path} belongs to another user: give a file of your own")
        return file.read().decode("utf-8-sig")


def tighten(descriptor: int, name: str) -> None:
    """Remove the rights of others from an open file. Raises ConfigError for a file of another user."""
    try:
        if _is_open_to_others(os.fstat(descriptor), name):
            os.fchmod(descriptor, FILE_MODE)
    except OSError as error:
        _warn(name, error)


def _is_open_to_others(found: os.stat_result, name: object) -> bool:
    if not stat.S_ISREG(found.st_mode):
        return False  # a terminal, a pipe
    if found.st_uid != os.geteuid():
        raise ConfigError(f"{name} belongs to another user: remove it, or choose another place")
    return bool(stat.S_IMODE(found.st_mode) & OTHERS)


def _warn(name: object, error: OSError) -> None:
    """Warn about a file system without rights, such as FAT on a USB stick."""
    log.warning("others may read %s: its file system keeps no rights (%s)", name, error.strerror)


def _leads_away(path: Path) -> ConfigError:
    return ConfigError(f"{path} is a link: remove it, or name the file it leads to")


def _open_descriptor(path: str, flags: int) -> int:
    location = Path(path)
    is_link = location.is_symlink()
    if is_link and (location.is_file() or not location.exists()):
        raise _leads_away(location)
    # Truncated only after the checks below; /dev/stdout is a link that may be followed.
    follow = 0 if is_link else os.O_NOFOLLOW
    descriptor = os.open(path, flags & ~os.O_TRUNC | follow | os.O_CLOEXEC, FILE_MODE)
    try:
        tighten(descriptor, path)
        if flags & os.O_TRUNC and stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_own(folder: Path) -> bool:
    with contextlib.suppress(ConfigError, PermissionError):  # no home folder, or another user's
        own = home_folder()
        return own.is_dir() and own.samefile(folder)
    return False


def _is_missing(folder: Path) -> bool:
    return not folder.is_dir()


def _tighten_folder(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise ConfigError(f"{folder} belongs to another user: choose another place")
    if stat.S_IMODE(found.st_mode) & OTHERS:
        folder.chmod(FOLDER_MODE)
