"""CURVE keys: one file for the verifier, one for each robot. Only their owner may read them."""

from __future__ import annotations

import contextlib
import os
import re
import struct
from pathlib import Path
from typing import TypeVar

import msgspec
import zmq
from zmq.utils import z85

from outrider.core.errors import ConfigError
from outrider.core.private_files import make_private_folder, open_private, read_private

SERVER_KEY_FILE = "verifier.key"
_KEY_BYTES = 32
_Keys = TypeVar("_Keys")


class ServerKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The verifier's key pair and the public keys of the robots it lets in, by name."""

    public: str
    secret: str
    robots: dict[str, str]

    def __repr__(self) -> str:
        """Without the secret: what is printed ends in logs."""
        return f"ServerKeys(public={self.public!r}, robots={sorted(self.robots)})"


class ClientKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A robot's key pair and the public key of its verifier."""

    public: str
    secret: str
    server: str

    def __repr__(self) -> str:
        """Without the secret: what is printed ends in logs."""
        return f"ClientKeys(public={self.public!r}, server={self.server!r})"


def create_keys(folder: Path, robots: tuple[str, ...] = ("robot",)) -> list[Path]:
    """Write `verifier.key` and one `<robot>.key` each (mode 0600).

    Raises ConfigError, and leaves nothing behind, where one of them exists already or cannot be written.
    """
    for name in robots:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) or f"{name}.key" == SERVER_KEY_FILE:
            raise ConfigError(f"robot name {name!r}: use letters, digits, - and _, and not `verifier`")
    server, keys = make_keys(robots)
    clients = {folder / f"{name}.key": client for name, client in keys.items()}
    files = {folder / SERVER_KEY_FILE: server, **clients}
    for path in files:
        if os.path.lexists(path):
            raise _exists(path)
    make_private_folder(folder)
    with contextlib.ExitStack() as undo:  # all files or none
        for path, content in files.items():
            _write(path, content, undo)
        undo.pop_all()
    return list(files)


def make_keys(robots: tuple[str, ...]) -> tuple[ServerKeys, dict[str, ClientKeys]]:
    """A verifier's keys and those of robots, by name."""
    public, secret = _key_pair()
    pairs = {name: _key_pair() for name in robots}
    server = ServerKeys(public, secret, {name: pair[0] for name, pair in pairs.items()})
    return server, {name: ClientKeys(*pair, public) for name, pair in pairs.items()}


def load_server_keys(path: Path) -> ServerKeys:
    """Raises ConfigError where the file is missing, open to others, or damaged."""
    keys = _load(path, ServerKeys)
    _check(path, keys.public, keys.secret, *keys.robots.values())
    return keys


def load_client_keys(path: Path) -> ClientKeys:
    """Raises ConfigError where the file is missing, open to others, or damaged."""
    keys = _load(path, ClientKeys)
    _check(path, keys.public, keys.secret, keys.server)
    return keys


def _key_pair() -> tuple[str, str]:
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


def _exists(path: Path) -> ConfigError:
    return ConfigError(f"{path} exists already: move it away or choose another folder")


def _write(path: Path, keys: msgspec.Struct, undo: contextlib.ExitStack) -> None:
    try:  # exclusively: another may have made the file since it was looked for
        with open_private(path, "xb") as file:
            undo.callback(_remove, path)
            file.write(msgspec.json.format(msgspec.json.encode(keys)) + b"\n")
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise ConfigError(f"cannot write {path} ({error.strerror}): choose another folder") from None


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # the folder may have become read-only
        path.unlink()


def _load(path: Path, kind: type[_Keys]) -> _Keys:
    try:
        return msgspec.json.decode(read_private(path), type=kind)
    except OSError as error:
        raise ConfigError(
            f"cannot read the key file {path}: {error.strerror}; `outrider keys` makes one"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a key file of this kind: {error}") from None


def _check(path: Path, *keys: str) -> None:
    if not all(map(_is_key, keys)):
        raise ConfigError(f"{path} holds a damaged key: make new ones")


def _is_key(text: str) -> bool:
    """Whether libzmq takes it for a key; what it does not take it refuses without a word why."""
    try:
        return len(z85.decode(text)) == _KEY_BYTES
    except (ValueError, KeyError, struct.error):  # too few, unknown or too high characters
        return False
