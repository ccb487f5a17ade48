# SPDX-License-Identifier: Apache-2.0
"""TCP ports of this machine: finds a free one, and checks an endpoint."""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from urllib.parse import urlsplit

from outrider.core.errors import ConfigError
from outrider.wire.endpoint import check_endpoint

PROBE_S = 1.0
_given: deque[int] = deque(maxlen=64)


def free_port() -> int:
    """Returns a TCP port of the loopback that is free and was not returned recently."""
    port = 0
    while not port or port in _given:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
    _given.append(port)
    return port


def check_endpoint_free(endpoint: str) -> None:
    """Raise ConfigError if an endpoint is malformed, or its TCP port is in use or needs missing rights."""
    check_endpoint(endpoint, to_bind=True)
    try:
        address = urlsplit(endpoint)
        port = address.port
    except ValueError as error:
        raise ConfigError(f"endpoint {endpoint!r} has no usable address ({error})") from None
    if port is None:
        return
    local = address.hostname, port
    with contextlib.suppress(OSError, UnicodeError), socket.create_connection(local, PROBE_S):
        raise ConfigError(f"port {port} is in use: stop its listener or give another endpoint")
    with contextlib.suppress(OSError), socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except PermissionError:
            raise ConfigError(
                f"port {port} needs the rights of root: give an endpoint with a port from 1024 on"
            ) from None
