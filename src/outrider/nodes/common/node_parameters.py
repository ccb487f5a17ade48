# SPDX-License-Identifier: Apache-2.0
"""Reads parameters of another node, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rcl_interfaces.srv import GetParameters
from rclpy.node import Node


class NodeParameters:
    """Text parameters of another node: `values`, by name, once it has answered."""

    def __init__(self, owner: Node, node: str, names: Sequence[str]) -> None:
        """`node` is a name in the owner's namespace."""
        self.values: dict[str, str] = {}
        self._names, self._is_requested = tuple(names), False
        self._client = owner.create_client(GetParameters, f"{node}/get_parameters")

    def look(self) -> None:
        """Request the values once the node is available. The answer comes while the owner spins."""
        if not self._is_requested and self._client.service_is_ready():
            self._is_requested = True
            request = self._client.call_async(GetParameters.Request(names=list(self._names)))
            request.add_done_callback(self._on_answer)

    def _on_answer(self, future: Any) -> None:
        if future.exception() is None:
            values = [value.string_value for value in future.result().values]
            self.values = dict(zip(self._names, values, strict=False))
