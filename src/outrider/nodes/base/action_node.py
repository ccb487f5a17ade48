# SPDX-License-Identifier: Apache-2.0
"""The action node: turns verified text into bounded velocities and reports; anything else is a stop."""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from typing import Any

from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.msg import MotionReport, VerifiedText
from rclpy.duration import Duration
from sensor_msgs.msg import LaserScan
from std_msgs.msg import Bool
from std_srvs.srv import SetBool

from outrider.core.errors import ConfigError
from outrider.core.values import LinkState, Odometry, RangeScan
from outrider.navigation.clocks import Moment, clock_off
from outrider.navigation.limits import MotionLimits
from outrider.navigation.motion.pilot import Pilot, PilotSettings
from outrider.navigation.motion.step_motions import Drive, MotionEnd, StepText
from outrider.navigation.sensing.odometry_check import OdometryCheck
from outrider.navigation.sensing.publisher_counter import PublisherCounter
from outrider.nodes.base.base_command import BaseCommand, open_base_command
from outrider.nodes.common import qos
from outrider.nodes.common.convert import header, odometry_sample, seconds_of, velocity_of
from outrider.nodes.common.gate import Gate
from outrider.nodes.common.node import OutriderNode, pace
from outrider.nodes.common.running import run_node
from outrider.nodes.common.scan_input import ScanInput
from outrider.nodes.common.step_messages import report_message
from outrider.nodes.common.twist_input import TwistInput
from outrider.runtime.node_graph.stop_record import StopRecord

STOP_REPEATS = 5
# Periods of ticks after IDLE_AFTER_S without a motion. A simulated clock must be watched more often.
IDLE_PERIOD_S, SIMULATED_IDLE_PERIOD_S, IDLE_AFTER_S = 0.5, 0.07, 1.0
MANUAL_TOPICS = ("cmd_vel_joy", "cmd_vel_console")
PEOPLE_TOPICS = ("e_stop", *MANUAL_TOPICS)
# How many emergency stops are remembered, since each may arrive on several subscriptions.
REMEMBERED_STOPS = 64
# How long to wait until subscribers have received the last report. The base stands by then.
REPORT_ACK_TIMEOUT = Duration(seconds=0.3)


class ActionNode(OutriderNode):
    """Hosts a `Pilot`. Only this node commands the base, and only while it is active."""

    spec_name = "action"
    pilot: Pilot

    def configure(self) -> None:
        settings = self.pilot_settings()
        self._base: BaseCommand | None = open_base_command(
            self,
            self.value("command_interface"),
            settings.limits,
            self.value("robot_avoidance"),
            min_battery_percent=self.value("min_battery_percent"),
        )
        self._stop_record = StopRecord(self.get_fully_qualified_name())
        engaged = self._stop_record.engaged or (hasattr(self, "pilot") and self.pilot.emergency)
        self.pilot = Pilot(settings, self._base.make_executor)
        self.pilot.on_emergency_stop(engaged, self._now())
        self._odometry: Odometry | None = None
        self._odometry_check, self._odometry_fault = OdometryCheck(self.is_simulated), ""
        self._frame_age_s = 0.0
        self._scans = ScanInput(self)
        self._scan: RangeScan | None = None
        self._active = False
        self._reports = self.publisher(MotionReport, "motion_report", qos.EVENTS)
        self._e_stopped = self.publisher(Bool, "e_stopped", qos.LATCHED)
        self._e_stopped.publish(Bool(data=engaged))
        self.subscription(VerifiedText, "verified_text", self._on_text, qos.EVENTS, alone=True)
        self._sensors = Gate(self)
        self._sensors.subscription(OdometryMsg, "odom", self._on_odometry, qos.RECENT_SENSOR, alone=True)
        self._sensors.subscription(LaserScan, "scan", self._on_scan, qos.LATEST_SENSOR, alone=True)
        self._open_hands()
        server = self.create_service(SetBool, "set_e_stop", self._on_set_e_stop)
        self.keep(server, self.destroy_service)

    def _open_hands(self) -> None:
        """Subscribe to the velocities and stops of people, from publishers with any QoS.

        A lost velocity is replaced by the next one. A stop must not be lost, so it is also read as reliable
        and latched. These two subscriptions can only engage: an old or late release must not undo another
        stop.
        """
        self._sources = {topic: PublisherCounter(self.value("joystick_s")) for topic in MANUAL_TOPICS}
        for topic in MANUAL_TOPICS:
            TwistInput(self, topic, partial(self._on_manual_velocity, topic), qos.FROM_ANY)
        self._stops: deque[tuple[int, int | None]] = deque(maxlen=REMEMBERED_STOPS)
        self.subscription(Bool, "e_stop", self._on_e_stop, qos.FROM_ANY)
        for profile in (qos.EVENTS, qos.ALL_LATCHED):
            # In addition to the one that fits all publishers, so an incompatible QoS is no fault here.
            sure = self.create_subscription(
                Bool, "e_stop", self._on_sure_e_stop, profile, event_callbacks=qos.without_events()
            )
            self.keep(sure, self.destroy_subscription)

    def pilot_settings(self) -> PilotSettings:
        """Returns the settings that the parameters ask for."""
        return PilotSettings(
            silence_s=self.value("deadman_s"),
            joystick_s=self.value("joystick_s"),
            max_frame_age_s=self.value("max_frame_age_s"),
            period_s=1.0 / self.value("rate_hz"),
            use_scan=self.value("use_scan"),
            limits=MotionLimits(
                forward_mps=self.value("max_forward_mps"),
                lateral_mps=self.value("max_lateral_mps"),
                yaw_rps=self.value("max_yaw_rps"),
            ),
        )

    def activate(self) -> None:
        assert self._base is not None
        self.pilot.start(self._now())
        self._active = True
        self._sensors.discard()
        self._base.start()
        self._ticking = self.living_timer(1.0 / self.value("rate_hz"), self._tick)
        self._be_quick()

    def deactivate(self) -> None:
        if not getattr(self, "_active", False) or self._base is None:
            return
        self._active = False
        self.pilot.stop("the action node was deactivated", self._now())
        self._stop_base()
        end = self.pilot.tick(None, None, self._now()).end
        if end is not None:
            self._report(end)
        self._base.close()
        # The process may end now, and a report not received by then is lost.
        self._reports.wait_for_all_acked(REPORT_ACK_TIMEOUT)

    def cleanup(self) -> None:
        self._base = None

    def health(self) -> tuple[str, dict[str, object]]:
        if not getattr(self, "_active", False) or self._base is None:
            return "inactive", {}
        self._sensors.read()
        warning = self.watch.fault() or ("emergency stop is engaged" if self.pilot.emergency else "")
        warning = warning or _hands_warning(self.pilot.drivers)
        warning = warning or self.pilot.clock_fault or clock_off(self._frame_age_s) or self._odometry_fault
        if self._odometry is None:
            warning = warning or f"no odometry: {self.why_silent('odom', OdometryMsg)}"
        if self._scan is None and self.value("use_scan"):
            warning = warning or self._scans.fault or f"no scan: {self.why_silent('scan', LaserScan)}"
        if not self.pilot.is_moving and not self.pilot.drivers:
            warning = warning or self.pilot.stopping.fault
        values: dict[str, object] = {
            "command_interface": self.value("command_interface"),
            "use_scan": self.value("use_scan"),
            "base_frame": self.frame("base_link"),
            "moving": self.pilot.is_moving,
            "emergency_stop": self.pilot.emergency,
            "refused": self._base.refused,
            "unanswered": self._base.overdue,
        }
        return warning or self._base.warning(), values

    def _now(self) -> Moment:
        return Moment(self.now_s(), time.monotonic())

    def _on_text(self, message: VerifiedText) -> None:
        if not self._active:
            return
        self._be_quick()
        age_s = self.get_clock().now().nanoseconds * 1e-9 - seconds_of(message.header.stamp)
        self._frame_age_s = age_s
        text = StepText(
            session_id=message.session_id,
            step=message.step,
            action=message.action,
            complete=message.action_complete,
            withdrawn=message.state == VerifiedText.WITHDRAWN,
            link_lost=message.link_state == LinkState.LOST.value,
            frame_age_s=age_s,
            text=message.text,
        )
        self.pilot.on_base(self._trouble(), self._now())
        self.pilot.on_text(text, self._now())

    def _on_odometry(self, message: OdometryMsg, came_s: float) -> None:
        odometry = self._odometry_check.take(odometry_sample(message), came_s)
        self._odometry_fault = self._odometry_check.fault
        self._odometry = None if self._odometry_fault else odometry

    def _on_scan(self, message: LaserScan, came_s: float) -> None:
        self._scan = self._scans.take(message, came_s)

    def _on_manual_velocity(self, topic: str, message: Twist, info: dict[str, Any]) -> None:
        """Take a velocity; two publishers of a topic count as two drivers.

        Ignored if a stop might not arrive.
        """
        if not self._active or self.watch.fault(*PEOPLE_TOPICS):
            return
        self._be_quick()
        before = self.pilot.drivers
        for driver in (topic, f"another on {topic}") if self._are_several(topic, info) else (topic,):
            self.pilot.on_joystick(velocity_of(message), self._now(), driver)
        if set(self.pilot.drivers) - set(before):
            self.get_logger().warning(_hands_warning(self.pilot.drivers), throttle_duration_sec=1.0)

    def _are_several(self, topic: str, info: dict[str, Any]) -> bool:
        """Whether a topic has several publishers, by the sequence numbers of their messages.

        Without numbers (ROS Humble, some middleware) by the graph, where a dead one counts for some
        seconds.
        """
        number = info.get("publication_sequence_number")
        if number is None:
            return bool(self.count_publishers(self.resolve_topic_name(topic)) > 1)
        return self._sources[topic].take(number, time.monotonic()) > 1

    def _on_e_stop(self, message: Bool, info: dict[str, Any]) -> None:
        if not message.data:
            self._set_e_stop(False)
        self._on_sure_e_stop(message, info)

    def _on_sure_e_stop(self, message: Bool, info: dict[str, Any]) -> None:
        """Engage once per message, even if it comes on several subscriptions."""
        key = info.get("source_timestamp", 0), info.get("publication_sequence_number")
        if message.data and (not key[0] or key not in self._stops):
            self._stops.append(key)
            self._set_e_stop(True)

    def _on_set_e_stop(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self._set_e_stop(request.data)
        response.success = True
        response.message = f"the emergency stop is {'engaged' if request.data else 'released'}"
        return response

    def _set_e_stop(self, engaged: bool) -> None:
        changed = engaged != self.pilot.emergency
        self.pilot.on_emergency_stop(engaged, self._now())
        if engaged:
            self._stop_base()
        self._e_stopped.publish(Bool(data=engaged))
        if self._active:
            self._be_quick()
        if changed:
            self.get_logger().warning(f"emergency stop {'engaged' if engaged else 'released'}")
            self._keep_stop(engaged)

    def _keep_stop(self, engaged: bool) -> None:
        """Save the stop for the next process, in case this one dies.

        The stop itself does not depend on it.
        """
        try:
            self._stop_record.keep(engaged)
        except (ConfigError, OSError) as error:
            self.get_logger().error(f"the emergency stop would not outlast this process: {error}")

    def _tick(self) -> None:
        assert self._base is not None
        try:
            self._sensors.read()
            self._base.tick(held=self.pilot.emergency)
            self.pilot.on_base(self._trouble(), self._now())
            missing = self._odometry_fault if self._odometry is None else self._scans.fault
            drive = self.pilot.tick(self._odometry, self._scan, self._now(), missing)
            self._carry_out(drive)
            self._pace(drive)
        except BaseException:
            self._stop_base()
            raise

    def _be_quick(self) -> None:
        """Wake for every measurement, and tick at the rate of the commands."""
        self._requested_s = time.monotonic()
        self._sensors.read()
        self._sensors.is_open = True
        pace(self._ticking, 1.0 / self.value("rate_hz"))

    def _pace(self, drive: Drive) -> None:
        """Tick and measure less often after some idle time."""
        assert self._base is not None
        if drive != Drive() or self.pilot.is_moving or self.pilot.drivers or not self._base.is_idle:
            self._be_quick()
        elif time.monotonic() - self._requested_s > IDLE_AFTER_S:
            self._sensors.is_open = False
            pace(self._ticking, SIMULATED_IDLE_PERIOD_S if self.is_simulated else IDLE_PERIOD_S)

    def _trouble(self) -> str:
        """Returns why no text may move the base now, or an empty text."""
        assert self._base is not None
        return self.watch.fault() or self._base.trouble()

    def _carry_out(self, drive: Drive) -> None:
        assert self._base is not None
        if drive.stop:
            self._base.stop()
        if drive.velocity is not None:
            self._base.send(drive.velocity)
        if drive.end is not None:
            self._report(drive.end)

    def _stop_base(self) -> None:
        """Stop the base now. Several messages are sent, since one may be lost."""
        for _ in range(STOP_REPEATS):
            if self._base is not None:
                self._base.stop()

    def _report(self, end: MotionEnd) -> None:
        self.get_logger().info(f"step {end.step} {end.action!r}: {end.ending.name.lower()} {end.message}")
        stamped = header(self.get_clock().now().to_msg(), self.frame("base_link"))
        self._reports.publish(report_message(end, stamped))


def _hands_warning(drivers: tuple[str, ...]) -> str:
    """Returns a warning that names the drivers by hand, or an empty text."""
    if len(drivers) > 1:
        return f"two drivers at once ({', '.join(drivers)}): the robot stands until one of them lets go"
    return f"driven by hand on {drivers[0]}: texts move nothing" if drivers else ""


def main() -> int:
    """Runs the node; returns the exit status."""
    return run_node(ActionNode)


if __name__ == "__main__":
    raise SystemExit(main())
