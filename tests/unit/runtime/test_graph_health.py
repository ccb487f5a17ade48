"""The doctor's judgement of a ROS graph."""

from __future__ import annotations

from dataclasses import replace

from outrider.runtime.graph_health import Grade, GraphView, TopicView, judge_graph

TWIST = "geometry_msgs/msg/Twist"
HEALTHY = GraphView(
    domain="7",
    nodes=("simulation", "navigator", "action", "verifier"),
    topics={
        "/camera/image_raw": TopicView("sensor_msgs/msg/Image", ("simulation",), ("navigator",)),
        "/odom": TopicView("nav_msgs/msg/Odometry", ("simulation",), ("action", "navigator")),
        "/scan": TopicView("sensor_msgs/msg/LaserScan", ("simulation",), ("action",)),
        "/verified_text": TopicView("outrider_interfaces/msg/VerifiedText", ("navigator",), ("action",)),
        "/cmd_vel": TopicView(TWIST, ("action",), ("simulation",)),
    },
    ages_s={"/camera/image_raw": 0.05, "/odom": 0.01},
)


def with_topic(topic: str, view: TopicView | None) -> GraphView:
    topics = (
        {**HEALTHY.topics, topic: view} if view else {k: v for k, v in HEALTHY.topics.items() if k != topic}
    )
    return replace(HEALTHY, topics=topics)


def worst(view: GraphView) -> tuple[Grade, str]:
    """The grade and the advice of the only check that is not well."""
    bad = [check for check in judge_graph(view) if check.grade is not Grade.OK]
    assert len(bad) == 1, bad
    return bad[0].grade, f"{bad[0].name}: {bad[0].detail}: {bad[0].advice}"


def test_a_healthy_graph_has_no_complaint() -> None:
    assert all(check.grade is Grade.OK for check in judge_graph(HEALTHY))


def test_an_empty_graph_is_one_warning_that_names_the_domain() -> None:
    checks = judge_graph(GraphView("42", ("talker",)))
    assert [check.grade for check in checks] == [Grade.WARN] and "42" in checks[0].detail


def test_the_cloud_s_machine_needs_no_topics() -> None:
    checks = judge_graph(GraphView("0", ("verifier",), {}, {"/odom": None}))
    assert [check.grade for check in checks] == [Grade.OK] and "verifier" in checks[0].detail


def test_two_cameras_are_a_warning_and_none_is_a_failure() -> None:
    two = TopicView("sensor_msgs/msg/Image", ("simulation", "camera"), ("navigator",))
    assert worst(with_topic("/camera/image_raw", two))[0] is Grade.WARN
    grade, text = worst(with_topic("/camera/image_raw", None))
    assert grade is Grade.FAIL and "/camera/image_raw" in text


def test_a_wrong_cmd_vel_topic_is_found_and_the_remapping_told() -> None:
    view = with_topic("/cmd_vel", TopicView(TWIST, ("action",)))
    view = replace(view, topics={**view.topics, "/robot/cmd_vel": TopicView(TWIST, (), ("base",))})
    grade, text = worst(view)
    assert grade is Grade.FAIL and "cmd_vel:=/robot/cmd_vel" in text
    own = {**view.topics, "/cmd_vel_joy": TopicView(TWIST, (), ("action",))}
    assert worst(replace(view, topics=own)) == (grade, text), "the joystick's topic is no base"


def test_a_second_source_of_commands_is_a_warning() -> None:
    grade, text = worst(with_topic("/cmd_vel", TopicView(TWIST, ("action", "teleop"), ("simulation",))))
    assert grade is Grade.WARN and "teleop" in text


def test_old_and_missing_frames_and_foreign_clocks() -> None:
    assert worst(replace(HEALTHY, ages_s={"/odom": None}))[0] is Grade.FAIL
    assert worst(replace(HEALTHY, ages_s={"/odom": 0.9}))[0] is Grade.WARN
    assert "clock" in worst(replace(HEALTHY, ages_s={"/odom": -3.0}))[1]


def test_a_qos_mismatch_names_both_sides() -> None:
    view = replace(HEALTHY.topics["/scan"], mismatches=("lidar -> action: best effort offered",))
    grade, text = worst(with_topic("/scan", view))
    assert grade is Grade.FAIL and "lidar -> action" in text


def test_the_action_node_without_a_scan_is_a_failure() -> None:
    assert "use_scan" in worst(with_topic("/scan", None))[1]
