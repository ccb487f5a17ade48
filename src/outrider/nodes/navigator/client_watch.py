# SPDX-License-Identifier: Apache-2.0
"""Watches whether a client is still there that could cancel the running goal."""

from __future__ import annotations

from unique_identifier_msgs.msg import UUID

from outrider.nodes.common import qos
from outrider.nodes.common.node import OutriderNode
from outrider.runtime.mission.sender_heartbeats import SenderHeartbeats

# A single look may fall between the end of one client and the start of another.
LOOKS = 4
NO_CLIENT = "the goal was cancelled: no action client is left, neither who sent it nor another"
NO_SENDER = "the goal was cancelled: the program that sent it, such as the console, has gone or hangs"


class ClientWatch:
    """Watches the sender of the running goal.

    Outrider's clients send heartbeats (`GoalHeartbeats`). The goal of another client does not name its
    sender. So all clients count together, by their subscriptions to the action's feedback: they have gone
    once there is no subscription. If there was never one, as for a goal sent by `ros2 service call`, none is
    missed. DDS drops a client that ends in order at once, and one that was killed within about 20 s.
    """

    def __init__(self, node: OutriderNode, action: str) -> None:
        self._node, self._topic = node, node.resolve_topic_name(f"{action}/_action/feedback")
        self._heartbeats = SenderHeartbeats()
        self._is_watching = self._was_subscribed = False
        self._missed = 0
        node.subscription(UUID, "goal_sender", self._on_sign, qos.EVENTS)

    def begin(self, goal_id: UUID) -> None:
        """Watch the sender of this goal from now on."""
        self._heartbeats.begin(bytes(goal_id.uuid))
        self._was_subscribed, self._missed = False, 0
        self._is_watching = True

    def end(self) -> None:
        """Stop watching: no goal runs."""
        self._is_watching = False
        self._heartbeats.end()

    def look(self) -> str:
        """Look again, every POLL_PERIOD_S. Returns why nobody could cancel the running goal, or nothing."""
        if not self._is_watching:
            return ""
        if self._heartbeats.poll():
            return NO_SENDER
        is_subscribed = self._node.count_subscribers(self._topic) > 0
        self._was_subscribed = self._was_subscribed or is_subscribed
        self._missed = 0 if is_subscribed else self._missed + 1
        return NO_CLIENT if self._was_subscribed and self._missed >= LOOKS else ""

    def _on_sign(self, message: UUID) -> None:
        self._heartbeats.on_heartbeat(bytes(message.uuid))
