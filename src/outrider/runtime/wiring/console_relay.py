# SPDX-License-Identifier: Apache-2.0
"""`outrider relay`, and the connection of a robot's console to a relay."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from outrider.console.relay.app import serve_relay
from outrider.console.relay.robot_end import RobotEnd
from outrider.console.server import ConsoleSettings
from outrider.core.errors import ConfigError
from outrider.core.files.given_file import in_home
from outrider.core.files.private_files import HOME_FOLDER
from outrider.runtime.common.descriptors import have_descriptors
from outrider.runtime.common.ending_signals import stopping_on_signals, wait_for_ending
from outrider.wire.endpoint import check_endpoint
from outrider.wire.keys import load_client_keys
from outrider.wire.tunnel import RelayTunnel, RobotTunnel

RELAY_TOKEN_FILE = HOME_FOLDER / "relay.token"


def robot_end(endpoint: str, key_file: str) -> RobotEnd | None:
    """Returns the robot's connection to the relay at an endpoint; None without an endpoint.

    Raises ConfigError for a malformed endpoint, and for a key file that is missing or unusable.
    """
    if not endpoint:
        return None
    check_endpoint(endpoint)
    if not key_file:
        raise ConfigError(f"the relay {endpoint} needs this robot's key file: give relay_key_file")
    keys = load_client_keys(in_home(key_file))
    return RobotEnd(lambda: RobotTunnel(endpoint, keys))


def run_relay(endpoint: str, key_file: Path, settings: ConsoleSettings) -> None:
    """Serve a relay until interrupted.

    Raises ConfigError if an address, the keys, the token or the certificate cannot be used.
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
        wait_for_ending(stopping)
        server.close()
