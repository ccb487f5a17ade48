"""The doctor's judgement of a ROS graph: a healthy robot gets no complaint, and each fault one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outrider.runtime.diagnosis.graph_health import (
    IMAGE,
    ODOMETRY,
    REPORT,
    REQUEST,
    SCAN,
    STOP,
    TEXT,
    Check,
    Grade,
    judge_graph,
)
from outrider.runtime.diagnosis.graph_view import GraphView, Mismatch, NodeView, TopicView
from outrider.runtime.diagnosis.topic_health import TWIST, TWIST_STAMPED, Endpoint

ACTION = NodeView("action", "action", values={"use_scan": "True", "command_interface": "twist"})
NAVIGATOR = NodeView("navigator", "navigator")


def topic(message: str, publishers: str = "", readers: str = "") -> TopicView:
    """Returns a topic whose ends have one type; names are separated by commas."""
    return TopicView(
        tuple(Endpoint(name, message) for name in publishers.split(",") if name),
        tuple(Endpoint(name, message) for name in readers.split(",") if name),
    )


SIMULATED = GraphView(
    domain="7",
    nodes=(ACTION, NAVIGATOR, NodeView("simulation", "simulation"), NodeView("verifier", "verifier")),
    topics={
        "/camera/image_raw": topic(IMAGE, "simulation", "navigator"),
        "/odom": topic(ODOMETRY, "simulation", "action,navigator"),
        "/scan": topic(SCAN, "simulation", "action,navigator"),
        "/verified_text": topic(TEXT, "navigator", "action"),
        "/motion_report": topic(REPORT, "action", "navigator"),
        "/cmd_vel": topic(TWIST, "action", "simulation"),
        "/cmd_vel_joy": topic(TWIST, "", "action"),
        "/e_stop": topic(STOP, "", "action"),
    },
    ages_s={"/camera/image_raw": 0.05, "/odom": 0.01, "/scan": -0.001},
    frames={"/scan": "base_link"},
)
STRANGERS = "rviz,rosbag2_recorder"
# Remapped inputs, third-party drivers and estimator, a multiplexer, and tools that only observe.
REMAPPED = GraphView(
    domain="0",
    nodes=(replace(ACTION, name="pilot"), NAVIGATOR),
    topics={
        "/usb_cam/image": replace(
            topic(IMAGE, "camera", f"navigator,{STRANGERS}"),
            mismatches=(Mismatch("camera", "rviz", "reliable wanted"),),
        ),
        "/wheel/odom": topic(ODOMETRY, "driver", "ekf_filter_node"),
        "/odometry/filtered": topic(ODOMETRY, "ekf_filter_node", "pilot,navigator,slam_toolbox"),
        "/front/scan": topic(SCAN, "sllidar_node", "pilot,navigator,slam_toolbox"),
        "/verified_text": topic(TEXT, "navigator", "pilot"),
        "/motion_report": topic(REPORT, "pilot", "navigator"),
        "/cmd_vel_vlm": topic(TWIST, "pilot", "twist_mux"),
        "/cmd_vel": topic(TWIST, "twist_mux", "driver"),
        "/map_in": replace(topic(IMAGE, "a", "b"), mismatches=(Mismatch("a", "b", "of strangers"),)),
    },
    ages_s={"/usb_cam/image": 0.12, "/odometry/filtered": 0.02, "/front/scan": 0.1},
    frames={"/front/scan": "laser"},
    transforms=frozenset(
        {
            ("map", "odom"),
            ("odom", "base_footprint"),
            ("base_footprint", "base_link"),
            ("base_link", "top_plate"),
            ("top_plate", "laser"),
        }
    ),
)


def in_namespace(view: GraphView, namespace: str) -> GraphView:
    """The same robot under a namespace."""

    def moved(ends: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        return tuple(replace(end, node=f"{namespace}/{end.node}") for end in ends)

    topics = {
        f"/{namespace}{name}": replace(
            there, publishers=moved(there.publishers), readers=moved(there.readers)
        )
        for name, there in view.topics.items()
    }
    return replace(
        view,
        nodes=tuple(replace(node, name=f"{namespace}/{node.name}") for node in view.nodes),
        topics=topics,
        ages_s={f"/{namespace}{name}": age_s for name, age_s in view.ages_s.items()},
        frames={f"/{namespace}{name}": frame for name, frame in view.frames.items()},
    )


def both(one: GraphView, other: GraphView) -> GraphView:
    """Returns the view of two robots on one domain."""
    return replace(
        one,
        nodes=one.nodes + other.nodes,
        topics={**one.topics, **other.topics},
        ages_s={**one.ages_s, **other.ages_s},
        frames={**one.frames, **other.frames},
    )


SPORT = replace(
    SIMULATED,
    nodes=(replace(ACTION, values={"use_scan": "True", "command_interface": "sport"}), NAVIGATOR),
    topics={k: v for k, v in SIMULATED.topics.items() if k != "/cmd_vel"}
    | {"/api/sport/request": topic(REQUEST, "action", "_CREATED_BY_BARE_DDS_APP_")},
)
NAV2 = replace(
    SIMULATED,
    nodes=(replace(ACTION, values={"command_interface": "nav2"}), NAVIGATOR),
    topics={**SIMULATED.topics, "/cmd_vel": topic(TWIST, "action,velocity_smoother", "base")},
)
STAMPED = replace(
    SIMULATED,
    nodes=(replace(ACTION, values={"command_interface": "twist_stamped"}), NAVIGATOR),
    topics={**SIMULATED.topics, "/cmd_vel": topic(TWIST_STAMPED, "action", "base,console")},
)
TWO_ROBOTS = both(in_namespace(SIMULATED, "robot1"), in_namespace(SIMULATED, "robot2"))
CLOUD = GraphView("0", (NodeView("verifier", "verifier"),))


@pytest.mark.parametrize(
    "view",
    [SIMULATED, in_namespace(SIMULATED, "robot1"), TWO_ROBOTS, SPORT, NAV2, STAMPED, CLOUD],
    ids=["simulation", "namespace", "two robots", "sport", "nav2", "stamped", "cloud"],
)
def test_a_healthy_graph_has_no_complaint(view: GraphView) -> None:
    assert [check for check in judge_graph(view) if check.grade is not Grade.OK] == []


def test_a_robot_of_others_drivers_and_names_has_no_failure() -> None:
    """A display with an unsuitable QoS gets a warning, because it shows nothing; foreign topics get none."""
    bad = [check for check in judge_graph(REMAPPED) if check.grade is not Grade.OK]
    assert [(check.name, check.grade) for check in bad] == [("QoS on /usb_cam/image", Grade.WARN)]
    assert "camera -> rviz" in bad[0].detail


def complaint(view: GraphView) -> Check:
    """Returns the only check that is not OK."""
    bad = [check for check in judge_graph(view) if check.grade is not Grade.OK]
    assert len(bad) == 1, bad
    return bad[0]


def with_topic(name: str, there: TopicView, view: GraphView = SIMULATED) -> GraphView:
    return replace(view, topics={**view.topics, name: there})


def with_action(**changes: object) -> GraphView:
    return replace(SIMULATED, nodes=(replace(ACTION, **changes), *SIMULATED.nodes[1:]))  # type: ignore[arg-type]


def test_an_empty_graph_is_one_warning_that_names_the_domain() -> None:
    check = complaint(GraphView("42"))
    assert check.grade is Grade.WARN and "42" in check.detail


@pytest.mark.parametrize(
    ("name", "message"), [("/camera/image_raw", IMAGE), ("/odom", ODOMETRY), ("/scan", SCAN)]
)
def test_none_and_two_publishers_and_another_type_are_failures(name: str, message: str) -> None:
    readers = ",".join(end.node for end in SIMULATED.topics[name].readers)
    check = complaint(with_topic(name, topic(message, "", readers)))
    assert check.grade is Grade.FAIL and name in check.name and check.detail == "none"
    two = complaint(with_topic(name, topic(message, "simulation,driver", readers)))
    assert two.grade is Grade.FAIL and "2 publishers" in two.detail and "driver" in two.detail
    mixed = topic(message, "simulation", readers)
    mixed = replace(mixed, publishers=(*mixed.publishers, Endpoint("phone", "std_msgs/msg/String")))
    wrong = complaint(with_topic(name, mixed))
    assert wrong.grade is Grade.FAIL and "String by phone" in wrong.detail


def test_a_topic_under_another_name_is_reported_with_its_remapping() -> None:
    view = with_topic("/odom", topic(ODOMETRY, "", "action,navigator"))
    view = with_topic("/odometry/filtered", topic(ODOMETRY, "ekf"), view)
    assert "-r odom:=/odometry/filtered" in complaint(view).advice


def test_a_robot_without_a_navigator_is_a_warning() -> None:
    view = replace(
        with_topic("/verified_text", topic(TEXT, "", "action")), nodes=(ACTION,), ages_s={"/odom": 0.0}
    )
    assert (complaint(view).grade, complaint(view).detail) == (Grade.WARN, "no navigator is there")


def test_a_base_that_meets_no_scan_is_a_warning_and_needs_none() -> None:
    view = with_topic("/scan", topic(SCAN, "", "action"))
    view = replace(view, nodes=(replace(ACTION, values={"use_scan": "False"}), NAVIGATOR))
    assert complaint(view).grade is Grade.WARN and "use_scan" in complaint(view).detail


@pytest.mark.parametrize("transforms", [(), (("odom", "base_link"), ("laser_mount", "laser"))])
def test_a_scan_whose_frame_tf_does_not_join_to_the_robot_is_a_failure(
    transforms: tuple[tuple[str, str], ...],
) -> None:
    view = replace(SIMULATED, frames={"/scan": "laser"}, transforms=frozenset(transforms))
    check = complaint(view)
    assert check.grade is Grade.FAIL and "laser" in check.detail and "base_link -> laser" in check.advice


def test_a_wrong_cmd_vel_topic_is_reported_with_its_remapping() -> None:
    view = with_topic("/cmd_vel", topic(TWIST, "action"))
    view = with_topic("/robot/cmd_vel", topic(TWIST, "", "base"), view)
    check = complaint(view)
    assert check.grade is Grade.FAIL and "cmd_vel:=/robot/cmd_vel" in check.advice
    own = with_topic("/cmd_vel", topic(TWIST, "action"))
    assert "start the base's driver" in complaint(own).advice, "the joystick's topic is no base"


def test_our_own_console_is_no_base() -> None:
    view = with_topic("/cmd_vel", topic(TWIST, "action", "console"))
    view = replace(view, nodes=(*view.nodes, NodeView("console", "console")))
    assert "nobody listens" in complaint(view).detail


def test_a_base_of_the_other_velocity_type_is_a_failure_with_the_parameter() -> None:
    there = replace(topic(TWIST, "action"), readers=(Endpoint("base", TWIST_STAMPED),))
    check = complaint(with_topic("/cmd_vel", there))
    assert check.grade is Grade.FAIL and "command_interface:=twist_stamped" in check.detail


def test_a_publisher_of_the_other_velocity_type_is_a_failure() -> None:
    there = topic(TWIST, "action", "simulation")
    there = replace(there, publishers=(*there.publishers, Endpoint("teleop", TWIST_STAMPED)))
    check = complaint(with_topic("/cmd_vel", there))
    assert check.grade is Grade.FAIL and "TwistStamped by teleop" in check.detail


def test_a_base_whose_qos_does_not_fit_is_a_failure() -> None:
    mismatch = Mismatch("action", "base", "transient local wanted")
    view = with_topic("/cmd_vel", replace(topic(TWIST, "action", "base"), mismatches=(mismatch,)))
    failures = [check for check in judge_graph(view) if check.grade is Grade.FAIL]
    assert [check.name for check in failures] == ["velocity commands"]
    assert "transient local wanted" in failures[0].detail


def test_a_second_source_of_commands_is_a_warning() -> None:
    check = complaint(with_topic("/cmd_vel", topic(TWIST, "action,teleop", "simulation")))
    assert check.grade is Grade.WARN and "teleop" in check.detail


def test_nobody_at_the_sport_api_is_a_failure() -> None:
    view = with_topic("/api/sport/request", topic(REQUEST, "action"), SPORT)
    assert complaint(view).grade is Grade.FAIL and "/api/sport/request" in complaint(view).detail


@pytest.mark.parametrize("name", ["/e_stop", "/cmd_vel_joy"])
def test_people_whose_type_is_another_are_a_failure(name: str) -> None:
    there = replace(SIMULATED.topics[name], publishers=(Endpoint("button", "std_msgs/msg/Empty"),))
    check = complaint(with_topic(name, there))
    assert check.grade is Grade.FAIL and "Empty by button" in check.detail


def test_old_and_missing_messages_and_foreign_clocks() -> None:
    assert complaint(replace(SIMULATED, ages_s={"/odom": None})).grade is Grade.FAIL
    assert complaint(replace(SIMULATED, ages_s={"/odom": 0.9})).grade is Grade.WARN
    assert "clock" in complaint(replace(SIMULATED, ages_s={"/odom": -3.0})).advice


def test_a_reader_of_ours_that_receives_from_nobody_is_a_failure() -> None:
    mismatch = Mismatch("navigator", "action", "best effort offered")
    view = with_topic("/verified_text", replace(SIMULATED.topics["/verified_text"], mismatches=(mismatch,)))
    check = complaint(view)
    assert check.grade is Grade.FAIL and "navigator -> action" in check.detail


def test_a_simulated_clock_that_nobody_publishes_is_a_failure() -> None:
    view = with_action(values={"use_sim_time": "True"})
    assert complaint(view).grade is Grade.FAIL and "/clock" in complaint(view).detail
    assert judge_graph(with_topic("/clock", topic("rosgraph_msgs/msg/Clock", "gazebo"), view))[-1].grade is (
        Grade.OK
    )


def test_the_diagnosis_of_a_node_itself_is_reported_once() -> None:
    damped = "the Go2 is damped: let it stand up"
    check = complaint(with_action(warning=damped))
    assert (check.grade, check.detail) == (Grade.WARN, damped)
    assert "activate" in complaint(with_action(warning="inactive")).advice
    two = with_topic("/odom", topic(ODOMETRY, "simulation,driver", "action,navigator"))
    said = complaint(two).detail
    assert complaint(replace(two, nodes=(replace(ACTION, warning=said), *two.nodes[1:]))).detail == said


def test_a_node_that_hangs_is_a_warning() -> None:
    view = replace(SIMULATED, nodes=SIMULATED.nodes[1:], ages_s={})
    check = complaint(view)
    assert check.grade is Grade.WARN and check.name == "node action" and "no diagnostics" in check.detail
