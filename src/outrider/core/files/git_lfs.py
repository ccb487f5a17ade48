# SPDX-License-Identifier: Apache-2.0
"""Errors for a model's files that cannot be read: without permission, or as pointers of Git LFS.

A clone without Git LFS has a few lines of text in place of each large file.
"""

from __future__ import annotations

from pathlib import Path

from outrider.core.errors import ModelError
from outrider.core.files.given_file import open_file

_BEGIN = b"version https://git-lfs.github.com/spec/"


def unreadable(path: Path, why: str) -> ModelError:
    """Return the error for a model's file that cannot be read.

    The reason is `why`, unless this user has no permission or the file is a Git LFS pointer.
    """
    try:
        with open_file(path) as file:
            is_pointer = file.read(len(_BEGIN)) == _BEGIN
    except PermissionError as error:
        return ModelError(f"{path} may not be read ({error.strerror}): ask its owner for the right to")
    except OSError:
        is_pointer = False
    if is_pointer:
        return ModelError(
            f"{path} is a Git LFS pointer, not the file itself: run `git lfs pull` in its folder"
        )
    return ModelError(f"{path} {why}")
