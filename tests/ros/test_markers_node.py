"""Markers for RViz and Foxglove, over DDS: the positions of the text, the goal and the path."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from conftest import Client, NodeThread, wait_until
from nav_msgs.msg import Odometry as OdometryMsg
from outrider_interfaces.msg import VerifiedText
from visualization_msgs.msg import Marker, MarkerArray

from outrider.core.values import Odometry, Pose2D, Velocity
from outrider.nodes.common import convert, qos
from outrider.nodes.observers.markers_node import MarkersNode, broken, goal_of

pytestmark = pytest.mark.ros
TEXT = "move forward medium\napproach: silver bottle left 90 at 2.0 m; red chair ahead at 3.0 m, not silver."


def newest(arrays: list[MarkerArray], name: str) -> Marker | None:
    return next((m for a in reversed(arrays) for m in a.markers if m.ns == name), None)


def odometry_at(x: float) -> OdometryMsg:
    """Returns odometry at `x`, stamped 0.6 s per metre."""
    odometry = Odometry(Pose2D(x, 0.0, math.pi / 2), Velocity(), 0.0)
    return convert.odometry_message(odometry, convert.time_of(0.6 * x))


def test_goal_and_action_are_drawn_from_where_the_frame_was_taken(
    run_node: Callable[..., NodeThread], client: Client
) -> None:
    drawn = client.listen(MarkerArray, "markers", qos.EVENTS)
    node = run_node(lambda: MarkersNode({"draw": True})).node
    client.publish(odometry_at(1.0), "odom", qos.SENSOR)
    wait_until(lambda: node._pose, "odometry")
    said = VerifiedText(session_id="s", step=1, text=TEXT, action="move forward medium", action_complete=True)
    said.state = VerifiedText.FINISHED
    client.publish(said, "verified_text", qos.EVENTS)
    wait_until(lambda: (m := newest(drawn, "goal")) and m.action == Marker.ADD, "the goal")
    client.publish(odometry_at(2.0), "odom", qos.SENSOR)
    path = wait_until(lambda: (m := newest(drawn, "path")) and len(m.points) == 2 and m, "the path")
    goal, arrow, text = (newest(drawn, name) for name in ("goal", "action", "text"))
    assert (goal.header.frame_id, goal.action) == ("odom", Marker.ADD)
    # The robot looks along y, so 90 degrees to its left is -x.
    assert (goal.pose.position.x, goal.pose.position.y) == pytest.approx((-1.0, 0.0))
    assert newest(drawn, "goal_name").text == "silver bottle"
    assert arrow.pose.position.x == pytest.approx(1.0) and arrow.scale.x == pytest.approx(0.5)
    assert convert.yaw_of(arrow.pose.orientation) == pytest.approx(math.pi / 2)
    assert text.header.frame_id == "base_link" and text.text.startswith("move forward medium\napproach:")
    assert [point.x for point in path.points] == [1.0, 2.0]


def test_a_new_goal_forgets_the_old_one(run_node: Callable[..., NodeThread], client: Client) -> None:
    drawn = client.listen(MarkerArray, "markers", qos.EVENTS)
    node = run_node(lambda: MarkersNode({"draw": True})).node
    client.publish(odometry_at(0.0), "odom", qos.SENSOR)
    wait_until(lambda: node._pose, "odometry")
    said = VerifiedText(session_id="s", step=1, text=TEXT, state=VerifiedText.FINISHED)
    client.publish(said, "verified_text", qos.EVENTS)
    wait_until(lambda: (m := newest(drawn, "goal")) and m.action == Marker.ADD, "the goal")
    said.session_id, said.text = "t", "turn left small\nlook: silver bottle ahead at 1.0 m."
    client.publish(said, "verified_text", qos.EVENTS)
    wait_until(lambda: newest(drawn, "goal").action == Marker.DELETE, "no goal")


def test_only_what_is_gone_for_is_a_goal() -> None:
    here = Pose2D(0.0, 0.0, 0.0)
    assert goal_of("turn left small\nlook: red chair ahead at 3.0 m, not silver.", here) is None
    assert goal_of("stop\narrived: nothing", here) is None
    assert goal_of(TEXT, here)[0] == "silver bottle"


def test_long_texts_are_broken_into_lines() -> None:
    assert broken("turn left\none two three", 8) == "turn\nleft\none two\nthree"
