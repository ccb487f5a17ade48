# SPDX-License-Identifier: Apache-2.0
"""The navigator's emulated link and strategy for the console: sets parameters, reads diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rcl_interfaces.srv import SetParametersAtomically
from rclpy.parameter import Parameter

from outrider.console.switching.switches import Switch, Switches
from outrider.decoding.config import STRATEGIES
from outrider.nodes.common.node import OutriderNode
from outrider.runtime.common.links import ROUND_TRIP_MS, named_networks

NAVIGATOR, TOLD = "navigator", ("emulated", "round_trip_ms", "strategy")
GONE = "no navigator listens: is it running?"


class ConsoleSwitches:
    """Switches the navigator. `ask` is thread-safe. The node keeps its entities."""

    def __init__(self, node: OutriderNode) -> None:
        self._links = tuple(named_networks())
        self._in_force: Mapping[str, str] = {}
        self._client = node.create_client(SetParametersAtomically, f"{NAVIGATOR}/set_parameters_atomically")
        node.keep(self._client, node.destroy_client)

    def ask(self, asked: Switch, on_end: Callable[[str], None]) -> None:
        """Set the navigator's parameters, all or none.

        `on_end` gets the reason if that fails, else nothing.
        """
        if not self._client.service_is_ready():
            on_end(GONE)
            return

        def on_answer(future: Any) -> None:
            result = future.result().result
            on_end("" if result.successful else result.reason)

        parameters = [
            Parameter(name, value=value).to_parameter_msg() for name, value in _wanted(asked).items()
        ]
        request = SetParametersAtomically.Request(parameters=parameters)
        self._client.call_async(request).add_done_callback(on_answer)

    def news(self, values: Mapping[str, str]) -> Switches | None:
        """Returns the values in the navigator's diagnostics; None if they are not new."""
        told = {name: values[name] for name in TOLD if name in values}
        if len(told) < len(TOLD) or told == self._in_force:
            return None
        self._in_force = told
        return Switches(
            link=told["emulated"],
            rtt_ms=float(told["round_trip_ms"]),
            links=self._links,
            rtt_limits_ms=ROUND_TRIP_MS,
            strategy=told["strategy"],
            strategies=tuple(STRATEGIES),
        )


def _wanted(asked: Switch) -> dict[str, str | float]:
    """Returns the navigator's parameters for a request. A link without a round trip gets its own."""
    link = {"link_profile": asked.link} if asked.link else {}
    rtt = {"link_rtt_ms": asked.rtt_ms} if asked.asks_link else {}
    return {**link, **rtt, **({"strategy": asked.strategy} if asked.strategy else {})}
