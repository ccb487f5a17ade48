# SPDX-License-Identifier: Apache-2.0
"""Sends a person's commands to the navigator, one at a time, and reports how each ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from action_msgs.srv import CancelGoal
from outrider_interfaces.action import Navigate
from rclpy.action import ActionClient

from outrider.console.robot import GoalEnd
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.navigator.goal_heartbeats import GoalHeartbeats
from outrider.nodes.navigator.server_watch import ServerWatch

NAVIGATOR_WAIT_S = 5.0


@dataclass(frozen=True)
class UnsentGoal:
    """A command that waits for a navigator."""

    instruction: str
    on_end: Callable[[GoalEnd], None]
    until_s: float


@dataclass(eq=False)
class SentGoal:
    """A command that was sent to the navigator. `server_seen_s` is when the navigator was last seen."""

    on_end: Callable[[GoalEnd], None]
    server_seen_s: float
    server: ServerWatch


class GoalSender:
    """Sends commands from any thread. The node's thread calls `look` regularly.

    The node keeps the entities. Goals are sent from the node's thread: if an answer comes while another
    thread sends, rclpy's client has not registered the goal yet.
    """

    def __init__(self, node: OutriderNode, closed: str) -> None:
        """`closed` is the reason to send nothing until `open`."""
        self._node, self._closed = node, closed
        self._unsent: UnsentGoal | None = None
        self._sent: SentGoal | None = None
        self._lock = threading.Lock()
        self._cancelled = 0
        self._goals = ActionClient(node, Navigate, "navigate")
        node.keep(self._goals, lambda entity: entity.destroy())
        self._cancels = node.create_client(CancelGoal, "navigate/_action/cancel_goal")
        node.keep(self._cancels, node.destroy_client)
        self._heartbeats = GoalHeartbeats(node)
        node.keep(self._heartbeats.publisher, node.destroy_publisher)
        node.keep(self._heartbeats.timer, node.destroy_timer)
        self._send_trigger = node.create_guard_condition(self._send_unsent)
        node.keep(self._send_trigger, node.destroy_guard_condition)

    def open(self) -> None:
        """Allow goals to be sent."""
        with self._lock:
            self._closed = ""

    def close(self, reason: str) -> None:
        """Send nothing from now on. A command that still waits ends with the reason."""
        with self._lock:
            self._closed = reason
            unsent, self._unsent = self._unsent, None
        if unsent is not None:
            unsent.on_end(GoalEnd(False, reason))

    def send(self, instruction: str, on_end: Callable[[GoalEnd], None]) -> None:
        """Send a command. `on_end` is called once, from any thread; send nothing else before that."""
        with self._lock:
            closed = self._closed
            if not closed:
                self._unsent = UnsentGoal(instruction, on_end, time.monotonic() + NAVIGATOR_WAIT_S)
        if closed:
            on_end(GoalEnd(False, closed))
        else:
            self._send_trigger.trigger()

    def cancel(self) -> None:
        """Cancel all goals, whichever client sent them: an empty request means all."""
        with self._lock:
            unsent, self._unsent = self._unsent, None
            self._cancelled += 1
        if unsent is not None:
            unsent.on_end(GoalEnd(False, "cancelled"))
        if self._cancels.service_is_ready():
            self._cancels.call_async(CancelGoal.Request())

    def look(self) -> None:
        """Send the waiting command once there is a navigator, and notice if the navigator has gone."""
        self._send_unsent()
        self._watch_navigator()

    def _send_unsent(self) -> None:
        """Send the waiting command if the navigator is ready: a new one takes a moment to be found."""
        with self._lock:
            ready = self._goals.server_is_ready() and self._heartbeats.has_subscriber
            unsent = self._unsent
            if unsent is None or not (ready or time.monotonic() > unsent.until_s):
                return
            self._unsent, cancelled = None, self._cancelled
            sent = self._sent = SentGoal(unsent.on_end, time.monotonic(), ServerWatch(self._node, "navigate"))
        if not ready:
            self._end(sent, GoalEnd(False, "no navigator listens: is it running?"))
            return
        goal = Navigate.Goal(instruction=unsent.instruction)
        answer = self._goals.send_goal_async(goal, goal_uuid=self._heartbeats.start())
        answer.add_done_callback(lambda future: self._on_answer(future.result(), sent, cancelled))

    def _end(self, sent: SentGoal, end: GoalEnd) -> None:
        """End a command once; later news of it is ignored."""
        with self._lock:
            if self._sent is not sent:
                return
            self._sent = None
        self._heartbeats.stop()
        sent.on_end(end)

    def _watch_navigator(self) -> None:
        """End the command if the navigator has died: it would never end it."""
        sent = self._sent
        if sent is None:
            return
        if sent.server.is_replaced():
            self._end(sent, GoalEnd(False, "the navigator was started again and has lost the command"))
        elif self._goals.server_is_ready():
            sent.server_seen_s = time.monotonic()
        elif time.monotonic() - sent.server_seen_s > NAVIGATOR_WAIT_S:
            self._end(sent, GoalEnd(False, "the navigator has gone"))

    def _on_answer(self, handle: Any, sent: SentGoal, cancelled: int) -> None:
        if not handle.accepted:
            self._end(sent, GoalEnd(False, "the navigator is busy with another goal: stop it first"))
            return

        def on_result(future: Any) -> None:
            result = future.result().result
            self._end(sent, GoalEnd(result.success, result.message))

        handle.get_result_async().add_done_callback(on_result)
        if cancelled != self._cancelled:
            # Cancelled between sending and acceptance, when the navigator did not have the goal yet.
            handle.cancel_goal_async()
