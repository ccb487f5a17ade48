# SPDX-License-Identifier: Apache-2.0
"""What tells the navigator that whoever sent a goal is still there, and could cancel it."""

from __future__ import annotations

import uuid
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from unique_identifier_msgs.msg import UUID

from outrider.nodes.common import qos
from outrider.runtime.mission.sender_signs import SIGN_PERIOD_S


class GoalSigns:
    """Says the id of the goal that is held, by real time and from the node's own thread: a process that is
    gone, frozen or stuck says nothing. The node's owner destroys `publisher` and `timer`.
    """

    def __init__(self, node: Node) -> None:
        events = qos.without_events(of_publisher=True)
        self.publisher: Any = node.create_publisher(UUID, "goal_sender", qos.COMMAND, event_callbacks=events)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.timer: Any = node.create_timer(SIGN_PERIOD_S, self._say, clock=steady)
        self.timer.cancel()
        self._goal: UUID | None = None

    @property
    def are_heard(self) -> bool:
        """Whether a navigator listens."""
        return bool(self.publisher.get_subscription_count())

    def hold(self) -> UUID:
        """The id for a goal that is sent now; said at once, so that it comes no later than the goal."""
        self._goal = UUID(uuid=list(uuid.uuid4().bytes))
        self._say()
        self.timer.reset()
        return self._goal

    def release(self) -> None:
        """The goal has ended."""
        self._goal = None
        self.timer.cancel()

    def _say(self) -> None:
        if self._goal is not None:
            self.publisher.publish(self._goal)
