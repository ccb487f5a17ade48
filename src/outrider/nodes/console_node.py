"""The console node: the robot's topics in a browser, and a person's commands back, as a joystick's are."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cv2
import numpy as np
from action_msgs.srv import CancelGoal
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.action import Navigate
from outrider_interfaces.msg import DecodedTokens, MotionReport, SpeculationStats, VerifiedText
from outrider_interfaces.srv import Recall
from rclpy.action import ActionClient
from sensor_msgs.msg import Image, LaserScan
from std_msgs.msg import Bool

from outrider.console import messages as m
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.errors import FrameError
from outrider.core.token_bucket import TokenBucket
from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity
from outrider.memory.scene import place_of, things_seen
from outrider.navigation.pilot import Ending
from outrider.nodes import convert, qos
from outrider.nodes.base import OutriderNode, run_node
from outrider.runtime.goal_run import StepState

POSE_HZ, SCAN_HZ = 10.0, 4.0
AT_ONCE = 2.0
"""How many of anything may come at once after a pause, so that jitter costs none of a source's own pace."""
LOOK_PERIOD_S = 0.25
MEMORY_PERIOD_S = 5.0
MEMORIES, MEMORY_RADIUS_M = 40, 30.0
MAP_MAX_YAW_RPS = 0.3
STILL_MPS, STILL_RPS = 0.05, 0.1
MOTION_S = 0.5
"""What was last seen of a motion counts for this long."""
E_STOP_REPEATS = 3
NAVIGATOR_WAIT_S = 5.0
DIAGNOSTICS_LAG_S = 1.5
ORIGINS = "awrd"
WATCHED = {"outrider/navigator": "navigator", "outrider/action": "action"}
STOPPER = "action"
INACTIVE = "the console is not active: it stops the robot, and moves nothing"


@dataclass(frozen=True)
class _Unsent:
    """A command that waits for a navigator."""

    instruction: str
    on_end: Callable[[GoalEnd], None]
    until_s: float


@dataclass(eq=False)
class _Sent:
    """A command that the navigator has; `seen_s` is when there last was one."""

    on_end: Callable[[GoalEnd], None]
    seen_s: float


class ConsoleNode(OutriderNode):
    """Hosts the web server and is its `RobotPort`. It commands only what a joystick commands."""

    spec_name = "console"

    def configure(self) -> None:
        self.limits = Velocity(self.value("forward_mps"), self.value("lateral_mps"), self.value("yaw_rps"))
        self._pose: Pose2D | None = None
        self._turning = False
        self._steps: dict[tuple[str, int], Pose2D] = {}
        self._paces: dict[tuple[str, float], TokenBucket] = {}
        self._active = self._driving = False
        self._warnings = {"": INACTIVE}
        self._camera: Any = None
        self._e_stop_s = -math.inf
        self._moved_s: dict[str, float] = {}
        self._unsent: _Unsent | None = None
        self._sent: _Sent | None = None
        self._sending = threading.Lock()
        self._cancelled = 0
        self._told: dict[str, object] = {}
        self._open_outputs()
        self._console = ConsoleServer(self, self._settings())
        self._tell_warnings()
        self._open_inputs()
        self.get_logger().info(f"console at {self._console.url}{self._login_hint()}")

    def _settings(self) -> ConsoleSettings:
        names = ("host", "port", "login", "token_file", "tls_cert", "tls_key")
        return ConsoleSettings(**{name: self.value(name) for name in names})

    def _login_hint(self) -> str:
        settings = self._console.settings
        if not settings.needs_login:
            return ""
        plain = "" if settings.tls_cert else "; it goes over the network unencrypted without tls_cert"
        return f", the login token is in {settings.token_path}{plain}"

    def _open_outputs(self) -> None:
        self._joystick = self.publisher(Twist, "cmd_vel_console", qos.COMMAND)
        self._e_stop = self.publisher(Bool, "e_stop", qos.LATCHED)
        self._goals = ActionClient(self, Navigate, "navigate")
        self.keep(self._goals, lambda entity: entity.destroy())
        self._cancels = self.create_client(CancelGoal, "navigate/_action/cancel_goal")
        self._recalls = self.create_client(Recall, "recall")
        for client in (self._cancels, self._recalls):
            self.keep(client, self.destroy_client)

    def _open_inputs(self) -> None:
        self.subscription(VerifiedText, "verified_text", self._on_text, qos.EVENTS)
        self.subscription(DecodedTokens, "decoded_tokens", self._on_tokens, qos.EVENTS)
        self.subscription(SpeculationStats, "speculation_stats", self._on_round, qos.EVENTS)
        self.subscription(MotionReport, "motion_report", self._on_motion, qos.EVENTS)
        self.subscription(OdometryMsg, "odom", self._on_odometry, qos.LATEST_SENSOR)
        self.subscription(LaserScan, "scan", self._on_scan, qos.LATEST_SENSOR)
        self.subscription(Twist, "cmd_vel", self._on_command, qos.COMMAND)
        self.subscription(Bool, "e_stop", self._on_e_stop, qos.COMMAND)
        self.subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.EVENTS)

    def activate(self) -> None:
        self._active = True
        self._warnings[""] = ""
        self._tell_warnings()
        self.active_timer(LOOK_PERIOD_S, self._look)

    def deactivate(self) -> None:
        self._watch_camera(False)
        if not getattr(self, "_active", False):
            return
        with self._sending:
            self._active = False
            if self._driving:
                self._joystick.publish(Twist())
                self._driving = False
            unsent, self._unsent = self._unsent, None
        if unsent is not None:
            unsent.on_end(GoalEnd(False, INACTIVE))
        self._warnings[""] = INACTIVE
        self._tell_warnings()

    def cleanup(self) -> None:
        if hasattr(self, "_console"):
            self._console.close()
            del self._console

    def health(self) -> tuple[str, dict[str, object]]:
        if not hasattr(self, "_console"):
            return "unconfigured", {}
        return "", {"url": self._console.url, "viewers": self._console.num_viewers}

    # The robot's port: called from the server's thread.

    def drive(self, velocity: Velocity) -> None:
        with self._sending:
            if self._active:
                self._driving = velocity != Velocity()
                self._joystick.publish(convert.twist_message(velocity))

    def set_e_stop(self, engaged: bool) -> bool:
        for _ in range(E_STOP_REPEATS if engaged else 1):
            self._e_stop.publish(Bool(data=engaged))
        listeners = self.get_subscriptions_info_by_topic(self._e_stop.topic_name)
        return any(listener.node_name == STOPPER for listener in listeners)

    def send_goal(self, instruction: str, on_end: Callable[[GoalEnd], None]) -> None:
        with self._sending:
            active = self._active
            if active:
                self._unsent = _Unsent(instruction, on_end, self.now_s() + NAVIGATOR_WAIT_S)
        if active:
            self._send_unsent()
        else:
            on_end(GoalEnd(False, INACTIVE))

    def _send_unsent(self) -> None:
        """A navigator that has just started may take a moment to be found."""
        with self._sending:
            unsent, ready = self._unsent, self._goals.server_is_ready()
            if unsent is None or not (ready or self.now_s() > unsent.until_s):
                return
            self._unsent, cancelled = None, self._cancelled
            sent = self._sent = _Sent(unsent.on_end, self.now_s())
        if not ready:
            self._end(sent, GoalEnd(False, "no navigator listens: is it running?"))
            return
        answer = self._goals.send_goal_async(Navigate.Goal(instruction=unsent.instruction))
        answer.add_done_callback(lambda future: self._on_answer(future.result(), sent, cancelled))

    def _end(self, sent: _Sent, end: GoalEnd) -> None:
        """Once, whatever is heard of it later."""
        with self._sending:
            if self._sent is not sent:
                return
            self._sent = None
        sent.on_end(end)

    def _watch_navigator(self) -> None:
        """One that dies ends no goal: it is missed here."""
        sent = self._sent
        if sent is None:
            return
        if self._goals.server_is_ready():
            sent.seen_s = self.now_s()
        elif self.now_s() - sent.seen_s > NAVIGATOR_WAIT_S:
            self._end(sent, GoalEnd(False, "the navigator has gone"))

    def cancel_goal(self) -> None:
        """Whoever gave it: an empty request means all goals."""
        with self._sending:
            unsent, self._unsent = self._unsent, None
            self._cancelled += 1
        if unsent is not None:
            unsent.on_end(GoalEnd(False, "cancelled"))
        if self._cancels.service_is_ready():
            self._cancels.call_async(CancelGoal.Request())

    def _on_answer(self, handle: Any, sent: _Sent, cancelled: int) -> None:
        if not handle.accepted:
            self._end(sent, GoalEnd(False, "the navigator is busy with another goal: stop it first"))
            return

        def on_result(future: Any) -> None:
            result = future.result().result
            self._end(sent, GoalEnd(result.success, result.message))

        handle.get_result_async().add_done_callback(on_result)
        if cancelled != self._cancelled:
            # Between its sending and its acceptance, when the navigator did not know it yet.
            handle.cancel_goal_async()

    # What the robot tells.

    def _look(self) -> None:
        """With nobody looking, no picture is even received."""
        self._send_unsent()
        self._watch_navigator()
        self._tell_motion()
        watched = self._console.num_viewers > 0
        self._watch_camera(watched)
        if watched and self._is_due("memories", MEMORY_PERIOD_S):
            self._ask_memories()

    def _watch_camera(self, watched: bool) -> None:
        if watched and self._camera is None:
            self._camera = self.create_subscription(
                Image, "camera/image_raw", self._on_image, qos.LATEST_SENSOR
            )
        elif not watched and getattr(self, "_camera", None) is not None:
            self.destroy_subscription(self._camera)
            self._camera = None

    def _is_due(self, what: str, period_s: float) -> bool:
        """Once a period on average."""
        now_s = self.now_s()
        pace = self._paces.setdefault((what, period_s), TokenBucket(1.0 / period_s, AT_ONCE, now_s))
        return pace.take(1.0, now_s)

    def _on_image(self, message: Image) -> None:
        if not self._is_due("picture", 1.0 / self.value("picture_hz")):
            return
        try:
            jpeg = picture_of(convert.rgb_of(message), self.value("picture_width"), self.value("quality"))
        except FrameError as error:
            self.get_logger().error(str(error), throttle_duration_sec=5.0)
            return
        self._console.show_picture(jpeg)

    def _on_odometry(self, message: OdometryMsg) -> None:
        odometry = convert.odometry_of(message, self.now_s())
        if not _is_finite(odometry):
            return
        self._pose = odometry.pose
        self._turning = abs(odometry.velocity.wz) > MAP_MAX_YAW_RPS
        self._see_motion("odometry", _moves(odometry))
        if self._is_due("pose", 1.0 / POSE_HZ):
            self._console.show_pose(odometry.pose)

    def _on_scan(self, message: LaserScan) -> None:
        """Those of fast turns would smear the map."""
        if self._pose is None or self._turning or not self._is_due("scan", 1.0 / SCAN_HZ):
            return
        scan = convert.scan_of(message, self.now_s())
        met = tuple(range_m if range_m < message.range_max else math.inf for range_m in scan.ranges)
        self._console.show_scan(self._pose, RangeScan(met, scan.angle_min, scan.angle_step, scan.stamp_s))

    def _update(self, **fields: object) -> None:
        """What is repeated many times a second wakes the server only where it is new."""
        if any(self._told.get(name) != value for name, value in fields.items()):
            self._told.update(fields)
            self._console.update(**fields)

    def _on_command(self, message: Twist) -> None:
        self._see_motion("command", convert.velocity_of(message) != Velocity())

    def _see_motion(self, source: str, moves: bool) -> None:
        self._moved_s[source] = self.now_s() if moves else -math.inf
        self._tell_motion()

    def _tell_motion(self) -> None:
        """A source that has fallen silent says nothing of a motion."""
        now_s = self.now_s()
        self._update(moving=any(now_s - moved_s < MOTION_S for moved_s in self._moved_s.values()))

    def _on_e_stop(self, message: Bool) -> None:
        self._e_stop_s = self.now_s()
        self._console.update(e_stop=message.data)

    def _on_text(self, message: VerifiedText) -> None:
        state = _name_of(StepState, message.state)
        if not state:
            return
        self._update(link=message.link_state)
        key = message.session_id, message.step
        if key not in self._steps and self._pose is not None:
            # A text speaks of its frame: the robot stands from there until the action begins.
            self._steps = {key: self._pose}
        withdrawn = message.state == VerifiedText.WITHDRAWN
        self._console.show(
            m.Text(
                session=message.session_id,
                step=message.step,
                state=state,
                text="" if withdrawn else message.text,
                action=message.action if message.action_complete else "",
                latency_s=message.latency_s,
                tokens_per_s=message.tokens_per_s,
                tokens_per_round=message.tokens_per_round,
                note=message.text if withdrawn else "",
            )
        )
        if message.state == VerifiedText.FINISHED and key in self._steps:
            self._console.show(sights_of(message.text, self._steps[key]))

    def _on_tokens(self, message: DecodedTokens) -> None:
        origins = "".join(ORIGINS[fate] for fate in message.fates if fate < len(ORIGINS))
        self._console.show(
            m.Tokens(message.session_id, message.step, message.first, tuple(message.pieces), origins)
        )

    def _on_round(self, message: SpeculationStats) -> None:
        self._console.show(
            m.Round(
                message.drafted, message.accepted, message.emitted, message.round_trip_s, message.verify_s
            )
        )

    def _on_motion(self, message: MotionReport) -> None:
        outcome = _name_of(Ending, message.outcome)
        if outcome:
            self._console.show(
                m.Motion(message.session_id, message.step, message.action, outcome, message.message)
            )

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name not in WATCHED:
                continue
            values = {item.key: item.value for item in status.values}
            if "emergency_stop" in values and self.now_s() - self._e_stop_s > DIAGNOSTICS_LAG_S:
                self._console.update(e_stop=values["emergency_stop"] == "True", unheard=False)
            if "link" in values:
                self._update(link=values["link"])
            self._warnings[status.name] = "" if status.message == "ok" else status.message
        self._tell_warnings()

    def _tell_warnings(self) -> None:
        self._console.update(warning="; ".join(filter(None, self._warnings.values())))

    def _ask_memories(self) -> None:
        """Shareable ones alone: what is private does not leave the robot for a map."""
        if self._pose is None or not self._recalls.service_is_ready():
            return
        request = Recall.Request(
            query="things seen here",
            limit=MEMORIES,
            shareable_only=True,
            has_place=True,
            x=self._pose.x,
            y=self._pose.y,
            radius_m=MEMORY_RADIUS_M,
        )
        self._recalls.call_async(request).add_done_callback(self._on_memories)

    def _on_memories(self, future: Any) -> None:
        records = future.result().records
        self._console.show(
            m.Memories(
                tuple(m.Thing(record.text, record.x, record.y) for record in records if record.has_place)
            )
        )


def picture_of(rgb: np.ndarray[Any, Any], max_width: int, quality: int) -> bytes:
    """A picture for a page: uint8 (H, W, 3) as JPEG, at most `max_width` wide."""
    height, width, _ = rgb.shape
    if width > max_width:
        size = max_width, max(1, round(height * max_width / width))
        rgb = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
    return bytes(cv2.imencode(".jpg", rgb[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1])


def sights_of(text: str, pose: Pose2D) -> m.Sights:
    """Where a text says that things are, seen from a pose; the goal is the first thing that it approaches."""
    things = [(thing.what, place_of(thing, pose, "")) for thing in things_seen(text)]
    seen = tuple(m.Thing(what, round(place.x, 2), round(place.y, 2)) for what, place in things)
    approaches = text.partition("\n")[2].startswith("approach:")
    return m.Sights(seen, seen[0] if seen and approaches else None)


def _moves(odometry: Odometry) -> bool:
    velocity = odometry.velocity
    return max(abs(velocity.vx), abs(velocity.vy)) > STILL_MPS or abs(velocity.wz) > STILL_RPS


def _is_finite(odometry: Odometry) -> bool:
    pose, velocity = odometry.pose, odometry.velocity
    return all(map(math.isfinite, (pose.x, pose.y, pose.yaw, velocity.vx, velocity.vy, velocity.wz)))


def _name_of(values: type[Enum], value: int) -> str:
    """In words; empty for a value of another version."""
    return next((one.name.lower().replace("_", " ") for one in values if one.value == value), "")


def main() -> int:
    return run_node(ConsoleNode)


if __name__ == "__main__":
    raise SystemExit(main())
