# SPDX-License-Identifier: Apache-2.0
"""The navigator: hosts the draft model and the edge side of decoding, and serves `Navigate`."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.action import Navigate
from outrider_interfaces.msg import (
    DecodedTokens,
    MotionReport,
    PlanProgress,
    SpeculationStats,
    StepPrompt,
    VerifiedText,
)
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from sensor_msgs.msg import Image, LaserScan
from std_msgs.msg import Bool

from outrider.core.errors import MemoryStoreError
from outrider.core.language.sentences.stops import begins_to_stand, read_phrases, says_to_stop
from outrider.core.ports import TextDecoder
from outrider.core.values import LinkState
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.navigation.sensing.floor_map import FloorMap
from outrider.nodes.common import qos
from outrider.nodes.common.gate import Gate
from outrider.nodes.common.node import OutriderNode, pace
from outrider.nodes.common.running import ThreadedExecutor, run_node
from outrider.nodes.common.scan_input import ScanInput
from outrider.nodes.navigator.client_watch import ClientWatch
from outrider.nodes.navigator.goal_slot import GoalSlot, start_goal
from outrider.nodes.navigator.navigator_settings import (
    edge_settings,
    goal_settings,
    link_warning,
    open_peers,
    open_recollection,
)
from outrider.nodes.navigator.ros_robot_side import RosRobotSide
from outrider.nodes.navigator.stop_answers import StopAnswers
from outrider.nodes.navigator.switches import Switches
from outrider.runtime.mission.forgetting_decoder import MindfulDecoder
from outrider.runtime.mission.goal_run import GoalSettings
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.mission.peer_answers import PeerAnswers
from outrider.runtime.mission.robot_side import GoalError, GoalResult
from outrider.runtime.mission.sender_heartbeats import POLL_PERIOD_S
from outrider.runtime.node_graph.parameters import Value
from outrider.runtime.plans.errand import Errand
from outrider.runtime.plans.run_log import RunLog
from outrider.runtime.wiring.robot_pair import Edge, open_edge

HEARTBEAT_PERIOD_S, IDLE_HEARTBEAT_PERIOD_S = 0.05, 1.0
IDLE_LOOK_PERIOD_S = 0.5
# How long a goal's start waits until the sensors have been read, which takes some milliseconds.
FIRST_READING_S = 0.5
THREADS = 4
FORGET_PERIOD_S = 1.0
MAP_PERIOD_S = 0.25
MAP_MAX_YAW_RPS = 0.3
STOP_REQUESTED = "told to stop"
E_STOPPED = "the emergency stop was engaged"


class NavigatorNode(OutriderNode):
    """Runs one goal at a time, in a worker thread of the executor. This class only connects it to ROS."""

    spec_name = "navigator"

    def configure(self) -> None:
        self._slot, self._decoding, self._active = GoalSlot(), threading.Lock(), False
        self._sensors_were_read = threading.Event()
        self._edge = self.open_edge()
        self._switches = Switches(self._edge, self.value)
        self._robot = RosRobotSide(self, self._link_state, self.value("camera_silence_s"))
        self._errand: Errand | None = None
        self._log = RunLog()
        self._sender = ClientWatch(self, "navigate")
        read_phrases()
        self._recollection = self.open_recollection()
        self._peers = open_peers(self.value, self._edge.emulation) if self._recollection else None
        self._decoder = self._mindful(self._edge.decoder)
        self._floor, self._mapped_s = FloorMap(), 0.0
        self._robot.texts = self.publisher(VerifiedText, "verified_text", qos.EVENTS)
        self._robot.plans = self.publisher(PlanProgress, "plan", qos.LATCHED)
        self._robot.prompts = self.publisher(StepPrompt, "step_prompt", qos.EVENTS)
        self._robot.rounds = self.publisher(SpeculationStats, "speculation_stats", qos.EVENTS)
        self._robot.tokens = self.publisher(DecodedTokens, "decoded_tokens", qos.EVENTS)
        self._robot.strategy = self._switches.strategy
        self._sensors = Gate(self)
        listen = partial(self._sensors.subscription, alone=True)
        listen(OdometryMsg, "odom", self._robot.on_odometry, qos.RECENT_SENSOR)
        listen(Image, "camera/image_raw", self._robot.on_image, qos.LATEST_SENSOR)
        self._scans = ScanInput(self)
        listen(LaserScan, "scan", self._on_scan, qos.LATEST_SENSOR)
        self.subscription(MotionReport, "motion_report", self._robot.on_motion_report, qos.EVENTS)
        self.subscription(Bool, "e_stop", self._on_e_stop, qos.FROM_ANY)
        self.subscription(Bool, "e_stopped", self._on_e_stop, qos.LATCHED)
        server = ActionServer(
            self,
            Navigate,
            "navigate",
            execute_callback=self._execute,
            goal_callback=self._on_goal,
            handle_accepted_callback=start_goal,
            cancel_callback=self._on_cancel,
            callback_group=ReentrantCallbackGroup(),
        )
        self.keep(server, lambda entity: entity.destroy())
        self._goal_accepted = self.keep(
            self.create_guard_condition(self._read_sensors), self.destroy_guard_condition
        )
        self._stop_answers = StopAnswers(self._robot, self._goal_accepted.trigger)

    def open_edge(self) -> Edge:
        """Returns draft model and link, from the parameters; tests replace it."""
        return open_edge(edge_settings(self.value))

    def open_recollection(self) -> Recollection | None:
        """Returns the memory, from the parameters; tests replace it."""
        return open_recollection(self.value, self.get_namespace())

    def _mindful(self, decoder: TextDecoder) -> TextDecoder:
        """Returns the decoder, wrapped so that it drops the texts of forgotten records."""
        if self._recollection is None or not isinstance(decoder, LinkedDecoder):
            return decoder
        return MindfulDecoder(decoder, self._recollection.memory)

    def _drop_forgotten(self) -> None:
        """Drop the decoder's texts of forgotten records, also between goals."""
        if not isinstance(self._decoder, MindfulDecoder) or not self._decoding.acquire(blocking=False):
            return
        try:
            self._decoder.forget_deleted()
        except MemoryStoreError as error:
            self.get_logger().error(str(error), throttle_duration_sec=10.0)
        finally:
            self._decoding.release()

    def _read_sensors(self) -> None:
        """Read the sensors. Wait for them and send heartbeats only while a goal runs or a stop is watched."""
        self._sensors.read()
        self._sensors.is_open = self._slot.is_taken or self._stop_answers.needs_odometry
        if self._sensors.is_open:
            self._sensors_were_read.set()
        pace(self._beats, HEARTBEAT_PERIOD_S if self._sensors.is_open else IDLE_HEARTBEAT_PERIOD_S)
        pace(self._looks, POLL_PERIOD_S if self._sensors.is_open else IDLE_LOOK_PERIOD_S)

    def _on_scan(self, message: LaserScan, came_s: float) -> None:
        """Add some scans a second to the robot's map. Scans during fast turns would smear it."""
        odometry = self._robot.odometry()
        if odometry is None or 0.0 <= came_s - self._mapped_s < MAP_PERIOD_S:
            return
        if abs(odometry.velocity.wz) <= MAP_MAX_YAW_RPS:
            self._mapped_s = came_s
            scan = self._scans.take(message, came_s)
            if scan is not None:
                self._floor.see(odometry.pose, scan)

    def _link_state(self) -> LinkState:
        """Returns the edge's link state; LOCAL if this text does not depend on the link.

        A text that the edge wrote alone, even in part, stays LOCAL whatever the link does meanwhile.
        """
        if self._errand is not None and self._errand.leading:
            return LinkState.LOCAL
        state = self._edge.link_state
        may_go_alone = state is LinkState.LOST and self.value("link_loss") == "draft_only"
        return LinkState.LOCAL if may_go_alone or self._edge.wrote_alone else state

    def activate(self) -> None:
        self._active = True
        self._sensors.discard()
        self._beats = self.living_timer(IDLE_HEARTBEAT_PERIOD_S, self._robot.beat)
        self.active_timer(FORGET_PERIOD_S, self._drop_forgotten)
        self._looks = [self.active_timer(IDLE_LOOK_PERIOD_S, self._look)]

    def deactivate(self) -> None:
        """End the running goal, or the one that is about to start."""
        if not getattr(self, "_active", False):
            return
        self._active = False
        self._end_goal(GoalError.CANCELLED, "the navigator was deactivated")

    def _look(self) -> None:
        """Read the sensors and check the sender, during a goal and once after; otherwise `health` does."""
        if self._slot.is_taken or self._sensors.is_open:
            self._read_sensors()
            self._slot.check()
            reason = self._sender.look()
            if reason:
                self._sender.end()
                self._end_goal(GoalError.CANCELLED, reason)

    def _on_e_stop(self, message: Bool) -> None:
        """End the whole plan, also between motions: nothing continues after the release.

        The action node repeats the stops that it gets, also those of its service.
        """
        if message.data:
            self._end_goal(GoalError.EMERGENCY_STOP, E_STOPPED)

    def _end_goal(self, error: GoalError, reason: str) -> None:
        """End the running goal, if any, at once; its worker reads the reason."""
        self._slot.stop(error, reason)
        self._robot.withdraw(reason)

    def _on_cancel(self, goal: Any) -> CancelResponse:
        """Stop the robot at once. The goal's worker may be busy, and ends it a little later."""
        self._robot.withdraw("the goal was cancelled", goal.publish_feedback)
        return CancelResponse.ACCEPT

    def cleanup(self) -> None:
        if hasattr(self, "_edge"):
            self._edge.decoder.close()
            del self._edge
        peers: PeerAnswers | None = getattr(self, "_peers", None)
        if peers is not None:
            peers.close()
            self._peers = None
        recollection: Recollection | None = getattr(self, "_recollection", None)
        if recollection is not None:
            recollection.memory.close()
            self._recollection = None

    def apply_live(self, changed: Mapping[str, Value]) -> None:
        if hasattr(self, "_edge"):
            self._switches.apply_live(changed)

    def health(self) -> tuple[str, dict[str, object]]:
        if not getattr(self, "_active", False):
            return "inactive", {}
        self._read_sensors()
        state = self._edge.link_state
        warning = link_warning(state, self.value("endpoint"))
        return warning or self._robot.warning(), {
            "link": state.value,
            "goal": self._slot.is_taken,
            **self._switches.in_force(),
        }

    def _on_goal(self, request: Any) -> GoalResponse:
        """Accept one goal at a time, only while active. A bad instruction is accepted, to get its reason.

        A stop is always accepted and ends the running goal at once, even if it only begins the sentence.
        """
        num_stops = self._slot.num_stops
        if says_to_stop(request.instruction):
            self._end_goal(GoalError.CANCELLED, STOP_REQUESTED)
            return GoalResponse.ACCEPT
        # Freed once the goal has ended: another goal may come before this one starts.
        if self._active and self._slot.take(num_stops):
            self._sensors_were_read.clear()
            self._goal_accepted.trigger()
            return GoalResponse.ACCEPT
        reason = "a goal is running: cancel it first" if self._active else "the navigator is not active"
        if begins_to_stand(request.instruction):
            self._end_goal(GoalError.CANCELLED, reason := STOP_REQUESTED)
        self.get_logger().error(f"goal rejected: {reason}")
        return GoalResponse.REJECT

    def _execute(self, goal: Any) -> Any:
        if says_to_stop(goal.request.instruction):
            message = self._stop_answers.answer(goal.request.instruction, self._active)
            goal.succeed()
            return Navigate.Result(success=True, message=message)
        slot = self._slot
        slot.start()
        # Otherwise a goal that ends at once would have no odometry.
        self._sensors_were_read.wait(FIRST_READING_S)
        try:
            with self._decoding:
                result = self._with_cause(self._run_goal(goal, slot), slot)
        finally:
            self._sender.end()
            slot.release()
        if result.success:
            goal.succeed()
        elif goal.is_cancel_requested:
            goal.canceled()
        else:
            goal.abort()
        message = result.logged(goal.request.instruction)
        if result.success:
            self.get_logger().info(message)
        else:
            self.get_logger().error(message)
        return Navigate.Result(
            success=result.success,
            error_code=result.error.value,
            message=result.message,
            steps=result.steps,
        )

    def _with_cause(self, result: GoalResult, slot: GoalSlot) -> GoalResult:
        """Returns the result with its cause: why the goal was ended, or why a sensor failed."""
        if result.error is GoalError.CANCELLED and slot.stopped is not None:
            return replace(result, error=slot.stopped[0], message=slot.stopped[1])
        cause = self._robot.cause_of(result.error)
        if not cause or cause in result.message:
            return result
        return replace(result, message=f"{result.message}; {cause}")

    def _run_goal(self, goal: Any, slot: GoalSlot) -> GoalResult:
        self._errand = Errand(
            self._robot,
            self._decoder,
            self._edge.vocabulary,
            self._goal_settings(),
            self._recollection,
            self._floor,
            self._peers,
            self._log,
            self._robot.tell_progress,
        )
        self._robot.begin_goal(goal.publish_feedback)
        self._sender.begin(goal.goal_id)

        def cancelled() -> bool:
            return not self._active or slot.stopped is not None or goal.is_cancel_requested

        try:
            return self._errand.run(goal.request.instruction, cancelled)
        except Exception as defect:
            self.get_logger().error(traceback.format_exc())
            message = f"the navigator failed ({type(defect).__name__}: {defect}): see its log"
            return GoalResult(False, GoalError.MODEL_FAILED, message, 0)
        finally:
            self._robot.end_goal()

    def _goal_settings(self) -> GoalSettings:
        return goal_settings(self.value, instructed=self._edge.vocabulary is None)


def main() -> int:
    """Run the node with several threads; returns the exit status."""
    return run_node(NavigatorNode, make_executor=lambda: ThreadedExecutor(num_threads=THREADS))


if __name__ == "__main__":
    raise SystemExit(main())
