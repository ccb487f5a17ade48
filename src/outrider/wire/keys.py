# SPDX-License-Identifier: Apache-2.0
"""CURVE keys: one file for the verifier and one for each robot, readable only by their owner."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec
import zmq
from zmq.utils import z85

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import cause_of
from outrider.core.files.private_files import cannot_write, make_private_folder, read_private
from outrider.core.files.writing import alone_in, replace_file, write_new

SERVER_KEY_FILE = "verifier.key"
_KEY_BYTES = 32
_log = logging.getLogger(__name__)
_Keys = TypeVar("_Keys")


class ServerKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The verifier's key pair and the public keys of the robots that it admits, by name."""

    public: str
    secret: str
    robots: dict[str, str]

    def __repr__(self) -> str:
        """Omit the secret, because printed values end up in logs."""
        return f"ServerKeys(public={self.public!r}, robots={sorted(self.robots)})"


class ClientKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A robot's key pair and the public key of its verifier."""

    public: str
    secret: str
    server: str

    def __repr__(self) -> str:
        """Omit the secret, because printed values end up in logs."""
        return f"ClientKeys(public={self.public!r}, server={self.server!r})"


def create_keys(folder: Path, robots: tuple[str, ...] = ("robot",)) -> list[Path]:
    """Write `verifier.key` and one `<robot>.key` per robot (mode 0600); return their paths.

    Raises ConfigError, and leaves no file behind, if one of them exists or cannot be written.
    """
    for name in robots:
        _check_name(name)
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


def add_robots(folder: Path, robots: tuple[str, ...]) -> list[Path]:
    """Admit more robots: write a `<robot>.key` for each, and add them to the list in `verifier.key`.

    Raises ConfigError, and changes nothing, if one is on the list or a file exists.
    """
    known = folder / SERVER_KEY_FILE
    with alone_in(folder):
        server = load_server_keys(known)
        for name in robots:
            _check_name(name)
            if name in server.robots:
                raise ConfigError(
                    f"robot {name!r} has a key already: revoke it first, or choose another name"
                )
        pairs = {name: _key_pair() for name in robots}
        files = {folder / f"{name}.key": ClientKeys(*pair, server.public) for name, pair in pairs.items()}
        for path in files:
            if os.path.lexists(path):
                raise _exists(path)
        added = {name: pair[0] for name, pair in pairs.items()}
        with contextlib.ExitStack() as undo:
            for path, content in files.items():
                _write(path, content, undo)
            _replace(known, msgspec.structs.replace(server, robots={**server.robots, **added}))
            undo.pop_all()
    return list(files)


def revoke_robots(folder: Path, robots: tuple[str, ...]) -> None:
    """Take robots off the list in `verifier.key`, and remove their key files from the folder.

    Raises ConfigError, and changes nothing, if one is not on the list.
    """
    known = folder / SERVER_KEY_FILE
    with alone_in(folder):
        server = load_server_keys(known)
        for name in robots:
            if name not in server.robots:
                on_list = ", ".join(sorted(server.robots)) or "nobody"
                raise ConfigError(f"robot {name!r} is not on the list of {known}: it holds {on_list}")
        kept = {name: key for name, key in server.robots.items() if name not in robots}
        _replace(known, msgspec.structs.replace(server, robots=kept))
        for name in robots:
            _remove(folder / f"{name}.key")


class KnownRobots:
    """The public keys that a verifier admits. Thread-safe.

    A changed key file is read again, so additions and revocations take effect with the next query.
    """

    def __init__(self, keys: ServerKeys, path: Path | None = None) -> None:
        """`path` is the file of the keys; without it they do not change."""
        self._path, self._fault = path, ""
        self._listed: tuple[tuple[int, int] | None, dict[bytes, str]] = None, _encoded(keys)
        """The stamp of the file that was read last, and its list; None for a file to be read again.

        They are replaced together, because another thread may be reading an older file.
        """

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all admitted robots."""
        return tuple(sorted(self._newest().values()))

    def __contains__(self, key: bytes) -> bool:
        return key in self._newest()

    def name_of(self, key: bytes) -> str | None:
        """Return the name of the admitted robot with this public key, or None."""
        return self._newest().get(key)

    def _newest(self) -> dict[bytes, str]:
        (stamp, known), present = self._listed, self._file_stamp()
        if self._path is None or stamp == present:
            return known
        try:
            known = _encoded(load_server_keys(self._path))
        except ConfigError as error:  # any robot may have been revoked on a list that cannot be read
            self._listed = None, {}
            if str(error) != self._fault:
                _log.error("nobody is let in until this is mended: %s", error)
            self._fault = str(error)
            return {}
        self._listed, self._fault = (present, known), ""
        return known

    def _file_stamp(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        try:
            status = self._path.stat()
        except OSError:
            return 0, 0
        return status.st_mtime_ns, status.st_ino


def _encoded(keys: ServerKeys) -> dict[bytes, str]:
    return {key.encode(): name for name, key in keys.robots.items()}


def make_keys(robots: tuple[str, ...]) -> tuple[ServerKeys, dict[str, ClientKeys]]:
    """Return a verifier's keys, and those of the robots by name."""
    public, secret = _key_pair()
    pairs = {name: _key_pair() for name in robots}
    server = ServerKeys(public, secret, {name: pair[0] for name, pair in pairs.items()})
    return server, {name: ClientKeys(*pair, public) for name, pair in pairs.items()}


def load_server_keys(path: Path) -> ServerKeys:
    """Load a verifier's keys. Raises ConfigError if the file is missing, readable by others, or damaged."""
    keys = _load(path, ServerKeys)
    _check(path, keys.public, keys.secret, keys.robots.values())
    return keys


def load_client_keys(path: Path) -> ClientKeys:
    """Load a robot's keys. Raises ConfigError if the file is missing, readable by others, or damaged."""
    keys = _load(path, ClientKeys)
    _check(path, keys.public, keys.secret, [keys.server])
    return keys


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) or f"{name}.key" == SERVER_KEY_FILE:
        raise ConfigError(f"robot name {name!r}: use letters, digits, - and _, and not `verifier`")


def _key_pair() -> tuple[str, str]:
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


def _exists(path: Path) -> ConfigError:
    return ConfigError(f"{path} exists already: move it away or choose another folder")


def _write(path: Path, keys: msgspec.Struct, undo: contextlib.ExitStack) -> None:
    try:  # exclusively, because another process may have made the file since the check
        write_new(path, _content(keys))
        undo.callback(_remove, path)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise cannot_write(path, error) from error


def _replace(path: Path, keys: msgspec.Struct) -> None:
    """Replace a file as a whole or not at all. Links are refused: their target would keep the old list."""
    replace_file(path, _content(keys))


def _content(keys: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(keys)) + b"\n"


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # the folder may be read-only now
        path.unlink()


def _load(path: Path, kind: type[_Keys]) -> _Keys:
    owner = "a verifier" if kind is ServerKeys else "a robot"
    try:
        content = read_private(path)
        if not content.strip():
            raise ConfigError(f"{path} is not a key file of {owner}: it is empty; `outrider keys` makes one")
        return msgspec.json.decode(content, type=kind)
    except OSError as error:
        raise ConfigError(
            f"cannot read the key file {path}: {error.strerror}; `outrider keys` makes one"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} is not a key file of {owner} ({cause_of(error)}): "
            "give the one that `outrider keys` made for it"
        ) from None


def _check(path: Path, public: str, secret: str, other_keys: Iterable[str]) -> None:
    """Raise ConfigError for an invalid key, or a public key that does not match the secret one."""
    are_keys = all(map(_is_key, (public, secret, *other_keys)))
    if not are_keys or zmq.curve_public(secret.encode()).decode() != public:
        raise ConfigError(f"{path} holds a damaged key: make new ones")


def _is_key(text: str) -> bool:
    """Return whether libzmq accepts a text as a key; it refuses others without giving a reason."""
    try:
        return len(z85.decode(text)) == _KEY_BYTES
    except (ValueError, KeyError, struct.error):  # too few characters, or characters outside the alphabet
        return False
