# SPDX-License-Identifier: Apache-2.0
"""Publishes the robot's text, goal and path as markers for RViz and Foxglove."""

from __future__ import annotations

import textwrap
from collections import deque

from geometry_msgs.msg import Point
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.msg import VerifiedText
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from outrider.core.language.actions import ActionTable, split_answer
from outrider.core.values import Place, Pose2D
from outrider.memory.language.scene import place_of, things_seen
from outrider.navigation.sensing.odometry_check import OdometryCheck
from outrider.nodes.common import convert, qos
from outrider.nodes.common.gate import Gate
from outrider.nodes.common.node import OutriderNode
from outrider.nodes.common.running import run_node

GOAL_PHASES = ("approach", "arrived")
PERIOD_S = 0.2
PATH_STEP_M, PATH_POINTS = 0.05, 4000
LETTERS_M, TEXT_HEIGHT_M, GOAL_HEIGHT_M = 0.12, 0.9, 0.4
LINE_CHARACTERS = 60
GREEN, ORANGE, BLUE, GREY, RED = (
    ColorRGBA(r=red, g=green, b=blue, a=0.9)
    for red, green, blue in (
        (0.1, 0.7, 0.2),
        (1.0, 0.55, 0.0),
        (0.2, 0.4, 0.9),
        (0.6, 0.6, 0.6),
        (0.85, 0.1, 0.1),
    )
)


class MarkersNode(OutriderNode):
    """Subscribes and draws; nothing depends on it."""

    spec_name = "markers"
    look_period_s = 0.5

    def configure(self) -> None:
        self._active = False
        self._text: VerifiedText | None = None
        self._odometry_check, self._frame_id = OdometryCheck(self.is_simulated), "odom"
        self._pose: Pose2D | None = None
        self._text_pose: Pose2D | None = None
        self._goal: tuple[str, Place] | None = None
        self._path: deque[Pose2D] = deque(maxlen=PATH_POINTS)
        self._markers = self.publisher(MarkerArray, "markers", qos.EVENTS)
        self.subscription(VerifiedText, "verified_text", self._on_text, qos.EVENTS)
        self._sensors = Gate(self)
        self._sensors.subscription(OdometryMsg, "odom", self._on_odometry, qos.RECENT_SENSOR)

    def activate(self) -> None:
        self._active = True
        self._sensors.discard()
        self.active_timer(PERIOD_S, self._draw)

    def deactivate(self) -> None:
        self._active = False

    def _on_odometry(self, message: OdometryMsg, came_s: float) -> None:
        odometry = self._odometry_check.take(convert.odometry_sample(message), came_s)
        self._pose = odometry.pose if odometry else None
        if odometry is None:
            return
        pose, self._frame_id = odometry.pose, odometry.frame_id
        if not self._path or self._path[-1].distance_to(pose.x, pose.y) >= PATH_STEP_M:
            self._path.append(pose)

    def _on_text(self, message: VerifiedText) -> None:
        """Take a text.

        It describes its frame; until its action begins the robot stands where that was taken.
        """
        self._sensors.read()
        last = self._text
        if last is None or (last.session_id, last.step) != (message.session_id, message.step):
            self._text_pose = self._pose
        if last is None or last.session_id != message.session_id:
            self._goal = None
        self._text = message
        if message.state == VerifiedText.FINISHED and self._text_pose is not None:
            self._goal = goal_of(message.text, self._text_pose) or self._goal

    def _draw(self) -> None:
        self._sensors.read()
        markers = [self._path_marker()]
        if self._text is not None:
            markers.append(self._text_marker(self._text))
            markers.append(self._action_marker(self._text))
        markers += self._goal_markers()
        self._markers.publish(MarkerArray(markers=markers))

    def _marker(self, name: str, kind: int, frame: str, color: ColorRGBA, scale_m: float) -> Marker:
        marker = Marker(ns=name, type=kind, action=Marker.ADD, color=color)
        # Without a stamp a marker is drawn at the newest transform.
        marker.header.frame_id = frame
        marker.pose.orientation.w = 1.0
        marker.scale.x = marker.scale.y = marker.scale.z = scale_m
        return marker

    def _path_marker(self) -> Marker:
        marker = self._marker("path", Marker.LINE_STRIP, self._frame_id, BLUE, 0.03)
        marker.points = [Point(x=pose.x, y=pose.y, z=0.02) for pose in self._path]
        if len(marker.points) < 2:
            marker.action = Marker.DELETE
        return marker

    def _text_marker(self, message: VerifiedText) -> Marker:
        withdrawn = message.state == VerifiedText.WITHDRAWN
        marker = self._marker(
            "text", Marker.TEXT_VIEW_FACING, self.frame("base_link"), RED if withdrawn else GREY, LETTERS_M
        )
        marker.pose.position.z = TEXT_HEIGHT_M
        marker.text = broken(message.text, LINE_CHARACTERS)
        return marker

    def _action_marker(self, message: VerifiedText) -> Marker:
        """Returns an arrow to the action's end, from where its frame was taken."""
        marker = self._marker("action", Marker.ARROW, self._frame_id, GREEN, 0.05)
        motion = ActionTable().motion(message.action) if message.action_complete else None
        if motion is None or motion.is_stop or self._text_pose is None:
            marker.action = Marker.DELETE
            return marker
        start = self._text_pose
        marker.pose = convert.pose_message(Pose2D(start.x, start.y, start.yaw + motion.turn_rad))
        marker.pose.position.z = 0.05
        marker.scale.x = motion.forward_m or 0.4
        return marker

    def _goal_markers(self) -> list[Marker]:
        sphere = self._marker("goal", Marker.SPHERE, self._frame_id, ORANGE, 0.25)
        label = self._marker("goal_name", Marker.TEXT_VIEW_FACING, self._frame_id, ORANGE, LETTERS_M)
        if self._goal is None:
            sphere.action = label.action = Marker.DELETE
            return [sphere, label]
        label.text, place = self._goal
        for marker, height_m in ((sphere, GOAL_HEIGHT_M / 2.0), (label, GOAL_HEIGHT_M)):
            marker.pose.position.x, marker.pose.position.y = place.x, place.y
            marker.pose.position.z = height_m
        return [sphere, label]


def goal_of(text: str, pose: Pose2D) -> tuple[str, Place] | None:
    """Returns the goal of a text and its place in odometry's frame; None if there is no goal yet."""
    if split_answer(text).phase not in GOAL_PHASES:
        return None
    things = things_seen(text)
    return (things[0].what, place_of(things[0], pose, "")) if things else None


def broken(text: str, width: int) -> str:
    """Returns a text in lines of at most `width`; the action keeps its own line."""
    return "\n".join(textwrap.fill(line, width) for line in text.splitlines())


def main() -> int:
    """Runs the node; returns the exit status."""
    return run_node(MarkersNode)


if __name__ == "__main__":
    raise SystemExit(main())
