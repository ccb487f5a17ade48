# SPDX-License-Identifier: Apache-2.0
"""Sends one goal, shows the run live, writes its report. Exit status 0 only if the goal was reached."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cv2
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.action import Navigate
from outrider_interfaces.msg import (
    DecodedTokens,
    MotionReport,
    PlanProgress,
    SimulationState,
    SpeculationStats,
    VerifiedText,
)
from rclpy.action import ActionClient
from rclpy.node import Node
from sensor_msgs.msg import Image

from outrider.core.errors import FrameError, LinkError, OutriderError
from outrider.core.files.terminal import LINE_PERIOD_S
from outrider.core.files.writing import checked_animation, checked_folder
from outrider.navigation.sensing.odometry_check import OdometryCheck
from outrider.nodes.common import convert, qos, step_messages
from outrider.nodes.common.declared_parameters import declare_parameters, ros_parameters
from outrider.nodes.common.node_parameters import NodeParameters
from outrider.nodes.common.process_exit import BROKEN, Ending
from outrider.nodes.common.running import init_ros, leave_ros
from outrider.nodes.navigator.goal_heartbeats import GoalHeartbeats
from outrider.nodes.navigator.server_watch import ServerWatch
from outrider.runtime.common.ending_signals import COULD_NOT_START, STOPPED
from outrider.runtime.mission.bounded_waits import Patience
from outrider.runtime.mission.robot_side import GoalError, GoalResult
from outrider.runtime.node_graph.namespaces import diagnostics_name, spec_of_status
from outrider.runtime.node_graph.observer_specs import MISSION
from outrider.runtime.node_graph.parameters import Value
from outrider.runtime.pictures.run_pictures import write_pictures
from outrider.runtime.reports.conditions import host, versions
from outrider.runtime.reports.live_view import LiveState, LiveView
from outrider.runtime.reports.recorder import Recorder, Truth
from outrider.runtime.reports.report import RunRecord, write_summary
from outrider.runtime.reports.stages import GOAL, Stages, first_motion_s
from outrider.runtime.reports.verdict import Judgement, with_reason
from outrider.simulation.homes.home import Home, generate_home
from outrider.simulation.homes.vocabulary import target_of

Clock = Callable[[], float]
REAL: Clock = time.monotonic
CANCEL_TIMEOUT_S, GONE_S, ANSWER_S, PENDING_S, SPIN_S = 5.0, 2.0, 20.0, 1.0, 0.05
SHOWN_PARAMETERS = ("link_profile", "drafters", "draft_model")


class MissionNode(Node):
    """Subscribes to everything that a report needs. `run` sends one goal and judges the run."""

    def __init__(self, overrides: Mapping[str, Value] | None = None) -> None:
        super().__init__(
            MISSION.name,
            parameter_overrides=ros_parameters(overrides),
            automatically_declare_parameters_from_overrides=True,
            start_parameter_services=False,  # parameters are read once, here
        )
        self._values = declare_parameters(self, MISSION)
        out, animation = (str(self._values[name]) for name in ("out", "animation"))
        checked_folder(Path(out) if out else None)
        checked_animation(Path(animation) if animation else None)
        self._recorder = Recorder(str(self._values["instruction"]))
        self._odometry_check = OdometryCheck(bool(self.get_parameter("use_sim_time").value))
        self._started_s: float | None = None
        self._truth_message: SimulationState | None = None
        self._link_state = "connecting"
        self._travelled_m = 0.0
        self._server: ServerWatch | None = None
        self._navigator = NodeParameters(self, "navigator", SHOWN_PARAMETERS)
        self._networks: list[str] = []
        self._record: RunRecord | None = None
        self._stages = Stages()
        self._goals = ActionClient(self, Navigate, "navigate")
        self._heartbeats = GoalHeartbeats(self)
        self.create_subscription(VerifiedText, "verified_text", self._on_text, qos.EVENTS)
        self.create_subscription(PlanProgress, "plan", self._on_plan, qos.LATCHED)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.FROM_ANY)
        self.create_subscription(SpeculationStats, "speculation_stats", self._on_round, qos.EVENTS)
        self.create_subscription(DecodedTokens, "decoded_tokens", self._on_tokens, qos.EVENTS)
        self.create_subscription(MotionReport, "motion_report", self._on_motion, qos.EVENTS)
        self.create_subscription(SimulationState, "simulation_state", self._on_truth, qos.EVENTS)
        self.create_subscription(OdometryMsg, "odom", self._on_odometry, qos.LATEST_SENSOR)
        self.create_subscription(Image, "camera/image_raw", self._on_image, qos.LATEST_SENSOR)

    def run(self, view: LiveView, stopping: threading.Event) -> int:
        """Returns 0 if the goal was reached, 1 if not, STOPPED if asked to end.

        Raises LinkError if no navigator answers. It always leaves a report; `film` makes the video later.
        """
        view.say(f"told to: {self._values['instruction']} (waiting for the nodes)")
        try:
            if not self._wait_for_navigator(view, stopping):
                self._report(view, _broken_off("asked to end before there was a goal"))
                return STOPPED
            result = self._drive_goal(view, stopping)
        except BaseException as error:
            self._report(view, _broken_off(str(error) or type(error).__name__))
            raise
        duration_s = self._time_s()
        self._receive_pending()
        view.show(self._live_state())
        view.close()
        judgement = self._report(view, result, duration_s)
        if stopping.is_set() and not result.success:
            return STOPPED
        return 0 if judgement.verdict.is_reached else 1

    def film(self, stopped: Callable[[], bool]) -> None:
        """Draw the pictures of a run that had a goal; `stopped` aborts the video."""
        if self._record is None or self._started_s is None or not self._values["out"]:
            return
        animation = Path(str(self._values["animation"])) if self._values["animation"] else None
        folder, video = Path(str(self._values["out"])), bool(self._values["video"])
        write_pictures(self._record, folder, stopped, video, animation)

    def _report(self, view: LiveView, result: GoalResult, duration_s: float | None = None) -> Judgement:
        """Judge the run, write the record if a folder is given, and print both."""
        home = self._home()
        judgement = self._recorder.judge(result, home)
        spent_s = self._time_s() if duration_s is None else duration_s
        self._record = self._recorder.finish(result, judgement, spent_s, home, self._conditions())
        report = None
        if self._values["out"]:
            report = write_summary(self._record, Path(str(self._values["out"])))
        view.say(f"{judgement.verdict.words}: {judgement.message}")
        if report:
            view.say(f"report: {report}")
        return judgement

    def _conditions(self) -> dict[str, Any]:
        """Returns the conditions that the run's figures depend on, as far as the graph shows them."""
        truth = self._truth_message
        settings = self._navigator.values
        return {
            "seed": truth.seed if truth else None,
            "placement": truth.placement if truth else None,
            "link": settings.get("link_profile") or None,
            "links": list(self._networks),
            "drafters": settings.get("drafters"),
            "draft_model": settings.get("draft_model"),
            "versions": versions(),
            "host": host(),
            "stages_s": self._stages.seconds(first_motion_s(self._recorder.poses)),
        }

    def _wait_for_navigator(self, view: LiveView, stopping: threading.Event) -> bool:
        """Whether the navigator is ready; False once asked to stop. Shows the nodes' states meanwhile."""
        printed_s, limit_s = 0.0, float(self._values["server_wait_s"])
        while not stopping.is_set():
            now_s = self._stages.elapsed_s()
            for line in self._stages.news():
                view.say(f"{now_s:6.1f} s  {line}")
                printed_s = now_s
            is_ready = self._goals.server_is_ready() and self._heartbeats.has_subscriber
            if is_ready and self._navigator_is_listening():
                return True
            if now_s > limit_s:
                raise LinkError(f"no navigator answers after {limit_s:.0f} s: is navigator_node active?")
            if now_s > printed_s + LINE_PERIOD_S:
                view.say(f"{now_s:6.1f} s  still waiting for the navigator")
                printed_s = now_s
            rclpy.spin_once(self, timeout_sec=0.1)
        return False

    def _navigator_is_listening(self) -> bool:
        is_recorded = not self._values["recording"] or self.count_subscribers("step_prompt") > 0
        return (
            is_recorded and self.count_subscribers("verified_text") > 1 and self.count_publishers("odom") > 0
        )

    def _drive_goal(self, view: LiveView, stopping: threading.Event) -> GoalResult:
        goal = Navigate.Goal(instruction=str(self._values["instruction"]))
        answer = self._goals.send_goal_async(goal, goal_uuid=self._heartbeats.start())
        # Wait for the answer even if asked to stop before it: the robot may already move.
        handle = self._wait(answer, view, stopping, ANSWER_S)
        handle = handle or self._wait(answer, view, threading.Event(), CANCEL_TIMEOUT_S)
        if handle is None:
            silent = f"did not answer the goal within {ANSWER_S:.0f} s: try again"
            return _broken_off(f"the navigator {silent if self._goals.server_is_ready() else 'has gone'}")
        if not handle.accepted:
            return _broken_off("the navigator rejected the goal: it is busy")
        self._started_s, self._server = time.monotonic(), ServerWatch(self, "navigate")
        self._stages.mark(GOAL)
        try:
            return self._await_end(handle, view, stopping)
        except BaseException:
            handle.cancel_goal_async()  # otherwise the robot would drive on
            raise

    def _await_end(self, handle: Any, view: LiveView, stopping: threading.Event) -> GoalResult:
        """Returns how an accepted goal ended. It is cancelled if asked to stop, or after the time limit."""
        outcome, limit_s = handle.get_result_async(), float(self._values["time_limit_s"])
        clock = Patience(lambda: self.get_clock().now().nanoseconds * 1e-9).spent_s
        finished = self._wait(outcome, view, stopping, limit_s, clock)
        if finished is None and self._goals.server_is_ready():
            handle.cancel_goal_async()
            finished = self._wait(outcome, view, threading.Event(), CANCEL_TIMEOUT_S)
        if finished is None:
            asked = "interrupted; " if stopping.is_set() else ""
            return _broken_off(f"{asked}the navigator {self._silence()}")
        message = finished.result
        result = GoalResult(message.success, GoalError(message.error_code), message.message, message.steps)
        return with_reason(result, stopping.is_set(), limit_s)

    def _silence(self) -> str:
        """Returns why the navigator that has the goal is silent."""
        if self._server is not None and self._server.is_replaced():
            return "was started again and has lost the goal"
        return "did not confirm the cancellation" if self._goals.server_is_ready() else "has gone"

    def _wait(
        self, future: Any, view: LiveView, stopping: threading.Event, limit_s: float, clock: Clock = REAL
    ) -> Any:
        """Returns the future's result; None once stopped, out of time, or without the goal's navigator."""
        ready_s, deadline_s = time.monotonic(), clock() + limit_s
        while not future.done():
            if self._server is not None and self._server.is_replaced():
                return None
            if self._goals.server_is_ready():
                ready_s = time.monotonic()
            if stopping.is_set() or clock() > deadline_s or time.monotonic() > ready_s + GONE_S:
                return None
            rclpy.spin_once(self, timeout_sec=0.05)
            self._navigator.look()
            if self._started_s is not None:
                view.show(self._live_state())
        return future.result()

    def _receive_pending(self) -> None:
        """Take messages still under way; count turns too, as a stalled process has many waiting."""
        deadline_s = time.monotonic() + PENDING_S
        turns = round(PENDING_S / SPIN_S)
        while turns > 0 or time.monotonic() < deadline_s:
            rclpy.spin_once(self, timeout_sec=SPIN_S)
            turns -= 1

    def _home(self) -> Home | None:
        message = self._truth_message
        if message is None:
            return None
        return generate_home(message.seed, target_of(message.instruction), message.placement)

    def _live_state(self) -> LiveState:
        return LiveState(
            self._recorder.instruction,
            self._time_s(),
            self._recorder.latest,
            self._link_state,
            self._travelled_m,
            self._recorder.target_distance_m,
            self._networks[-1] if self._networks else self._navigator.values.get("link_profile", ""),
        )

    def _time_s(self) -> float:
        return 0.0 if self._started_s is None else time.monotonic() - self._started_s

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name.startswith(diagnostics_name(self.get_namespace(), "")):
                self._stages.take(spec_of_status(status.name), status.message)
            if status.name == diagnostics_name(self.get_namespace(), "navigator"):
                self._on_network(next((pair.value for pair in status.values if pair.key == "emulated"), ""))

    def _on_network(self, name: str) -> None:
        """Record the emulated network: the first is that of the goal's start, later ones are switches."""
        if self._started_s is None:
            self._networks.clear()
        if name and self._networks[-1:] != [name]:
            self._networks.append(name)

    def _on_text(self, message: VerifiedText) -> None:
        self._link_state = message.link_state
        if (update := step_messages.update_of(message)) is not None:
            self._recorder.on_text(update, message.link_state, self._time_s())

    def _on_plan(self, message: PlanProgress) -> None:
        """Take this goal's plan. A plan that ended before any news of this goal is an earlier one's."""
        if message.running or self._recorder.progress.steps:
            self._recorder.on_progress(step_messages.progress_of(message))

    def _on_round(self, message: SpeculationStats) -> None:
        self._recorder.on_round(message.step, message.strategy, step_messages.round_of(message))

    def _on_tokens(self, message: DecodedTokens) -> None:
        self._recorder.on_tokens(message.step, step_messages.tokens_of(message))

    def _on_motion(self, message: MotionReport) -> None:
        if (end := step_messages.end_of(message)) is not None:
            self._travelled_m += end.distance_m
            self._recorder.on_motion_end(end, self._time_s())

    def _on_truth(self, message: SimulationState) -> None:
        self._truth_message, pose = message, message.pose
        self._recorder.truth = Truth(convert.pose_of(pose), message.distance_to_target_m, message.collisions)

    def _on_odometry(self, message: OdometryMsg) -> None:
        odometry = self._odometry_check.take(convert.odometry_sample(message), time.monotonic())
        if self._started_s is not None and odometry is not None:
            self._recorder.on_odometry(odometry.pose, self._time_s())

    def _on_image(self, message: Image) -> None:
        time_s = self._time_s()
        if self._started_s is None or not self._values["out"] or not self._recorder.wants_frame(time_s):
            return
        try:
            picture = convert.rgb_of(message)[:, :, ::-1]
        except FrameError as error:
            self.get_logger().warning(str(error), throttle_duration_sec=5.0)
            return
        self._recorder.on_frame(cv2.imencode(".jpg", picture)[1].tobytes(), time_s)


def _broken_off(reason: str) -> GoalResult:
    return GoalResult(False, GoalError.CANCELLED, reason, 0)


def main() -> int:
    """Run one goal and make its video; returns the exit status."""
    ending, status = Ending(), BROKEN
    try:
        init_ros()
        with LiveView() as view:
            mission = MissionNode()
            status = mission.run(view, ending.requested)
        mission.film(ending.requested.is_set)
    except OutriderError as error:
        print(f"error: {error}", file=sys.stderr)
        status = COULD_NOT_START
    finally:
        leave_ros(status)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
