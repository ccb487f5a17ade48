# SPDX-License-Identifier: Apache-2.0
"""The navigator's emulated link and strategy for the console: sets parameters, reads diagnostics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from rcl_interfaces.srv import SetParametersAtomically
from rclpy.parameter import Parameter

from outrider.console.switching.switches import Switch, Switches
from outrider.decoding.config import STRATEGIES
from outrider.nodes.common.node import OutriderNode
from outrider.runtime.common.links import ROUND_TRIP_MS, named_networks

NAVIGATOR, REPORTED = "navigator", ("emulated", "round_trip_ms", "strategy")
NO_NAVIGATOR = "no navigator listens: is it running?"


class ConsoleSwitches:
    """Switches the navigator. `ask` is thread-safe. The node keeps its entities."""

    def __init__(self, node: OutriderNode) -> None:
        self._links = tuple(named_networks())
        self._in_force: Mapping[str, str] = {}
        self._client = node.create_client(SetParametersAtomically, f"{NAVIGATOR}/set_parameters_atomically")
        node.keep(self._client, node.destroy_client)

    def ask(self, request: Switch, on_end: Callable[[str], None]) -> None:
        """Set the navigator's parameters, all or none.

        `on_end` gets the reason if that fails, else nothing.
        """
        if not self._client.service_is_ready():
            on_end(NO_NAVIGATOR)
            return

        def on_answer(future: Any) -> None:
            result = future.result().result
            on_end("" if result.successful else result.reason)

        parameters = [
            Parameter(name, value=value).to_parameter_msg() for name, value in _parameters_of(request).items()
        ]
        message = SetParametersAtomically.Request(parameters=parameters)
        self._client.call_async(message).add_done_callback(on_answer)

    def news(self, values: Mapping[str, str]) -> Switches | None:
        """Returns the values in the navigator's diagnostics; None if they are not new."""
        reported = {name: values[name] for name in REPORTED if name in values}
        if len(reported) < len(REPORTED) or reported == self._in_force:
            return None
        self._in_force = reported
        try:
            rtt_ms = float(reported["round_trip_ms"])
        except ValueError:  # another node's diagnostics
            return None
        if not math.isfinite(rtt_ms):
            return None
        return Switches(
            link=reported["emulated"],
            rtt_ms=rtt_ms,
            links=self._links,
            rtt_limits_ms=ROUND_TRIP_MS,
            strategy=reported["strategy"],
            strategies=tuple(STRATEGIES),
        )


def _parameters_of(request: Switch) -> dict[str, str | float]:
    """Returns the navigator's parameters for a request. A link without a round trip gets its own."""
    link = {"link_profile": request.link} if request.link else {}
    rtt = {"link_rtt_ms": request.rtt_ms} if request.asks_link else {}
    return {**link, **rtt, **({"strategy": request.strategy} if request.strategy else {})}
