# SPDX-License-Identifier: Apache-2.0
"""A secret in its own file, which is created if it does not exist."""

from __future__ import annotations

import secrets
from pathlib import Path

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import cause_of
from outrider.core.files.private_files import make_private_folder, read_private
from outrider.core.files.writing import alone_in, write_new

MIN_CHARACTERS = 16


def load_secret(path: Path, what: str) -> str:
    """Return the secret in a file, which is created (mode 0600) if missing. `what` names it in messages.

    Raises ConfigError for a secret that others may read, that cannot be created, or that is too short.
    """
    try:
        if not path.exists():
            make_private_folder(path.parent)
        with alone_in(path.parent):  # so that only one of several processes creates it
            if not path.exists():
                _create(path)
            secret = read_private(path).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot make or read the {what} file {path} ({cause_of(error)}): choose another"
        ) from error
    return _checked(secret, path, what, "delete the file to have one made")


def read_secret(path: Path, what: str, advice: str) -> str:
    """Return the secret of another process from a file that this process never creates.

    Raises ConfigError, with `advice`, for a file that cannot be read or is too short.
    """
    try:
        secret = read_private(path).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the {what} file {path} ({cause_of(error)}): {advice}") from None
    return _checked(secret, path, what, advice)


def _checked(secret: str, path: Path, what: str, advice: str) -> str:
    if len(secret) < MIN_CHARACTERS:
        raise ConfigError(f"the {what} in {path} is shorter than {MIN_CHARACTERS} characters: {advice}")
    return secret


def _create(path: Path) -> None:
    write_new(path, f"{secrets.token_urlsafe(32)}\n".encode())
