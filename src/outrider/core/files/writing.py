# SPDX-License-Identifier: Apache-2.0
"""Files that people ask for: a system that refuses to write them gives an error that says so."""

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
from outrider.core.files.given_file import expanded
from outrider.core.files.private_files import cannot_write, keep_private, make_missing, open_private

ANIMATION_SUFFIX = ".webp"
ALONE_S, LOOK_S = 5.0, 0.01


@contextlib.contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Inside, the system's refusal to write is a ConfigError that names the path."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


@contextlib.contextmanager
def alone_in(folder: Path, wait_s: float = ALONE_S) -> Iterator[None]:
    """Whoever else is to be alone in this folder waits meanwhile: of two changes at once neither is lost.

    Waits for at most `wait_s`: in a folder that others may read, they can keep its lock for ever.
    """
    until_s = time.monotonic() + wait_s
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):  # there is no folder, or its file system has no locks
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, descriptor)
            while not try_lock(descriptor) and time.monotonic() < until_s:
                time.sleep(LOOK_S)
        yield


def try_lock(descriptor: int) -> bool:
    """Lock an open file; returns False where another process has. Without locks in its file system: True."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def replace_file(path: Path, content: bytes) -> None:
    """The file anew, as `replacing` has it. Raises ConfigError."""
    with replacing(path) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """The file anew and whole, or as it was, after an error, on a full disk or after a kill; private.

    What no file can take the place of is written in place: a device, or a file whose folder is read-only.
    Raises ConfigError.
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
    """A file that is not there yet, as `replace_file` writes it: nobody reads a part of it.

    Raises OSError, FileExistsError where it is there, and ConfigError as `open_private` does.
    """
    with unfinished(path) as partial:
        with _filled(partial) as file:
            file.write(content)
        try:
            os.link(partial, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without such links
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
            partial.replace(path)


def append_whole(file: IO[bytes], content: bytes) -> None:
    """At the end, and on the disk: all of it, or nothing where the system refuses. Raises OSError."""
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
    """A private file beside `path`, to be written and then to take its place; removed where it did not.

    It has always the same name, so that what a kill leaves is written over. Who else wants to write `path`
    waits meanwhile, until it `gives_up`: after ALONE_S. Raises OSError, and ConfigError as `open_private`
    does or where it gave up.
    """
    partial, until_s = path.with_name(f"{path.name}.partial"), time.monotonic() + ALONE_S
    with _held(partial, gives_up or (lambda: time.monotonic() > until_s)) as file:
        try:
            yield partial
        finally:
            if _is_at(partial, file):  # another's may be there by now
                partial.unlink()


@contextlib.contextmanager
def replaced_in(folder: Path) -> Iterator[Path]:
    """A folder for files that take the places of those of their names in `folder` at the end, each whole.

    What a kill leaves of it goes the next time.
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
    """The file at `path`, made where there is none, and locked; never one that has another name by now."""
    while not gives_up():
        if path.is_fifo():  # to write into one might never end
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
    """The folder, and those above it, new ones for their owner alone.

    Raises ConfigError where nothing can be written there.
    """
    with writing_to(folder):
        make_missing(folder)
        with tempfile.TemporaryFile(dir=folder):  # permissions alone do not tell
            pass


def checked_file(file: Path | None) -> Path | None:
    """The file, where one is wanted and can be written: tried before long work and not after it.

    What is there stays as it is until there is something to write. Raises ConfigError.
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
    """As `checked_file`, for `replace_file`: no link to a file, nor the file that standard output goes to."""
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
    """Raises ConfigError where a file that is to be written is one of the inputs: it would be lost."""
    if output is None or not output.is_file():
        return
    if any(_is_same(output, one) for one in inputs if isinstance(one, (str, Path)) and str(one)):
        raise ConfigError(f"{output} is what is read here: choose another file to write")


def _is_same(output: Path, given: str | Path) -> bool:
    try:
        return expanded(given).samefile(output)
    except (OSError, ValueError, ConfigError):  # no name of a file, such as a long sentence
        return False


def checked_animation(file: Path | None) -> Path | None:
    """As `checked_file`, for a file that an animation is to be written to."""
    if file is not None and file.suffix != ANIMATION_SUFFIX:
        raise ConfigError(f"the animation {file} must end in {ANIMATION_SUFFIX}: name another file")
    return checked_file(file)


def checked_folder(folder: Path | None) -> Path | None:
    """The folder, where one is wanted and can be made and written to; what this takes is not left behind.

    Raises ConfigError.
    """
    if folder is not None:
        missing = list(itertools.takewhile(lambda one: not one.exists(), (folder, *folder.parents)))
        try:
            make_folder(folder)
        finally:
            for made in missing:
                with contextlib.suppress(OSError):  # another process may have put something there
                    made.rmdir()
    return folder
