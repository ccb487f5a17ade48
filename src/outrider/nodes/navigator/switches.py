# SPDX-License-Identifier: Apache-2.0
"""Switches parameters of a running navigator: the emulated link at once, the strategy between texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from outrider.core.errors import ConfigError
from outrider.core.link_profile import Network
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.nodes.navigator.navigator_settings import decoding_config
from outrider.runtime.common.links import network_at
from outrider.runtime.wiring.decoders import check_hedged
from outrider.runtime.wiring.robot_pair import Edge

NOT_EMULATED = (
    "the link to the verifier is not emulated, so that there is none to switch: start the navigator with "
    "link_profile, such as link_profile:=loopback"
)
LINK, STRATEGY = frozenset({"link_profile", "link_rtt_ms"}), "strategy"


class Switches:
    """Applies parameters that change. `value` returns the current one by name. Thread-safe."""

    def __init__(self, edge: Edge, value: Callable[[str], Any]) -> None:
        self._edge, self._value = edge, value

    def apply_live(self, changed: Mapping[str, Any]) -> None:
        """Apply all of the new values, or none. Raises ConfigError."""

        def value(name: str) -> Any:
            return changed[name] if name in changed else self._value(name)

        network = self._network(value) if LINK & changed.keys() else None
        if STRATEGY in changed:
            self._use(decoding_config(value))
        if network is not None and self._edge.emulation is not None:
            self._edge.emulation.follow(network)

    def in_force(self) -> dict[str, object]:
        """Returns the emulated link (empty if none), its shortest round trip, and the strategy."""
        emulation = self._edge.emulation
        network = emulation.network if emulation is not None else None
        return {
            "emulated": network.name if network else "",
            "round_trip_ms": round(network.round_trip_s * 1000.0, 1) if network else 0.0,
            "strategy": self._value(STRATEGY),
        }

    def strategy(self) -> str:
        """Returns the strategy of the newest text."""
        decoder = self._edge.decoder
        return decoder.strategy if isinstance(decoder, LinkedDecoder) else str(self._value(STRATEGY))

    def _network(self, value: Callable[[str], Any]) -> Network:
        if self._edge.emulation is None or not value("link_profile"):
            raise ConfigError(NOT_EMULATED)
        return network_at(value("link_profile"), value("link_rtt_ms"))

    def _use(self, config: DecodingConfig) -> None:
        if self._value("second_endpoint"):
            check_hedged(config)
        if not isinstance(self._edge.decoder, LinkedDecoder):
            raise ConfigError("this navigator has no decoding engine whose strategy could be switched")
        self._edge.decoder.use(config)
