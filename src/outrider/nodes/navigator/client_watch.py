# SPDX-License-Identifier: Apache-2.0
"""Whether anybody is still there who could have sent the goal that runs, and could cancel it."""

from __future__ import annotations

from unique_identifier_msgs.msg import UUID

from outrider.nodes.common import qos
from outrider.nodes.common.node import OutriderNode
from outrider.runtime.mission.sender_signs import SenderSigns

# One look may fall between the end of a client and the beginning of another.
LOOKS = 4
NO_CLIENT = "the goal was cancelled: no action client is left, neither who sent it nor another"
NO_SENDER = "the goal was cancelled: the program that sent it, such as the console, has gone or hangs"


class ClientWatch:
    """Watches the sender of the goal that runs.

    Our own say that they are there: see `GoalSigns`. Of others a request does not say who sent it, so that
    all clients count together, by their subscriptions of the action's feedback: they are gone once none of
    them is left. Where none was ever found, as for a goal sent by `ros2 service call`, none can be missed.
    DDS forgets a client that ends in order at once, and one that was killed within some 20 s.
    """

    def __init__(self, node: OutriderNode, action: str) -> None:
        self._node, self._topic = node, node.resolve_topic_name(f"{action}/_action/feedback")
        self._signs = SenderSigns()
        self._watches = self._seen = False
        self._missed = 0
        node.subscription(UUID, "goal_sender", self._on_sign, qos.EVENTS)

    def begin(self, goal_id: UUID) -> None:
        """This goal runs from now on."""
        self._signs.begin(bytes(goal_id.uuid))
        self._seen, self._missed = False, 0
        self._watches = True

    def end(self) -> None:
        """No goal runs."""
        self._watches = False
        self._signs.end()

    def look(self) -> str:
        """Look anew, every LOOK_PERIOD_S; why nobody could cancel the goal that runs, or nothing."""
        if not self._watches:
            return ""
        if self._signs.are_missed():
            return NO_SENDER
        found = self._node.count_subscribers(self._topic) > 0
        self._seen = self._seen or found
        self._missed = 0 if found else self._missed + 1
        return NO_CLIENT if self._seen and self._missed >= LOOKS else ""

    def _on_sign(self, message: UUID) -> None:
        self._signs.heard(bytes(message.uuid))
