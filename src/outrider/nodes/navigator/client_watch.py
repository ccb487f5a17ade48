# SPDX-License-Identifier: Apache-2.0
"""Whether anybody is still there who could have sent the goal that runs, and could cancel it."""

from __future__ import annotations

from rclpy.node import Node

LOOK_PERIOD_S = 0.5
# One look may fall between the end of a client and the beginning of another.
LOOKS = 2


class ClientWatch:
    """Counts an action's clients while one goal runs, by their subscriptions of its feedback.

    A request does not say who sent it, so that the clients count together: they are gone once none of them is
    left. Where none was ever found, as for a goal sent by `ros2 service call`, none can be missed. DDS
    forgets a client that ends in order at once, and one that was killed within some 20 s.
    """

    def __init__(self, node: Node, action: str) -> None:
        self._node, self._topic = node, node.resolve_topic_name(f"{action}/_action/feedback")
        self._seen, self._missed = False, 0

    def look(self) -> None:
        """Count them anew; call it every LOOK_PERIOD_S."""
        found = self._node.count_subscribers(self._topic) > 0
        self._seen = self._seen or found
        self._missed = 0 if found else self._missed + 1

    @property
    def are_gone(self) -> bool:
        """Whether none is left of those that were there."""
        return self._seen and self._missed >= LOOKS
