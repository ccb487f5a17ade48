# SPDX-License-Identifier: Apache-2.0
"""Files of a model that cannot be read: without the right to, or where a clone without Git LFS holds a few
lines in their place.
"""

from __future__ import annotations

from pathlib import Path

from outrider.core.errors import ModelError
from outrider.core.files.given_file import open_file

_BEGIN = b"version https://git-lfs.github.com/spec/"


def unreadable(path: Path, why: str) -> ModelError:
    """The error for a model's file that cannot be read: `why`, unless this user may not read it, or it is the
    pointer of Git LFS to it.
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
