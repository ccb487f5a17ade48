# SPDX-License-Identifier: Apache-2.0
"""Files that people ask for. If the system refuses to write one, the error says so."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import in_home
from outrider.core.files.private_files import cannot_write, keep_private, make_missing, open_private

ANIMATION_SUFFIX = ".webp"
ALONE_S, LOOK_S = 5.0, 0.01


@contextlib.contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Inside, raise ConfigError with the path if the system refuses to write."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


@contextlib.contextmanager
def alone_in(folder: Path, wait_s: float = ALONE_S) -> Iterator[None]:
    """Exclude other processes that use `alone_in` for this folder, so that no change is lost.

    Waits for at most `wait_s`, then goes on without the lock: in a folder that others may read, they could
    hold it forever.
    """
    until_s = time.monotonic() + wait_s
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):  # the folder is missing, or its file system has no locks
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, descriptor)
            while not try_lock(descriptor) and time.monotonic() < until_s:
                time.sleep(LOOK_S)
        yield


def try_lock(descriptor: int) -> bool:
    """Lock an open file; False if another process holds the lock. True if its file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def replace_file(path: Path, content: bytes) -> None:
    """Replace a private file as `replacing` does. Raises ConfigError."""
    with replacing(path) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Replace a private file, whole or not at all, even after an error, on a full disk or after a kill.

    What cannot be replaced is written in place: a device, or a file in a read-only folder. Raises
    ConfigError.
    """
    in_place = path.is_symlink() or (path.exists() and not (path.is_file() and _is_writable(path.parent)))
    if in_place:
        with writing_to(path), open_private(path, "wb") as file:
            yield file
        return
    keep_private(path)
    with writing_to(path), unfinished(path) as partial:
        with _filled(partial) as file:
            yield file
        partial.replace(path)


def write_new(path: Path, content: bytes) -> None:
    """Create a file, written like `replace_file`: no process ever reads a part of it.

    Raises OSError, FileExistsError if it exists, and ConfigError like `open_private`.
    """
    with unfinished(path) as partial:
        with _filled(partial) as file:
            file.write(content)
        try:
            os.link(partial, path)
        except FileExistsError:
            raise
        except OSError:  # the file system has no hard links
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
            partial.replace(path)


def append_whole(file: IO[bytes], content: bytes) -> None:
    """Append content and flush it to the disk; if the system refuses, append nothing and raise OSError."""
    file.flush()
    descriptor, rest = file.fileno(), memoryview(content)
    size = os.fstat(descriptor).st_size
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


@contextlib.contextmanager
def _filled(partial: Path) -> Iterator[IO[bytes]]:
    with open_private(partial, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def unfinished(path: Path, gives_up: Callable[[], bool] | None = None) -> Iterator[Path]:
    """Yield a private file next to `path`, to be written and renamed to `path`; else it is removed.

    Its name is always the same, so that what a kill leaves is overwritten. While another process writes
    `path`, this waits until `gives_up` returns True, by default for ALONE_S. Raises OSError, and
    ConfigError like `open_private` or after giving up.
    """
    partial, until_s = path.with_name(f"{path.name}.partial"), time.monotonic() + ALONE_S
    with _held(partial, gives_up or (lambda: time.monotonic() > until_s)) as file:
        try:
            yield partial
        finally:
            if _is_at(partial, file):  # it may be another process's file by now
                partial.unlink()


@contextlib.contextmanager
def replaced_in(folder: Path) -> Iterator[Path]:
    """Yield a folder; at the end its files replace those of the same name in `folder`, each as a whole.

    What a kill leaves of it is removed the next time.
    """
    made = folder / ".partial"
    with alone_in(folder):
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        try:
            yield made
            for file in sorted(made.iterdir()):
                with file.open("rb") as written:
                    os.fsync(written.fileno())
                file.replace(folder / file.name)
        finally:
            shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def _held(path: Path, gives_up: Callable[[], bool]) -> Iterator[IO[bytes]]:
    """Yield the file at `path`, created if missing, and locked; never one that has been renamed meanwhile."""
    while not gives_up():
        if path.is_fifo():  # writing to it might never end
            path.unlink(missing_ok=True)
        with open_private(path, "ab") as file:
            if try_lock(file.fileno()) and _is_at(path, file):
                yield file
                return
        time.sleep(LOOK_S)
    raise ConfigError(f"another process is writing {path}: wait until it has ended, or choose another place")


def _is_at(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def make_folder(folder: Path) -> None:
    """Create the folder and those above it, new ones for their owner alone.

    Raises ConfigError if nothing can be written there.
    """
    with writing_to(folder):
        make_missing(folder)
        with tempfile.TemporaryFile(dir=folder):  # permissions alone do not say
            pass


def checked_file(file: Path | None) -> Path | None:
    """Return the file if one is given and can be written, so that long work does not fail at its end.

    An existing file is not changed. Raises ConfigError.
    """
    if file is not None:
        with writing_to(file):
            if file.is_dir():
                raise ConfigError(f"{file} is a folder: name a file")
            if file.exists():
                file.open("ab").close()
            else:
                checked_folder(file.parent)
    return file


def checked_replaced(file: Path | None) -> Path | None:
    """Like `checked_file`, for `replace_file`; also refuses links to files and the standard output's file."""
    if checked_file(file) is None or file is None:
        return None
    if file.is_file() and _is_standard_output(file):
        raise ConfigError(f"{file} is where the printed output goes: choose another file")
    if file.is_symlink() and (file.is_file() or not file.exists()):
        raise ConfigError(f"{file} is a link: remove it, or name the file it leads to")
    return file


def _is_standard_output(file: Path) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(1))
    except OSError:  # it is closed
        return False


def check_not_read(output: Path | None, inputs: Iterable[object]) -> None:
    """Raise ConfigError if a file to be written is one of the inputs, which would be lost."""
    if output is None or not output.is_file():
        return
    if any(_is_same(output, source) for source in inputs if isinstance(source, (str, Path)) and str(source)):
        raise ConfigError(f"{output} is what is read here: choose another file to write")


def _is_same(output: Path, other: str | Path) -> bool:
    try:
        return in_home(other).samefile(output)
    except (OSError, ValueError, ConfigError):  # not the name of a file, such as a long sentence
        return False


def checked_animation(file: Path | None) -> Path | None:
    """Like `checked_file`, for the file of an animation."""
    if file is not None and file.suffix != ANIMATION_SUFFIX:
        raise ConfigError(f"the animation {file} must end in {ANIMATION_SUFFIX}: name another file")
    return checked_file(file)


def checked_folder(folder: Path | None) -> Path | None:
    """Return the folder if one is given and can be created and written; leave nothing new behind.

    Raises ConfigError.
    """
    if folder is not None:
        missing = list(itertools.takewhile(lambda parent: not parent.exists(), (folder, *folder.parents)))
        try:
            make_folder(folder)
        finally:
            for made in missing:
                with contextlib.suppress(OSError):  # another process may have put something there
                    made.rmdir()
    return folder
