# SPDX-License-Identifier: Apache-2.0
"""The networks that published models are tried over."""

from __future__ import annotations

from collections.abc import Collection

from outrider.core.errors import ConfigError
from outrider.core.link_profile import LinkProfile, Network
from outrider.runtime.common.links import load_network

COLOCATED = "0 ms"
ONE_WAY_MS = (0, 20, 100)
NAMED_LINKS = ("wifi6", "lte", "blackout")


def networks() -> dict[str, Network]:
    """Returns plain delays, from 0 ms (draft and target co-located), and the links of config/links.yaml."""
    directions = {f"{ms} ms": LinkProfile(delay_s=ms / 1e3) for ms in ONE_WAY_MS}
    plain = {name: Network(name, direction, direction) for name, direction in directions.items()}
    return plain | {name: load_network(name) for name in NAMED_LINKS}


def chosen_networks(names: Collection[str]) -> dict[str, Network]:
    """Returns COLOCATED and the networks of these names, or all without names.

    Raises ConfigError for an unknown name.
    """
    known = networks()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"no network {', '.join(unknown)}: choose from {', '.join(known)}")
    return {name: network for name, network in known.items() if not names or name in (COLOCATED, *names)}
