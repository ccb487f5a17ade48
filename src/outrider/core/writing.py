"""Files that people ask for: a system that refuses to write them gives an error that says so."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from outrider.core.errors import ConfigError


@contextlib.contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Inside, the system's refusal to write is a ConfigError that names the path."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {path} ({error.strerror}): choose another place") from error


def make_folder(folder: Path) -> None:
    """The folder, and those above it. Raises ConfigError."""
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)


def checked_file(file: Path | None) -> Path | None:
    """The file, where one is wanted and can be written: asked before long work and not after it.

    Raises ConfigError.
    """
    if file is not None:
        checked_folder(file.parent)
        if file.is_dir():
            raise ConfigError(f"{file} is a folder: name a file")
        if file.exists() and not os.access(file, os.W_OK):
            raise ConfigError(f"cannot write {file}: choose another place")
    return file


def checked_folder(folder: Path | None) -> Path | None:
    """The folder, made where it is missing. Raises ConfigError where nothing can be written there."""
    if folder is not None:
        make_folder(folder)
        if not os.access(folder, os.W_OK):
            raise ConfigError(f"cannot write into {folder}: choose another place")
    return folder
