# SPDX-License-Identifier: Apache-2.0
"""The simulated robot: the topics, frames and services of a Go2, for a `Simulator`."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import cv2
from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.msg import SimulationState
from rosgraph_msgs.msg import Clock as ClockMsg
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, LaserScan
from tf2_msgs.msg import TFMessage

from outrider.core.sensors.camera import SIM_CAMERA
from outrider.core.sensors.lidar import LIDAR_FRAME
from outrider.core.values import Odometry, Pose2D, Velocity
from outrider.nodes.common import convert, qos
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.running import run_node
from outrider.runtime.mission.simulated_base import MAX_LAG_S, PHYSICS_HZ, SimulatedBase
from outrider.simulation.homes.home import Home, generate_home
from outrider.simulation.homes.vocabulary import target_of
from outrider.simulation.mjcf import TIMESTEP_S
from outrider.simulation.simulator import SCAN_RANGE_M, open_simulator

if TYPE_CHECKING:
    from outrider.nodes.go2.simulated_go2 import SimulatedGo2

SENSOR_HZ = 25.0
STATE_HZ = 10.0
FLICKER_MPS = 1e-6
TOP_VIEW_PX = (480, 480)


class SimulationNode(OutriderNode):
    """Advances the home with the wall clock. The last velocity holds for at most 0.3 real seconds."""

    spec_name = "simulation"

    def configure(self) -> None:
        self._instruction = self.value("holds") or self.value("instruction")
        target = target_of(self._instruction)
        if target is None:
            # Do not log the instruction: it may contain a secret, and logs are files.
            self.get_logger().warning("the instruction names no object of the simulation")
        home = generate_home(self.value("seed"), target, self.value("placement"))
        self.simulator = open_simulator(
            home, self.value("seed"), self.value("odometry_noise"), self.value("legs")
        )
        self._base = SimulatedBase()
        self._path_m, self._flicker_mps = 0.0, FLICKER_MPS
        self._open_topics()

    def _open_topics(self) -> None:
        self._image = self.publisher(Image, "camera/image_raw", qos.SENSOR)
        self._camera_info = self.publisher(CameraInfo, "camera/camera_info", qos.SENSOR)
        self._top_view = self.publisher(CompressedImage, "top_view/compressed", qos.SENSOR)
        self._odom = self.publisher(OdometryMsg, "odom", qos.EVENTS)
        self._scan = self.publisher(LaserScan, "scan", qos.SENSOR)
        self._state = self.publisher(SimulationState, "simulation_state", qos.EVENTS)
        self._velocities = self.publisher(TwistStamped, "base_velocity", qos.EVENTS)
        self._tf = self.publisher(TFMessage, "/tf", qos.EVENTS)
        self._tf_static = self.publisher(TFMessage, "/tf_static", qos.LATCHED)
        self._sim_clock = self.publisher(ClockMsg, "/clock", qos.COMMAND)
        self.subscription(Twist, "cmd_vel", self._on_cmd_vel, qos.COMMAND)
        self._go2 = self._open_go2()

    def _open_go2(self) -> SimulatedGo2 | None:
        """Returns the Go2's own services, if their messages are installed."""
        try:
            from outrider.nodes.go2.simulated_go2 import SimulatedGo2
        except ImportError:
            self.get_logger().info("unitree_api is not installed: the Go2's services are not simulated")
            return None
        return SimulatedGo2(self, self._feed, self._take_jpeg)

    def activate(self) -> None:
        stamp, prefix = self._stamp(), self.frame_prefix
        fixed = [convert.map_transform(stamp, prefix), *convert.static_transforms(stamp, prefix)]
        fixed.append(convert.lidar_transform(stamp, prefix))
        self._tf_static.publish(TFMessage(transforms=fixed))
        self._last_s = time.monotonic()
        self._due_s = 0.0
        self.active_timer(1.0 / PHYSICS_HZ, self._advance)
        factor = self.value("real_time_factor")
        for rate_hz, callback in (
            (SENSOR_HZ, self._publish_motion),
            (STATE_HZ, self._publish_state),
            (self.value("camera_hz"), self._publish_camera),
            (self.value("top_view_hz"), self._publish_top_view),
        ):
            self.active_timer(1.0 / (rate_hz * factor), callback)

    def deactivate(self) -> None:
        self._base = SimulatedBase()

    def cleanup(self) -> None:
        if hasattr(self, "simulator"):
            self.simulator.close()
            del self.simulator

    def health(self) -> tuple[str, dict[str, object]]:
        if not hasattr(self, "simulator"):
            return "unconfigured", {}
        fallen = getattr(self.simulator, "has_fallen", False)
        return "the robot has fallen" if fallen else "", {
            "time_s": self.simulator.time_s,
            "collisions": self.simulator.collisions,
        }

    def _stamp(self) -> convert.Time:
        if self.value("real_time_factor") == 1.0:
            return self.get_clock().now().to_msg()
        return convert.time_of(self.simulator.time_s)

    def _advance(self) -> None:
        """Advance the simulation to the wall clock. If the machine is too slow, the lag is dropped."""
        now_s = time.monotonic()
        self._due_s += (now_s - self._last_s) * self.value("real_time_factor")
        self._last_s = now_s
        self._due_s = min(self._due_s, MAX_LAG_S)
        if self._due_s < TIMESTEP_S:
            return
        before = self.simulator.truth()
        start_s = self.simulator.time_s
        velocity = self._base.velocity(now_s)
        self._publish_velocity(velocity)
        self.simulator.drive(velocity, self._due_s)
        self._due_s -= self.simulator.time_s - start_s
        after = self.simulator.truth()
        self._path_m += before.distance_to(after.x, after.y)
        self._sim_clock.publish(ClockMsg(clock=convert.time_of(self.simulator.time_s)))

    def _publish_velocity(self, velocity: Velocity) -> None:
        """Publish the velocity that the base obeys, after its deadman, to measure how soon it stands."""
        if self._velocities.get_subscription_count() > 0:
            stamped = convert.header(self._stamp(), self.frame("base_link"))
            self._velocities.publish(TwistStamped(header=stamped, twist=convert.twist_message(velocity)))

    def _publish_motion(self) -> None:
        stamp, odometry = self._stamp(), self._living(self.simulator.odometry())
        prefix = self.frame_prefix
        self._odom.publish(convert.odometry_message(odometry, stamp, prefix))
        self._tf.publish(TFMessage(transforms=[convert.base_transform(odometry.pose, stamp, prefix)]))
        lidar = self.frame(LIDAR_FRAME)
        self._scan.publish(convert.scan_message(self.simulator.scan(), stamp, SCAN_RANGE_M, lidar))
        if self._go2 is not None:
            self._go2.publish_state(odometry)

    def _living(self, odometry: Odometry) -> Odometry:
        """Returns odometry with a changing last digit, like a sensor's: a dead source repeats every bit."""
        self._flicker_mps = -self._flicker_mps
        velocity = replace(odometry.velocity, vx=odometry.velocity.vx + self._flicker_mps)
        return replace(odometry, velocity=velocity)

    def _publish_state(self) -> None:
        if self._go2 is not None:
            self._go2.publish_battery()
        stamped = convert.header(self._stamp(), self.frame("map"))
        message = truth_message(self.simulator.home, self._instruction, self.simulator.truth(), stamped)
        message.path_m = self._path_m
        message.collisions = self.simulator.collisions
        message.time_s = self.simulator.time_s
        self._state.publish(message)

    def _publish_camera(self) -> None:
        stamp, frame = self._stamp(), self.frame("camera_optical_frame")
        self._image.publish(convert.image_message(self.simulator.render_camera(), stamp, frame))
        self._camera_info.publish(convert.camera_info_message(SIM_CAMERA, stamp, frame))

    def _publish_top_view(self) -> None:
        if self._top_view.get_subscription_count() == 0:
            return
        picture = cv2.cvtColor(self.simulator.render_top(*TOP_VIEW_PX), cv2.COLOR_RGB2BGR)
        encoded = cv2.imencode(".jpg", picture)[1]
        message = CompressedImage(header=convert.header(self._stamp(), self.frame("map")), format="jpeg")
        message.data = encoded.tobytes()
        self._top_view.publish(message)

    def _on_cmd_vel(self, message: Twist) -> None:
        self._feed(convert.velocity_of(message))

    def _feed(self, velocity: Velocity) -> None:
        self._base.feed(velocity, time.monotonic())

    def _take_jpeg(self) -> bytes:
        picture = cv2.cvtColor(self.simulator.render_camera(), cv2.COLOR_RGB2BGR)
        return bytes(cv2.imencode(".jpg", picture)[1])


def truth_message(home: Home, instruction: str, truth: Pose2D, header: convert.Header) -> SimulationState:
    """Returns home and pose as a message. The caller adds path and collisions."""
    target = home.target
    return SimulationState(
        header=header,
        pose=convert.pose_message(truth),
        seed=home.seed,
        placement=home.placement,
        instruction=instruction,
        target=target.spec.phrase,
        target_x=target.x,
        target_y=target.y,
        distance_to_target_m=truth.distance_to(target.x, target.y),
    )


def main() -> int:
    """Runs the node; returns the exit status."""
    return run_node(SimulationNode)


if __name__ == "__main__":
    raise SystemExit(main())
