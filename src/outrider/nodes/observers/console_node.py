# SPDX-License-Identifier: Apache-2.0
"""The console node: the robot's topics in a browser, and a person's commands back, like a joystick's."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.msg import DecodedTokens, MotionReport, PlanProgress, SpeculationStats, VerifiedText
from outrider_interfaces.srv import Recall
from sensor_msgs.msg import LaserScan
from std_msgs.msg import Bool

from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer
from outrider.console.switching.switches import Switch
from outrider.core.files.journal import Journal
from outrider.core.files.journal_files import journal_at
from outrider.core.files.notary import Notary
from outrider.core.language.sentences.planner import brief
from outrider.core.token_bucket import TokenBucket
from outrider.core.values import Pose2D, Velocity
from outrider.navigation.sensing.odometry_check import OdometryCheck
from outrider.nodes.common import convert, qos
from outrider.nodes.common.gate import Gate
from outrider.nodes.common.node import OutriderNode, pace
from outrider.nodes.common.running import run_node
from outrider.nodes.common.scan_input import ScanInput
from outrider.nodes.common.twist_input import TwistInput
from outrider.nodes.navigator.goal_sender import GoalSender
from outrider.nodes.observers import console_messages as shown
from outrider.nodes.observers.console_camera import ConsoleCamera
from outrider.nodes.observers.console_switches import ConsoleSwitches
from outrider.runtime.mission.words import vocabulary_of
from outrider.runtime.node_graph.namespaces import diagnostics_name
from outrider.runtime.wiring.binding import SERVED, settings_of
from outrider.runtime.wiring.console_relay import robot_end
from outrider.voice.engine_process import EngineProcess
from outrider.voice.speaking import SpeakingProgram

POSE_HZ, SCAN_HZ = 10.0, 4.0
AT_ONCE = 2.0
"""The burst after a pause, so that jitter does not reduce a source's own rate."""
LOOK_PERIOD_S, UNWATCHED_PERIOD_S = 0.25, 0.5
MEMORY_PERIOD_S = 5.0
MEMORIES, MEMORY_RADIUS_M = 40, 30.0
MAP_MAX_YAW_RPS = 0.3
MOTION_S = 0.5
"""How long the last sign of a motion counts."""
E_STOP_REPEATS = 3
DIAGNOSTICS_LAG_S = 1.5
WATCHED = ("navigator", "action")
STOPPER = "action"
INACTIVE = "the console is not active: it stops the robot, and moves nothing"


class ConsoleNode(OutriderNode):
    """Hosts the web server and is its `RobotPort`. It commands only what a joystick commands.

    Timeouts and display rates are in real time, even if a simulated clock is slow or set back.
    """

    spec_name = "console"
    look_period_s = 0.5

    def configure(self) -> None:
        self.limits = Velocity(self.value("forward_mps"), self.value("lateral_mps"), self.value("yaw_rps"))
        self._odometry_check = OdometryCheck(self.is_simulated)
        self._pose: Pose2D | None = None
        self._turning = False
        self._steps: dict[tuple[str, int], Pose2D] = {}
        self._paces: dict[tuple[str, float], TokenBucket] = {}
        self._active = self._driving = False
        self._warnings = {"": INACTIVE}
        self._e_stop_s = self._odometry_s = -math.inf
        self._moved_s: dict[str, float] = {}
        self._sending = threading.Lock()
        self._sent_state: dict[str, object] = {}
        self._watched = {diagnostics_name(self.get_namespace(), node) for node in WATCHED}
        self._open_outputs()
        self._notary = Notary(Journal(journal_at(self.value("journal"))), "console", brief)
        self._engine = self._speech_engine()
        self._relay = robot_end(self.value("relay"), self.value("relay_key_file"))
        alongside = self._relay.run if self._relay is not None else None
        voice = SpeakingProgram(self.value("voice"))
        settings = settings_of({name: self.value(name) for name in SERVED})
        self._console = ConsoleServer(self, settings, self._notary.note, self._engine, alongside, voice)
        self._camera = ConsoleCamera(self, self._console, self._picture_is_due)
        self._send_warnings()
        self._open_inputs()
        self.get_logger().info(f"console at {self._console.url}{self._console.hints}")

    def _speech_engine(self) -> EngineProcess | None:
        name = self.value("speech")
        return EngineProcess(name, vocabulary_of(self.value("speech_model"))) if name else None

    def _open_outputs(self) -> None:
        self._joystick = self.publisher(Twist, "cmd_vel_console", qos.COMMAND)
        self._e_stop = self.publisher(Bool, "e_stop", qos.LATCHED)
        self._goals = GoalSender(self, INACTIVE)
        self._switches = ConsoleSwitches(self)
        self._recalls = self.create_client(Recall, "recall")
        self.keep(self._recalls, self.destroy_client)

    def _open_inputs(self) -> None:
        self.subscription(VerifiedText, "verified_text", self._on_text, qos.EVENTS)
        self.subscription(DecodedTokens, "decoded_tokens", self._on_tokens, qos.EVENTS)
        self.subscription(SpeculationStats, "speculation_stats", self._on_round, qos.EVENTS)
        self.subscription(MotionReport, "motion_report", self._on_motion, qos.EVENTS)
        self.subscription(PlanProgress, "plan", self._on_plan, qos.LATCHED)
        self._sensors = Gate(self)
        self._sensors.subscription(OdometryMsg, "odom", self._on_odometry, qos.LATEST_SENSOR)
        self._scans = ScanInput(self)
        self._sensors.subscription(LaserScan, "scan", self._on_scan, qos.LATEST_SENSOR)
        TwistInput(self, "cmd_vel", self._on_command, qos.FROM_ANY)
        self.subscription(Bool, "e_stop", self._on_e_stop, qos.FROM_ANY)
        self._sensors.subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.EVENTS)

    def activate(self) -> None:
        self._active = True
        self._sensors.discard()
        self._goals.open()
        self._warnings[""] = ""
        self._send_warnings()
        self._looking = self.living_timer(LOOK_PERIOD_S, self._look)

    def deactivate(self) -> None:
        if not getattr(self, "_active", False):
            return
        self._camera.watch(False)
        with self._sending:
            self._active = False
            if self._driving:
                self._joystick.publish(Twist())
                self._driving = False
        self._goals.close(INACTIVE)
        self._warnings[""] = INACTIVE
        self._send_warnings()

    def cleanup(self) -> None:
        if hasattr(self, "_console"):
            self._console.close()
            if self._engine is not None:
                self._engine.close()
            del self._console
        if hasattr(self, "_notary"):
            self._notary.close()
            del self._notary

    def health(self) -> tuple[str, dict[str, object]]:
        if not hasattr(self, "_console"):
            return "unconfigured", {}
        relay = self._relay.state.value if self._relay is not None else "none"
        values = {"url": self._console.url, "viewers": self._console.num_viewers, "relay": relay}
        return self._journal_warning(), {**values, "journal": self._notary.fault or "written"}

    def _journal_warning(self) -> str:
        fault = self._notary.fault
        return f"the journal is not written: {fault}" if fault else ""

    # The robot's port: called from the server's thread.

    def drive(self, velocity: Velocity) -> None:
        """Publish a viewer's velocity like that of a joystick."""
        with self._sending:
            if self._active:
                self._driving = velocity != Velocity()
                self._joystick.publish(convert.twist_message(velocity))

    def set_e_stop(self, engaged: bool) -> bool:
        """Publish the emergency stop. Returns whether the action node subscribes."""
        for _ in range(E_STOP_REPEATS if engaged else 1):
            self._e_stop.publish(Bool(data=engaged))
        listeners = self.get_subscriptions_info_by_topic(self._e_stop.topic_name)
        return any(listener.node_name == STOPPER for listener in listeners)

    def send_goal(self, instruction: str, on_end: Callable[[GoalEnd], None]) -> None:
        """Send an instruction. `on_end` is called when its goal ends."""
        self._goals.send(instruction, on_end)

    def cancel_goal(self) -> None:
        """Cancel the running goal."""
        self._goals.cancel()

    def switch(self, request: Switch, on_end: Callable[[str], None]) -> None:
        """Switch the emulated link or the strategy. `on_end` gets the reason if that fails, else nothing."""
        if self._active:
            self._switches.ask(request, on_end)
        else:
            on_end(INACTIVE)

    # Messages from the robot.

    def _look(self) -> None:
        """Read the sensors. Without a viewer no picture is received, and the rest is read here only."""
        self._sensors.read()
        self._goals.look()
        self._send_motion()
        self._warnings["journal"] = self._journal_warning()
        self._send_warnings()
        watched = self._console.num_viewers > 0
        self._sensors.is_open = watched
        pace(self._looking, LOOK_PERIOD_S if watched else UNWATCHED_PERIOD_S)
        self._camera.watch(watched)
        if watched and self._is_due("memories", MEMORY_PERIOD_S):
            self._ask_memories()

    def _picture_is_due(self) -> bool:
        return self._is_due("picture", 1.0 / self.value("picture_hz"))

    def _is_due(self, what: str, period_s: float) -> bool:
        """Whether it is due: once a period on average."""
        now_s = time.monotonic()
        pace = self._paces.setdefault((what, period_s), TokenBucket(1.0 / period_s, AT_ONCE, now_s))
        return pace.take(1.0, now_s)

    def _on_odometry(self, message: OdometryMsg, came_s: float) -> None:
        odometry = self._odometry_check.take(convert.odometry_sample(message), came_s)
        self._pose = odometry.pose if odometry else None
        if odometry is None:
            return
        self._turning = abs(odometry.velocity.wz) > MAP_MAX_YAW_RPS
        self._odometry_s = time.monotonic()
        self._see_motion("odometry", not odometry.stands)
        if self._is_due("pose", 1.0 / POSE_HZ):
            self._console.show_pose(odometry.pose)

    def _on_scan(self, message: LaserScan, came_s: float) -> None:
        """Show a scan, but none during fast turns, which would smear the map."""
        if self._pose is None or self._turning or not self._is_due("scan", 1.0 / SCAN_HZ):
            return
        scan = self._scans.take(message, came_s)
        if scan is not None:
            self._console.show_scan(self._pose, scan)

    def _update(self, **fields: object) -> None:
        """Send fields that changed. The same values many times a second do not wake the server."""
        if any(self._sent_state.get(name) != value for name, value in fields.items()):
            self._sent_state.update(fields)
            self._console.update(**fields)

    def _on_command(self, message: Twist, _: dict[str, Any]) -> None:
        self._see_motion("command", convert.velocity_of(message) != Velocity())

    def _see_motion(self, source: str, moves: bool) -> None:
        self._moved_s[source] = time.monotonic() if moves else -math.inf
        self._send_motion()

    def _send_motion(self) -> None:
        """Show whether the robot moves or stands. A silent source counts for neither."""
        now_s = time.monotonic()
        moving = any(now_s - moved_s < MOTION_S for moved_s in self._moved_s.values())
        self._update(moving=moving, stands=not moving and now_s - self._odometry_s < MOTION_S)

    def _on_e_stop(self, message: Bool) -> None:
        self._e_stop_s = time.monotonic()
        self._console.update(e_stop=message.data)

    def _on_text(self, message: VerifiedText) -> None:
        text = shown.text_of(message)
        if text is None:
            return
        self._update(link=message.link_state)
        key = message.session_id, message.step
        if key not in self._steps and self._pose is not None:
            # A text describes its frame. The robot stands there until the action begins.
            self._steps = {key: self._pose}
        self._console.show(text)
        if message.state == VerifiedText.FINISHED and key in self._steps:
            self._console.show(shown.sights_of(message.text, self._steps[key]))

    def _on_tokens(self, message: DecodedTokens) -> None:
        self._console.show(shown.tokens_of(message))

    def _on_round(self, message: SpeculationStats) -> None:
        self._console.show(shown.round_of(message))

    def _on_plan(self, message: PlanProgress) -> None:
        self._console.show(shown.plan_of(message))

    def _on_motion(self, message: MotionReport) -> None:
        motion = shown.motion_of(message)
        if motion is not None:
            self._console.show(motion)

    def _on_diagnostics(self, message: DiagnosticArray, _: float) -> None:
        for status in message.status:
            if status.name not in self._watched:
                continue
            values = {item.key: item.value for item in status.values}
            if "emergency_stop" in values and time.monotonic() - self._e_stop_s > DIAGNOSTICS_LAG_S:
                self._console.update(e_stop=values["emergency_stop"] == "True", unheard=False)
            if "link" in values:
                self._update(link=values["link"])
            switches = self._switches.news(values)
            if switches is not None:
                self._console.show(switches)
            self._warnings[status.name] = "" if status.message == "ok" else status.message
        self._send_warnings()

    def _send_warnings(self) -> None:
        self._update(warning="; ".join(filter(None, self._warnings.values())))

    def _ask_memories(self) -> None:
        """Request shareable memories only: private ones do not leave the robot for a map."""
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
        self._console.show(shown.memories_of(future.result()))


def main() -> int:
    """Runs the node; returns the exit status."""
    return run_node(ConsoleNode)


if __name__ == "__main__":
    raise SystemExit(main())
