# SPDX-License-Identifier: Apache-2.0
"""Emulated networks: named ones from config/links.yaml, or one from a user's file."""

from __future__ import annotations

from pathlib import Path

import msgspec

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import cause_of, read_file
from outrider.core.link_profile import Network, NetworkDescription
from outrider.runtime.common.paths import config_file
from outrider.wire.emulator import Emulation

LINKS_FILE = "links.yaml"
LOOPBACK = "loopback"
"""The network without delay. It is emulated so that people can switch to others."""
ROUND_TRIP_MS = 1.0, 600.0
"""The range from a LAN's round trip to a geostationary satellite's."""


def named_networks() -> dict[str, Network]:
    """Returns every network that comes with the package."""
    return _read(config_file(LINKS_FILE))


def network_at(name_or_file: str, round_trip_ms: float) -> Network:
    """Returns a network with this shortest round trip; with its own if that is 0. Raises ConfigError."""
    network, (least, most) = load_network(name_or_file), ROUND_TRIP_MS
    if round_trip_ms and not least <= round_trip_ms <= most:
        raise ConfigError(
            f"a round trip of {round_trip_ms:g} ms cannot be emulated: give one from {least:g} to "
            f"{most:g} ms, or 0 for the link's own"
        )
    return network.with_round_trip(round_trip_ms / 1000.0) if round_trip_ms else network


def load_network(name_or_file: str) -> Network:
    """Returns a network by its name, or the one that a file describes. Raises ConfigError."""
    networks = named_networks()
    if name_or_file in networks:
        return networks[name_or_file]
    if not Path(name_or_file).is_file():
        raise ConfigError(
            f"there is no link {name_or_file!r}: give one of {', '.join(networks)}, "
            f"or a file of the form of config/{LINKS_FILE}"
        )
    described = list(_read(Path(name_or_file)).values())
    if len(described) != 1:
        raise ConfigError(f"{name_or_file} describes {len(described)} links: leave one in it")
    return described[0]


def emulation_of(link_profile: str, round_trip_ms: float = 0.0) -> Emulation | None:
    """Returns the emulation of a network, given by name or file; None for an empty name.

    Raises ConfigError.
    """
    return Emulation(network_at(link_profile, round_trip_ms)) if link_profile else None


def _read(path: Path) -> dict[str, Network]:
    try:
        described = msgspec.yaml.decode(read_file(path), type=dict[str, NetworkDescription])
        return {name: description.network(name) for name, description in described.items()}
    except (OSError, UnicodeDecodeError, msgspec.DecodeError, ConfigError) as error:
        raise ConfigError(
            f"{path} describes no link ({cause_of(error)}): give a file of the form of config/{LINKS_FILE}"
        ) from None
