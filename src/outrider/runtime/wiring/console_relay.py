# SPDX-License-Identifier: Apache-2.0
"""`outrider relay`, and how a robot's console dials one."""

from __future__ import annotations

import logging
import resource
import threading
from contextlib import suppress
from pathlib import Path

from outrider.console.relay.app import serve_relay
from outrider.console.relay.robot_end import RobotEnd
from outrider.console.server import ConsoleSettings
from outrider.core.errors import ConfigError
from outrider.core.files.given_file import expanded
from outrider.core.files.private_files import HOME_FOLDER
from outrider.runtime.common.ending_signals import stopping_on_signals
from outrider.wire.endpoint import check_endpoint
from outrider.wire.keys import load_client_keys
from outrider.wire.tunnel import RelayTunnel, RobotTunnel

RELAY_TOKEN_FILE = HOME_FOLDER / "relay.token"
MOST_FILES = 1 << 16


def robot_end(endpoint: str, key_file: str) -> RobotEnd | None:
    """Returns what dials the relay at an endpoint; None without one.

    Raises ConfigError for a malformed endpoint, and for a key file that is missing or cannot be used.
    """
    if not endpoint:
        return None
    check_endpoint(endpoint)
    if not key_file:
        raise ConfigError(f"the relay {endpoint} needs this robot's key file: give relay_key_file")
    keys = load_client_keys(expanded(key_file))
    return RobotEnd(lambda: RobotTunnel(endpoint, keys))


def run_relay(endpoint: str, key_file: Path, settings: ConsoleSettings) -> None:
    """Serves a relay until interrupted.

    Raises ConfigError where an address, the keys, the token or the certificate cannot be used.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    have_descriptors()
    stopping = threading.Event()
    with stopping_on_signals(stopping):
        link = RelayTunnel(endpoint, key_file)
        try:
            server = serve_relay(link, settings)
        except ConfigError:
            link.close()
            raise
        print(f"relay at {server.url}{server.hints}; robots dial {endpoint}", flush=True)
        stopping.wait()
        server.close()


def have_descriptors() -> None:
    """Lets this process have as many open files as the system permits, up to MOST_FILES.

    Strangers who flood the robots' port hold a descriptor each until their handshake is overdue; without one
    to spare a page's stop would wait for that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
