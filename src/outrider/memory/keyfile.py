"""The key of an encrypted store: 32 random bytes in a file that only its owner may read."""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path

from outrider.core.errors import MemoryStoreError


def make_key(path: Path) -> str:
    """Write a new key (mode 0600) and return it; MemoryStoreError where the file exists already."""
    key = secrets.token_hex(32)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(key + "\n")
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise MemoryStoreError(f"{path} exists already: a key is never replaced") from None
    except OSError as error:
        raise MemoryStoreError(f"the key file {path} cannot be written: {error.strerror}") from error
    return key


def read_key(path: Path) -> str:
    """The key in a file. MemoryStoreError where it is missing, open to others, or no key."""
    try:
        mode, content = path.stat().st_mode, path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise MemoryStoreError(f"the key file {path} cannot be read: {error}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise MemoryStoreError(f"{path} can be read by others: run `chmod 600 {path}`")
    key = content.strip()
    if not re.fullmatch(r"[0-9a-f]{64}", key):
        raise MemoryStoreError(f"{path} holds no key: it must be 64 hexadecimal digits")
    return key
