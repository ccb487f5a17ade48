"""The navigator: from answers to motions, and the endings of a goal."""

import math

import pytest

from outrider.core.language.actions import Motion
from outrider.core.values import Odometry, Pose2D, Velocity
from outrider.navigation.goal.navigator import Navigator, NavigatorSettings, Outcome


def odometry(x: float = 0.0, y: float = 0.0, yaw: float = 0.0, stamp_s: float = 0.0) -> Odometry:
    return Odometry(Pose2D(x, y, yaw), Velocity(), stamp_s)


def navigator(instruction: str = "find the silver bottle", **settings) -> Navigator:
    return Navigator(instruction, NavigatorSettings(**settings), odometry())


def run_step(nav: Navigator, text: str, after: Odometry) -> Motion | None:
    key = nav.begin_step(after.stamp_s)
    motion = nav.on_verified(key, text, after.stamp_s)
    last = nav.on_finished(key, text, after.stamp_s)
    nav.on_moved(key, after)
    return motion or last


def test_the_motion_comes_once_the_moment_the_action_line_is_complete():
    nav = navigator()
    key = nav.begin_step(1.0)
    assert nav.on_verified(key, "move forward medium", 1.1) is None
    assert nav.on_verified(key, "move forward medium\nappr", 1.2) == Motion(forward_m=0.5)
    assert nav.on_verified(key, "move forward medium\napproach: x", 1.3) is None
    assert nav.on_finished(key, "move forward medium\napproach: x", 1.4) is None


def test_the_step_enters_the_history_only_when_text_and_motion_are_through():
    nav = navigator()
    key = nav.begin_step(0.0)
    nav.on_verified(key, "move forward medium\n", 0.0)
    nav.on_moved(key, odometry(0.5))
    assert nav.context(odometry(0.5)).steps == ()
    nav.on_finished(key, "move forward medium\napproach: bottle ahead", 0.0)
    (step,) = nav.context(odometry(0.5)).steps
    assert (step.phase, step.action) == ("approach", "move forward medium")
    assert nav.travelled_m == pytest.approx(0.5)


def test_a_turn_back_is_halved_until_something_else_was_done():
    nav = navigator()
    left, right = "turn left small\nsearch: x", "turn right small\nsearch: x"
    texts = (left, right, right, "move forward small\na: x", left)
    turns = [run_step(nav, text, odometry()) for text in texts]
    degrees = [round(math.degrees(motion.turn_rad), 3) for motion in turns if motion is not None]
    assert degrees == [15.0, -7.5, -15.0, 0.0, 15.0]


def test_stop_ends_the_goal_as_arrived_even_without_a_reason():
    nav = navigator()
    assert run_step(nav, "stop", odometry()) == Motion()
    assert nav.outcome is Outcome.ARRIVED


@pytest.mark.parametrize("text", ["jump\nx: y", "move forward\n", "Stop\n", "stop now\n", " stop\n", ""])
def test_anything_else_stands_still_and_three_in_a_row_end_the_goal(text, caplog):
    nav = navigator()
    for _ in range(3):
        assert nav.outcome is None
        motion = run_step(nav, text, odometry())
        assert motion is not None and motion.is_stop
    assert nav.outcome is Outcome.INVALID_TEXT
    assert nav.context(odometry()).steps == ()
    assert "not an action" in caplog.text


def test_a_late_answer_of_an_earlier_step_or_another_goal_moves_nothing():
    nav, other = navigator(), navigator()
    stale = nav.begin_step(0.0)
    nav.begin_step(1.0)
    assert nav.on_verified(stale, "move forward large\n", 1.0) is None
    assert nav.on_verified(other.begin_step(1.0), "move forward large\n", 1.0) is None
    assert nav.on_finished(stale, "move forward large\n", 1.0) is None


def test_an_answer_to_an_old_frame_is_discarded():
    nav = navigator(max_answer_age_s=2.0)
    key = nav.begin_step(0.0)
    assert nav.on_verified(key, "move forward large\n", 2.1) is None
    assert nav.on_finished(key, "move forward large\n", 2.1) is None


def test_cancel_holds_against_what_still_arrives():
    nav = navigator()
    key = nav.begin_step(0.0)
    nav.cancel()
    assert nav.on_verified(key, "move forward large\n", 0.1) is None
    assert nav.outcome is Outcome.CANCELLED


def test_the_message_of_the_step_limit_names_the_search():
    nav = navigator(max_steps=9)
    for index in range(1, 9):
        run_step(nav, "turn left large\nsearch: x", odometry(yaw=math.radians(45 * index)))
    run_step(nav, "move forward small\nexplore: x", odometry(0.25))
    assert nav.outcome is Outcome.NOT_FOUND
    assert nav.message == "did not find the silver bottle in 9 steps; searched 1 place"


def test_the_limits_of_travel_and_time():
    nav = navigator(max_travel_m=1.0)
    run_step(nav, "move forward large\n", odometry(1.2))
    assert nav.outcome is Outcome.NOT_FOUND
    nav = navigator("where is my green cup?", max_time_s=5.0)
    nav.check_time(5.0)
    assert nav.outcome is None
    nav.check_time(5.1)
    assert nav.message.startswith("did not find out where is my green cup? in 5 s")
