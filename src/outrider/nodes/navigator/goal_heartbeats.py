# SPDX-License-Identifier: Apache-2.0
"""Heartbeats that show the navigator that a goal's sender is still there and could cancel it."""

from __future__ import annotations

import uuid
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from unique_identifier_msgs.msg import UUID

from outrider.nodes.common import qos
from outrider.runtime.mission.sender_heartbeats import HEARTBEAT_PERIOD_S


class GoalHeartbeats:
    """Publishes the id of the current goal, in real time and from the node's own thread.

    A process that has gone, is frozen or is stuck sends nothing. The node's owner destroys `publisher` and
    `timer`.
    """

    def __init__(self, node: Node) -> None:
        events = qos.without_events(of_publisher=True)
        self.publisher: Any = node.create_publisher(UUID, "goal_sender", qos.COMMAND, event_callbacks=events)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.timer: Any = node.create_timer(HEARTBEAT_PERIOD_S, self._publish, clock=steady)
        self.timer.cancel()
        self._goal: UUID | None = None

    @property
    def has_subscriber(self) -> bool:
        """Whether there is a navigator that subscribes."""
        return bool(self.publisher.get_subscription_count())

    def start(self) -> UUID:
        """Returns the id for a new goal, published at once so that it arrives no later than the goal."""
        self._goal = UUID(uuid=list(uuid.uuid4().bytes))
        self._publish()
        self.timer.reset()
        return self._goal

    def stop(self) -> None:
        """Stop the heartbeats: the goal has ended."""
        self._goal = None
        self.timer.cancel()

    def _publish(self) -> None:
        if self._goal is not None:
            self.publisher.publish(self._goal)
