# SPDX-License-Identifier: Apache-2.0
"""The base in Gazebo behind the robot's topics: adds a deadman, transforms, and the truth.

Gazebo's VelocityControl holds the last velocity for ever, so all velocities must pass through this node.
Some releases report another lens than they render with, so this node makes `camera_info` from Outrider's
lens.
"""

from __future__ import annotations

import time
from typing import Any

from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.msg import SimulationState
from sensor_msgs.msg import CameraInfo
from tf2_msgs.msg import TFMessage

from outrider.core.sensors.camera import SIM_CAMERA
from outrider.core.values import Pose2D
from outrider.navigation.sensing.odometry_check import OdometryCheck
from outrider.nodes.common import convert, qos
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.running import run_node
from outrider.nodes.simulation.simulation_node import STATE_HZ, truth_message
from outrider.runtime.mission.simulated_base import PHYSICS_HZ, SimulatedBase
from outrider.simulation.contacts import ContactCounter
from outrider.simulation.homes.home import generate_home
from outrider.simulation.homes.vocabulary import target_of


class GazeboNode(OutriderNode):
    """Connects Gazebo to the robot's topics.

    Gazebo's odometry has no error: the mission uses it as the truth.
    """

    spec_name = "gazebo"
    _commands: Any = None

    def configure(self) -> None:
        self._instruction = self.value("holds") or self.value("instruction")
        self._home = generate_home(self.value("seed"), target_of(self._instruction), self.value("placement"))
        self._contacts = ContactCounter(self._home)
        self._base = SimulatedBase()
        self._odometry_check = OdometryCheck(self.is_simulated)
        self._is_watched = False
        self._pose: Pose2D | None = None
        self._path_m = 0.0
        self._commands = self.publisher(Twist, "gazebo/cmd_vel", qos.COMMAND)
        self._state = self.publisher(SimulationState, "simulation_state", qos.EVENTS)
        self._tf = self.publisher(TFMessage, "/tf", qos.EVENTS)
        self._tf_static = self.publisher(TFMessage, "/tf_static", qos.LATCHED)
        self.subscription(Twist, "cmd_vel", self._on_cmd_vel, qos.COMMAND)
        self.subscription(Twist, "gazebo/cmd_vel", self._on_base_command, qos.COMMAND)
        self._infos = self.publisher(CameraInfo, "camera/camera_info", qos.SENSOR)
        self.subscription(CameraInfo, "gazebo/camera_info", self._on_camera_info, qos.SENSOR)
        self._odom = self.publisher(OdometryMsg, "odom", qos.EVENTS)
        self.subscription(OdometryMsg, "gazebo/odom", self._on_odometry, qos.EVENTS)

    def activate(self) -> None:
        stamp = self.get_clock().now().to_msg()
        prefix = self.frame_prefix
        fixed = [convert.map_transform(stamp, prefix), *convert.static_transforms(stamp, prefix)]
        fixed.append(convert.lidar_transform(stamp, prefix))
        self._tf_static.publish(TFMessage(transforms=fixed))
        self.active_timer(1.0 / PHYSICS_HZ, self._command)
        self.active_timer(1.0 / STATE_HZ, self._publish_state)

    def deactivate(self) -> None:
        if self._commands is not None:
            self._base = SimulatedBase()
            if self._is_watched:
                self._commands.publish(Twist())

    def cleanup(self) -> None:
        self._commands = None

    def health(self) -> tuple[str, dict[str, object]]:
        if getattr(self, "_pose", None) is None:
            return "no odometry from Gazebo: is the bridge running?", {}
        if not self._is_watched:
            return "the base stands until gazebo_watchdog is heard: is it running?", {}
        return self._odometry_check.fault, {}

    def _on_cmd_vel(self, message: Twist) -> None:
        self._base.feed(convert.velocity_of(message), time.monotonic())

    def _on_base_command(self, _: Twist) -> None:
        """Note that the watchdog works. Until then this node publishes nothing on the topic."""
        self._is_watched = True

    def _command(self) -> None:
        if not self._is_watched:
            return
        self._commands.publish(convert.twist_message(self._base.velocity(time.monotonic())))

    def _on_odometry(self, message: OdometryMsg) -> None:
        odometry = self._odometry_check.take(convert.odometry_sample(message), self.now_s())
        if odometry is None:
            return
        pose = odometry.pose
        if self._pose is not None:
            self._path_m += pose.distance_to(self._pose.x, self._pose.y)
        self._pose = pose
        self._contacts.move_to(pose)
        stamp, prefix = message.header.stamp, self.frame_prefix
        self._odom.publish(convert.odometry_message(odometry, stamp, prefix))
        self._tf.publish(TFMessage(transforms=[convert.base_transform(pose, stamp, prefix)]))

    def _on_camera_info(self, message: CameraInfo) -> None:
        stamp, frame = message.header.stamp, message.header.frame_id
        self._infos.publish(convert.camera_info_message(SIM_CAMERA, stamp, frame))

    def _publish_state(self) -> None:
        if self._pose is None:
            return
        stamp = self.get_clock().now().to_msg()
        stamped = convert.header(stamp, self.frame("map"))
        message = truth_message(self._home, self._instruction, self._pose, stamped)
        message.path_m = self._path_m
        message.collisions = self._contacts.collisions
        message.time_s = convert.seconds_of(stamp)
        self._state.publish(message)


def main() -> int:
    """Runs the node; returns the exit status."""
    return run_node(GazeboNode)


if __name__ == "__main__":
    raise SystemExit(main())
