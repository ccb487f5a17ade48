# SPDX-License-Identifier: Apache-2.0
"""Checks of endpoints before they reach a socket."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import stat
from pathlib import Path

from outrider.core.errors import ConfigError

_TCP = re.compile(
    r"tcp://(?P<host>\[[0-9a-fA-F:.]+(?:%[\w.-]+)?\]|\w[\w.%-]*|\*):(?P<port>\d{1,5})", re.ASCII
)
_IPC = "ipc://"
_MAX_PATH_BYTES = 107
"""The longest ipc:// path that libzmq accepts."""
_PROBE_S = 1.0


def check_endpoint(endpoint: str, to_bind: bool = False) -> None:
    """Raise ConfigError unless libzmq accepts the endpoint and it reads tcp://HOST:PORT or ipc://PATH.

    The wildcard * for all addresses is allowed only to bind, not to connect. To bind, an ipc:// path must be
    free.
    """
    match = _TCP.fullmatch(endpoint)
    if match is not None and 1 <= int(match["port"]) <= 65535:
        if match["host"] == "*" and not to_bind:
            raise ConfigError(
                f"endpoint {endpoint!r} is every address of a machine, where one can only listen: give the "
                f"address of what listens, for example tcp://127.0.0.1:{match['port']}"
            )
        return
    path = endpoint.removeprefix(_IPC)
    if path in ("", endpoint):
        raise ConfigError(
            f"endpoint {endpoint!r} must read tcp://HOST:PORT, for example tcp://127.0.0.1:5757"
        )
    if not path.isprintable():
        raise ConfigError(
            f"endpoint {endpoint!r} holds control characters or bytes that are no text: give another"
        )
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise ConfigError(
            f"endpoint {endpoint!r} has a path of more than {_MAX_PATH_BYTES} bytes, "
            "for which the system has no room: give a shorter one"
        )
    if to_bind and not path.startswith("@"):
        _check_path_free(endpoint, Path(path))


def _check_path_free(endpoint: str, path: Path) -> None:
    """Raises ConfigError for what libzmq would remove: a file, or a socket at which somebody listens.

    Also for a path in a folder that does not exist.
    """
    if not os.path.isdir(path.parent):  # noqa: PTH112
        why = "is in a folder that does not exist or is closed to this user: choose another"
        raise ConfigError(f"endpoint {endpoint!r} {why}")
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:  # nothing is there, or binding says why not
        return
    if not is_socket:
        raise ConfigError(f"endpoint {endpoint!r} is the path of something that is no socket: give another")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):  # left by one that was killed
            return
        except OSError:
            pass
    raise ConfigError(f"{endpoint} is in use: stop what listens there, or choose another path")


def is_ipv6(endpoint: str) -> bool:
    """Return whether a checked endpoint is an IPv6 address, which libzmq accepts only if that is set.

    Host names do not count: with it set, libzmq would try none of their other addresses.
    """
    return endpoint.startswith("tcp://[")


def check_guarded(endpoint: str, guarded: bool) -> None:
    """Raise ConfigError for an endpoint to bind that is malformed, or reachable by others without keys."""
    check_endpoint(endpoint, to_bind=True)
    if not guarded and not is_loopback(endpoint):
        raise ConfigError(
            f"{endpoint} can be reached from other machines, which needs keys: "
            "give a key file (`outrider keys` makes one) or bind tcp://127.0.0.1:PORT"
        )


def is_loopback(endpoint: str) -> bool:
    """Return whether only this machine can reach a checked endpoint."""
    match = _TCP.fullmatch(endpoint)
    if match is None:
        return True
    host = match["host"].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
