# SPDX-License-Identifier: Apache-2.0
"""Watches whether the navigator that has a goal is still there: a restarted one does not have it."""

from __future__ import annotations

from rclpy.node import Node


class ServerWatch:
    """Compares the publishers of an action's status with those when it was made.

    A server that was killed stays in the graph for some seconds. So a new publisher is the evidence, not a
    missing one.
    """

    def __init__(self, node: Node, action: str) -> None:
        self._node, self._topic = node, node.resolve_topic_name(f"{action}/_action/status")
        self._first = self._publishers()

    def is_replaced(self) -> bool:
        """Whether there is a server now that was not there at first."""
        return bool(self._publishers() - self._first)

    def _publishers(self) -> set[tuple[int, ...]]:
        return {tuple(end.endpoint_gid) for end in self._node.get_publishers_info_by_topic(self._topic)}
