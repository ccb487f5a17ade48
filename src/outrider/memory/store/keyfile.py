# SPDX-License-Identifier: Apache-2.0
"""The key of an encrypted store: 32 random bytes in a file that only its owner may read."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from outrider.core.errors import ConfigError, StoreInputError
from outrider.core.files.given_file import cause_of
from outrider.core.files.private_files import make_private_folder, read_private
from outrider.core.files.writing import write_new


def make_key(path: Path) -> str:
    """Write a new key (mode 0600) and return it; StoreInputError if the file exists already."""
    key = secrets.token_hex(32)
    try:
        make_private_folder(path.parent)
        write_new(path, f"{key}\n".encode())
    except FileExistsError:
        raise StoreInputError(f"{path} exists already: a key is never replaced") from None
    except ConfigError as error:
        raise StoreInputError(str(error)) from error
    except OSError as error:
        raise StoreInputError(f"the key file {path} cannot be written: {error.strerror}") from error
    return key


def read_key(path: Path) -> str:
    """Returns the key in a file. Raises StoreInputError if it is missing, open to others, or no key."""
    try:
        key = read_private(path).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreInputError(f"the key file {path} cannot be read: {cause_of(error)}") from error
    except ConfigError as error:
        raise StoreInputError(str(error)) from error
    if not re.fullmatch(r"[0-9a-fA-F]{64}", key):
        raise StoreInputError(f"{path} holds no key: it must be 64 hexadecimal digits")
    return key
