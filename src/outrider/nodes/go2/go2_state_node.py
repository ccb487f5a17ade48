# SPDX-License-Identifier: Apache-2.0
"""Publishes the Go2's state: odometry and tf from /sportmodestate, the battery from /lf/lowstate."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

from nav_msgs.msg import Odometry as OdometryMsg
from sensor_msgs.msg import BatteryState
from tf2_msgs.msg import TFMessage

from outrider.core.errors import ConfigError
from outrider.core.values import Velocity
from outrider.navigation.sensing.odometry_check import OdometryCheck, OdometrySample
from outrider.navigation.sensing.odometry_track import Speedometer
from outrider.nodes.common import convert, qos
from outrider.nodes.common.gate import Gate
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.running import run_node
from outrider.nodes.go2.go2_condition import (
    LOW_STATE_TOPIC,
    STATE_TOPIC,
    battery_warning,
    mode_name,
    posture_fault,
)

MAX_RATE_HZ = 50.0
# The period of odometry after the robot has stood for STANDING_S, and the speeds below which it stands.
STANDING_PERIOD_S, STANDING_S = 1.0 / 15.0, 1.0
STILL_MPS, STILL_RPS = 0.02, 0.05
SILENCE_S = 0.5
SPEED_WINDOW_S = 0.1


def sample_of(state: Any) -> OdometrySample:
    """Returns the pose of a SportModeState, whose quaternion is ordered w, x, y, z, and its yaw rate."""
    w, x, y, z = map(float, state.imu_state.quaternion)
    position = (float(state.position[0]), float(state.position[1]), float(state.position[2]))
    stamp_s = state.stamp.sec + state.stamp.nanosec * 1e-9
    return OdometrySample(position, (x, y, z, w), Velocity(wz=float(state.yaw_speed)), stamp_s=stamp_s)


class Go2StateNode(OutriderNode):
    """Drops a state whose stamp does not advance: it is frozen, and odometry must become stale."""

    spec_name = "go2_state"
    look_period_s = 0.5

    def configure(self) -> None:
        self._mode, self._posture = "unknown", ""
        self._battery_percent: int | None = None
        self._heard_s = self._published_s = self._moved_s = -math.inf
        self._stamp_s = -math.inf
        self._active = False
        self._check = OdometryCheck()
        # From positions: the frame of the robot's own velocity is not documented.
        self._speed = Speedometer(SPEED_WINDOW_S)
        self._states, self._low_states = Gate(self), Gate(self)
        try:
            from unitree_go.msg import LowState, SportModeState
        except ImportError as error:
            if self._gives_odometry:
                raise ConfigError(
                    "odometry_source=sportmodestate needs unitree_go: build unitree_ros2 or ros2_ws/stand_ins"
                ) from error
            self.get_logger().info("unitree_go is not installed: mode and battery are unknown")
            return
        if self._gives_odometry:
            self._odom = self.publisher(OdometryMsg, "odom", qos.EVENTS)
            self._tf = self.publisher(TFMessage, "/tf", qos.EVENTS)
            self._tf_static = self.publisher(TFMessage, "/tf_static", qos.LATCHED)
        self._battery = self.publisher(BatteryState, "battery_state", qos.EVENTS)
        for gate, kind, topic, callback in (
            (self._states, SportModeState, STATE_TOPIC, self._on_state),
            (self._low_states, LowState, LOW_STATE_TOPIC, self._on_low_state),
        ):
            gate.subscription(kind, self.go2_topic(topic), callback, qos.LATEST_SENSOR)

    def activate(self) -> None:
        self._active = True
        self._states.discard()
        self.active_timer(STANDING_PERIOD_S, self._read)
        if self._gives_odometry:
            stamp = self.get_clock().now().to_msg()
            fixed = convert.static_transforms(stamp, self.frame_prefix)
            if self.value("map_to_odom"):
                fixed.append(convert.map_transform(stamp, self.frame_prefix))
            self._tf_static.publish(TFMessage(transforms=fixed))

    def deactivate(self) -> None:
        self._active = False

    def health(self) -> tuple[str, dict[str, object]]:
        if not getattr(self, "_active", False):
            return "inactive", {}
        self._low_states.read()
        return self._warning(), {"mode": self._mode, "battery_percent": self._battery_percent}

    @property
    def _gives_odometry(self) -> bool:
        return bool(self.value("odometry_source") == "sportmodestate")

    def _warning(self) -> str:
        if self._gives_odometry:
            topic = self.go2_topic(STATE_TOPIC)
            if self.count_publishers("odom") > 1:
                return "somebody else publishes odom as well: stop it, or set odometry_source:=topic"
            if time.monotonic() - self._heard_s > SILENCE_S:
                return f"no new state on {topic}: is DDS on the interface of the robot's network?"
            if self._check.fault:
                return f"{topic} gives no odometry: {self._check.fault}"
        return self._posture or battery_warning(self._battery_percent)

    def _read(self) -> None:
        """Read the newest state. While the robot moves, wait for every one."""
        self._states.read()
        self._states.is_open = time.monotonic() - self._moved_s < STANDING_S

    def _on_state(self, message: Any, came_s: float) -> None:
        self._mode = mode_name(message.mode)
        self._posture = posture_fault(message.mode, message.error_code)
        stamp_s = message.stamp.sec + message.stamp.nanosec * 1e-9
        if stamp_s and stamp_s == self._stamp_s:
            return
        self._stamp_s, self._heard_s = stamp_s, time.monotonic()
        if self._active and self._gives_odometry:
            # Firmware without stamps leaves only the time of arrival.
            self._publish_odometry(message, stamp_s or came_s, came_s)

    def _publish_odometry(self, message: Any, robot_s: float, came_s: float) -> None:
        """Publish at most MAX_RATE_HZ of the robot's 500 Hz, stamped by this computer's clock."""
        measured = self._check.take(sample_of(message), came_s)
        if measured is None:
            self.get_logger().warning(self._check.fault, throttle_duration_sec=1.0)
            return
        pose = measured.pose
        velocity = replace(self._speed.velocity(pose, robot_s), wz=measured.velocity.wz)
        odometry = replace(measured, velocity=velocity)
        if odometry.velocity.exceeds(STILL_MPS, STILL_RPS):
            self._moved_s = time.monotonic()
        if 0.0 <= robot_s - self._published_s < 1.0 / MAX_RATE_HZ:
            return
        self._published_s = robot_s
        stamp = convert.time_of(self.stamp_s(measured.stamp_s))
        self._odom.publish(convert.odometry_message(odometry, stamp, self.frame_prefix))
        base = convert.base_transform(pose, stamp, self.frame_prefix)
        self._tf.publish(TFMessage(transforms=[base]))

    def _on_low_state(self, message: Any, _: float) -> None:
        self._battery_percent = int(message.bms_state.soc)
        if not self._active:
            return
        state = BatteryState(voltage=message.power_v, current=message.bms_state.current / 1000.0)
        # NaN by the message's convention: not measured.
        state.temperature = state.charge = state.capacity = state.design_capacity = math.nan
        state.header.stamp = self.get_clock().now().to_msg()
        state.percentage, state.present = self._battery_percent / 100.0, True
        self._battery.publish(state)


def main() -> int:
    """Runs the node; returns the exit status."""
    return run_node(Go2StateNode)


if __name__ == "__main__":
    raise SystemExit(main())
