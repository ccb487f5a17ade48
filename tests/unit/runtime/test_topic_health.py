"""The faults that the publishers and the readers of a topic can have."""

from __future__ import annotations

import pytest

from outrider.runtime.diagnosis.topic_health import (
    TWIST,
    TWIST_STAMPED,
    Endpoint,
    node_name,
    several_publishers,
    wrong_publishers,
    wrong_subscribers,
)

BOOL, EMPTY = "std_msgs/msg/Bool", "std_msgs/msg/Empty"


def test_publishers_of_another_type_are_named_along_with_right_publishers() -> None:
    ends = [Endpoint("pad", BOOL), Endpoint("robot2/button", EMPTY)]
    fault = wrong_publishers("/e_stop", BOOL, ends)
    assert all(word in fault for word in ("/e_stop", EMPTY, "robot2/button", BOOL)) and "pad" not in fault
    assert wrong_publishers("/e_stop", BOOL, ends[:1]) == ""


@pytest.mark.parametrize(
    ("published", "read", "interface"),
    [(TWIST, TWIST_STAMPED, "twist_stamped"), (TWIST_STAMPED, TWIST, "twist")],
)
def test_the_parameter_is_named_for_a_base_that_reads_the_other_velocity(
    published: str, read: str, interface: str
) -> None:
    fault = wrong_subscribers("/cmd_vel", published, [Endpoint("base", read)])
    assert "base" in fault and f"set command_interface:={interface}," in fault
    assert wrong_subscribers("/cmd_vel", published, [Endpoint("base", published)]) == ""


def test_two_publishers_are_reported_but_a_single_publisher_is_not() -> None:
    two = [Endpoint("navigator", BOOL), Endpoint("robot2/navigator", BOOL)]
    assert "2 publishers of /text (navigator, robot2/navigator)" in several_publishers("/text", two)
    assert several_publishers("/text", two[:1]) == several_publishers("/text", []) == ""


def test_a_node_s_name_has_its_namespace() -> None:
    assert node_name("action", "/") == "action" and node_name("action", "/robot2") == "robot2/action"
