# SPDX-License-Identifier: Apache-2.0
"""The Go2's side of its services, for a simulation: sport, obstacle avoidance, camera, state."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Any

from outrider.core.errors import ConfigError
from outrider.core.values import STANDSTILL, Odometry, Velocity
from outrider.nodes.common import convert, qos
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.go2 import go2_api
from outrider.nodes.go2.go2_condition import LOW_STATE_TOPIC, STATE_TOPIC

BODY_HEIGHT_M = 0.32
BATTERY_PERCENT = 87
LOCOMOTION, BALANCE_STANDING = 3, 1
_STANDING = (go2_api.STOP_MOVE, go2_api.STAND_UP, go2_api.BALANCE_STAND)


class Refused(Exception):
    """The service answers with this error code."""

    def __init__(self, code: int) -> None:
        super().__init__(go2_api.explain(code))
        self.code = code


class SimulatedGo2:
    """Answers requests. `drive` takes the requested velocities, `take_jpeg` gives the camera's picture.

    With a `mode` set it answers every Move but stands still. `move_code` is the code of the answer.
    """

    def __init__(
        self, node: OutriderNode, drive: Callable[[Velocity], None], take_jpeg: Callable[[], bytes]
    ) -> None:
        self._node, self._drive, self._take_jpeg = node, drive, take_jpeg
        self.avoidance_on = self.moved_by_api = False
        self.mode: int | None = None
        self.move_code = go2_api.CODE_OK
        self.battery_percent = BATTERY_PERCENT
        self._serve(go2_api.SPORT, self._sport)
        self._serve(go2_api.OBSTACLES_AVOID, self._avoidance)
        self._serve(go2_api.VIDEOHUB, self._videohub)
        self._open_state()

    def publish_state(self, odometry: Odometry) -> None:
        """Publish pose and velocity, stamped by the robot's own clock, which is the simulation's."""
        if self._state_type is not None and self._states.get_subscription_count():
            message = state_message(self._state_type, odometry)
            message.mode = message.mode if self.mode is None else self.mode
            self._states.publish(message)

    def publish_battery(self) -> None:
        """Publish the battery's charge, if there is a subscriber."""
        if self._low_state_type is not None and self._low_states.get_subscription_count():
            message = self._low_state_type()
            message.bms_state.soc = self.battery_percent
            message.power_v = 29.4
            self._low_states.publish(message)

    def _open_state(self) -> None:
        self._state_type = self._low_state_type = None
        try:
            from unitree_go.msg import LowState, SportModeState
        except ImportError:
            self._node.get_logger().info("unitree_go is not installed: its state topics are not simulated")
            return
        self._state_type, self._low_state_type = SportModeState, LowState
        self._states = self._node.publisher(SportModeState, self._node.go2_topic(STATE_TOPIC), qos.EVENTS)
        self._low_states = self._node.publisher(LowState, self._node.go2_topic(LOW_STATE_TOPIC), qos.EVENTS)

    def _serve(self, service: str, handle: Callable[[int, str], tuple[str, bytes]]) -> None:
        requests, answers = map(
            self._node.go2_topic, (go2_api.request_topic(service), go2_api.response_topic(service))
        )
        responses = self._node.publisher(go2_api.Response, answers, qos.EVENTS)

        def on_request(message: Any) -> None:
            code, data, binary = go2_api.CODE_OK, "", b""
            try:
                data, binary = handle(message.header.identity.api_id, message.parameter)
            except ConfigError as error:
                self._node.get_logger().warning(str(error))
                code = go2_api.CODE_BAD_PARAMETER
            except Refused as refusal:
                code = refusal.code
            if not message.header.policy.noreply:
                responses.publish(go2_api.response(message, code, data, binary))

        # Like the robot's, this queue keeps one request.
        self._node.subscription(go2_api.Request, requests, on_request, qos.COMMAND)

    def _sport(self, api_id: int, parameter: str) -> tuple[str, bytes]:
        if api_id == go2_api.MOVE:
            self._move(go2_api.velocity_of(parameter))
        elif api_id in _STANDING:
            self._drive(STANDSTILL)
        else:
            raise Refused(go2_api.CODE_UNKNOWN_API)
        return "", b""

    def _move(self, velocity: Velocity) -> None:
        if self.move_code != go2_api.CODE_OK:
            raise Refused(self.move_code)
        self._drive(velocity if self.mode is None else STANDSTILL)

    def _avoidance(self, api_id: int, parameter: str) -> tuple[str, bytes]:
        if api_id == go2_api.AVOID_SWITCH_GET:
            return go2_api.enable_parameter(self.avoidance_on), b""
        if api_id == go2_api.AVOID_SWITCH_SET:
            self.avoidance_on = go2_api.enabled_of(parameter)
        elif api_id == go2_api.AVOID_USE_API:
            self.moved_by_api = go2_api.use_api_of(parameter)
        elif api_id == go2_api.AVOID_MOVE:
            velocity = go2_api.velocity_of(parameter, yaw_name="yaw")
            if not (self.avoidance_on and self.moved_by_api):
                raise Refused(go2_api.CODE_INTERNAL)
            self._move(velocity)
        else:
            raise Refused(go2_api.CODE_UNKNOWN_API)
        return "", b""

    def _videohub(self, api_id: int, parameter: str) -> tuple[str, bytes]:
        if api_id != go2_api.GET_IMAGE_SAMPLE:
            raise Refused(go2_api.CODE_UNKNOWN_API)
        return "", self._take_jpeg()


def state_message(state_type: Callable[[], Any], odometry: Odometry) -> Any:
    """Returns odometry as a SportModeState, with odometry's own stamp and the quaternion as w, x, y, z."""
    pose, velocity = odometry.pose, odometry.velocity
    message = state_type()
    stamp = convert.time_of(odometry.stamp_s)
    message.stamp.sec, message.stamp.nanosec = stamp.sec, stamp.nanosec
    half = pose.yaw / 2.0
    message.imu_state.quaternion = array("f", (math.cos(half), 0.0, 0.0, math.sin(half)))
    message.imu_state.rpy = array("f", (0.0, 0.0, pose.yaw))
    message.position = array("f", (pose.x, pose.y, BODY_HEIGHT_M))
    message.velocity = array("f", (velocity.vx, velocity.vy, 0.0))
    message.yaw_speed, message.body_height = velocity.wz, BODY_HEIGHT_M
    message.mode = BALANCE_STANDING if velocity == STANDSTILL else LOCOMOTION
    return message
