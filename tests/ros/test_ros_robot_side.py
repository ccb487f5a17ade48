"""What a goal's worker sees of the camera, with a clock and messages of the test."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from outrider_interfaces.msg import MotionReport, VerifiedText

from outrider.core.errors import FrameError
from outrider.core.values import LinkState, Odometry, Pose2D, Velocity
from outrider.navigation.goal.navigator import Navigator, NavigatorSettings, Outcome
from outrider.nodes.common import convert, step_messages
from outrider.nodes.common.topic_watch import TopicWatch
from outrider.nodes.navigator import stop_answers
from outrider.nodes.navigator.ros_robot_side import RosRobotSide
from outrider.runtime.mission.robot_side import MANY_BLINDED, GoalError, StepState, StepUpdate
from outrider.runtime.plans.errand import STANDS

pytestmark = pytest.mark.ros
PERIOD_S = 0.1


class ClockOnly:
    """The parts of a node that work without a graph. It is also its own clock, and that clock's time."""

    def __init__(self) -> None:
        self.time_s = 100.0
        self.watch = TopicWatch(self)  # type: ignore[arg-type]

    is_simulated = lacks_clock = False

    def now_s(self) -> float:
        return self.time_s

    def stamp_s(self, moment_s: float) -> float:
        return moment_s

    def get_clock(self) -> ClockOnly:
        return self

    now = get_clock

    @property
    def nanoseconds(self) -> int:
        return round(self.time_s * 1e9)

    def frame(self, name: str) -> str:
        return name

    def why_silent(self, topic: str, message: type) -> str:
        return f"nobody publishes {topic}"

    def to_msg(self) -> convert.Time:
        return convert.time_of(self.time_s)


def show(side: RosRobotSide, node: Any, bright: int) -> None:
    """Advances by one period, then passes on a moving robot's odometry and a picture."""
    node.time_s += PERIOD_S
    stamp = convert.time_of(node.time_s)
    odometry = Odometry(Pose2D(0.3 * node.time_s, 0.0, 0.0), Velocity(vx=0.3), node.time_s)
    side.on_odometry(convert.odometry_message(odometry, stamp), node.time_s)
    picture = np.full((28, 56, 3), bright, np.uint8) + np.arange(56, dtype=np.uint8)[:, None]
    side.on_image(convert.image_message(picture, stamp, "camera"), node.time_s)


@pytest.mark.parametrize("failed", [math.nan, math.inf])
def test_odometry_that_is_no_number_does_not_void_the_bound_on_the_way_driven(failed: float) -> None:
    node: Any = ClockOnly()
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.25)
    for x, after_s in ((0.0, 0.0), (failed, 0.1), (0.0, 1.1), (0.25, 0.4), (0.5, 0.4)):
        node.time_s += after_s
        odometry = Odometry(Pose2D(x, 0.0, 0.0), Velocity(), node.time_s)
        side.on_odometry(convert.odometry_message(odometry, convert.time_of(node.time_s)), node.time_s)
        kept = side.odometry()
        assert kept is not None and kept.is_finite
        assert ("not a number" in side.warning()) == (not math.isfinite(x))
    start = Odometry(Pose2D(0.0, 0.0, 0.0), Velocity(), 0.0)
    navigator = Navigator("find it", NavigatorSettings(max_travel_m=0.4), start)
    key = navigator.begin_step(0.0)
    navigator.on_finished(key, "move forward medium\ngo: on", 0.0)
    navigator.on_moved(key, kept)
    assert navigator.outcome is Outcome.NOT_FOUND and side._travelled_m == 0.5


def test_a_jump_of_odometry_is_named_and_is_no_way_driven() -> None:
    node: Any = ClockOnly()
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.25)
    for number in range(40):
        node.time_s += 0.05
        x = 0.0 if number < 10 else 3.0
        odometry = Odometry(Pose2D(x, 0.0, 0.0), Velocity(), node.time_s)
        side.on_odometry(convert.odometry_message(odometry, convert.time_of(node.time_s)), node.time_s)
        assert ("jumped" in side.warning()) == (10 <= number <= 30)
        kept = side.odometry()
        assert kept is not None and kept.pose.x == (0.0 if number <= 30 else 3.0)
    assert side._travelled_m == 0.0


@pytest.mark.parametrize("offset_s", [0.0, -3e8, 5.0])
def test_pictures_are_compared_with_the_odometry_of_their_moment_whatever_its_clock(offset_s: float) -> None:
    node: Any = ClockOnly()
    node.time_s = 1e9
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.25)
    for number in range(20):
        node.time_s += 0.05
        odometry = Odometry(Pose2D(0.01 * number, 0.0, 0.0), Velocity(), node.time_s)
        side.on_odometry(
            convert.odometry_message(odometry, convert.time_of(node.time_s + offset_s)), node.time_s
        )
    found = side._odometry_at(convert.time_of(node.time_s - 0.25))
    assert found is not None and found.pose.x == pytest.approx(0.14)


class Told:
    """A publisher that keeps what it publishes."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def publish(self, message: Any) -> None:
        self.messages.append(message)

    def get_subscription_count(self) -> int:
        return 0


def test_what_came_before_a_simulated_clock_was_set_back_is_not_taken_for_new() -> None:
    """Otherwise a camera that died with the clock counts as fresh until the clock has caught up."""
    node: Any = ClockOnly()
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.25)
    side.texts = side.tokens = Told()
    show(side, node, 1)
    assert side.odometry() is not None and side.frame_after(99.0, 0.0) is not None
    update = StepUpdate("s", 1, StepState.FINISHED, action="move forward small", action_complete=True)
    side.publish_step(update)
    node.time_s = 3.0
    assert side.odometry() is None and side.frame_after(2.0, 0.0) is None
    side.beat()
    assert side.texts.messages[-1].state == StepState.WITHDRAWN.value
    for bright in range(2, 15):  # until odometry has gone on for a second after the reset
        show(side, node, bright)
    assert side.odometry() is not None and side.frame_after(2.0, 0.0) is not None


def test_pictures_without_a_stamp_count_from_arrival_and_stamps_that_stand_still_are_named() -> None:
    node: Any = ClockOnly()
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.25)
    side.texts = side.tokens = Told()
    for stamp_s in (0.0, 77.0):
        for bright in range(10):
            node.time_s += PERIOD_S
            picture = np.full((28, 56, 3), 100 + bright, np.uint8)
            side.on_image(convert.image_message(picture, convert.time_of(stamp_s), "camera"), node.time_s)
            frame = side.frame_after(node.time_s - 0.01, 0.0)
            assert (frame is not None) == (stamp_s == 0.0 or bright == 0)
        assert ("stamps stand still" in side.warning()) == (stamp_s == 77.0)


def test_a_worker_that_is_late_moves_nothing_after_a_stop() -> None:
    """The worker may have checked for a stop just before it came, and publishes its next step just after."""
    node: Any = ClockOnly()
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.25)
    side.texts = side.tokens = side.plans = Told()
    show(side, node, 1)
    moves = StepUpdate("s", 1, StepState.FINISHED, action="move forward small", action_complete=True)
    side.begin_goal(lambda _: None)
    side.publish_step(moves)
    side.withdraw("told to stop")
    side.publish_step(replace(moves, step=2))
    side.beat()
    assert [message.state for message in side.texts.messages] == [1, 2]
    side.publish_step(StepUpdate("s", 2, StepState.WITHDRAWN, text="the goal has ended"))
    assert side.texts.messages[-1].step == 2, "a withdrawal is published at any time"
    side.end_goal()
    side.begin_goal(lambda _: None)
    side.publish_step(replace(moves, session_id="next"))
    assert side.texts.messages[-1].action == "move forward small", "the next goal moves the robot"


def test_a_late_cancellation_of_another_goal_withdraws_nothing() -> None:
    node: Any = ClockOnly()
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.25)
    side.texts = side.tokens = side.plans = Told()
    show(side, node, 1)
    before, running = [lambda _: None, lambda _: None]
    side.begin_goal(running)
    side.withdraw("the goal was cancelled", before)
    moves = StepUpdate("s", 1, StepState.FINISHED, action="move forward small", action_complete=True)
    side.publish_step(moves)
    side.withdraw("the goal was cancelled", running)
    side.publish_step(replace(moves, step=2))
    assert [message.step for message in side.texts.messages] == [1, 1]


def test_nothing_moves_while_a_topic_is_not_what_it_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    node: Any = ClockOnly()
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.25)
    side.texts = side.tokens = Told()
    show(side, node, 1)
    update = StepUpdate("s", 1, StepState.FINISHED, action="move forward small", action_complete=True)
    side.publish_step(update)
    monkeypatch.setattr(node.watch, "fault", lambda *_: "2 publishers of /camera/image_raw")
    side.beat()
    assert side.texts.messages[-1].state == StepState.WITHDRAWN.value and "2 publishers" in side.warning()
    with pytest.raises(FrameError, match="2 publishers"):
        side.frame_after(0.0, 0.0)


def test_a_camera_that_is_too_slow_for_motions_is_why_nothing_was_found() -> None:
    node: Any = ClockOnly()
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.25)
    side.texts = side.tokens = Told()
    side.plans = Told()

    def causes(num_slow: int) -> tuple[str, str]:
        side.begin_goal(lambda _: None)
        for step in range(20):
            show(side, node, step)
            told = StepUpdate("s", step, StepState.FINISHED, action="turn left small", action_complete=True)
            side.publish_step(told)
            node.time_s += 0.3 if step < num_slow else 0.1
            side.beat()
            side.beat()
        return side.cause_of(GoalError.NOT_FOUND), side.cause_of(GoalError.MODEL_FAILED)

    assert causes(MANY_BLINDED - 1) == ("", "")
    slow, other = causes(20)
    assert slow.startswith("20 motions ended") and "raise camera_silence_s" in slow and not other
    assert "0.30 s, where camera_silence_s allows 0.25" in side.texts.messages[-1].text
    assert causes(1) == ("", "")


def test_a_report_of_another_version_is_no_report() -> None:
    node: Any = ClockOnly()
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.25)
    side.on_motion_report(MotionReport(session_id="s", step=1, outcome=200))
    assert side.motion_end("s", 1, 0.0) is None
    side.on_motion_report(MotionReport(session_id="s", step=1, outcome=MotionReport.DONE))
    assert side.motion_end("s", 1, 0.0) is not None
    assert step_messages.update_of(VerifiedText(state=200)) is None


def test_a_driver_that_gives_each_picture_twice_is_not_taken_for_one_that_repeats_itself() -> None:
    node: Any = ClockOnly()
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.25)
    for index in range(12):
        show(side, node, index // 2)
        assert side.warning() == ""
    for _ in range(3):
        show(side, node, 5)
    assert "repeats" in side.warning()
    side.begin_goal(lambda _: None)
    show(side, node, 5)
    assert side.warning() == "", "a new goal may have found it mended, or another view"


@pytest.mark.parametrize(("odometry_s", "late_s"), [(0.2, 0.0), (0.16, 0.0), (0.02, 0.0), (0.002, 1.0)])
@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_frozen_camera_is_noticed_however_seldom_or_often_odometry_comes(
    odometry_s: float, late_s: float, is_frozen: bool
) -> None:
    """Only some pictures have odometry with their own stamp; pictures arrive `late_s` after their stamp."""
    node: Any = ClockOnly()
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.2)
    came_s = shown_s = node.time_s
    said = []
    for index in range(3000):
        node.time_s += 0.002
        if node.time_s - came_s >= odometry_s - 1e-6:
            came_s = node.time_s
            odometry = Odometry(Pose2D(0.3 * came_s, 0.0, 0.0), Velocity(vx=0.3), came_s)
            side.on_odometry(convert.odometry_message(odometry, convert.time_of(came_s)), came_s)
        if node.time_s - shown_s >= PERIOD_S - 1e-6:
            shown_s = node.time_s
            bright = 9 if is_frozen and index > 1000 else index % 199
            picture = np.full((28, 56, 3), bright, np.uint8) + np.arange(56, dtype=np.uint8)[:, None]
            stamp = convert.time_of(shown_s - late_s)
            side.on_image(convert.image_message(picture, stamp, "camera"), shown_s)
            said.append(side.warning())
    assert is_frozen == ("repeats" in said[-1]), said[-1]


def ride(side: RosRobotSide, node: Any, speed_mps: float) -> None:
    """Advances by one period, then passes on odometry of a given speed."""
    node.time_s += PERIOD_S
    odometry = Odometry(Pose2D(0.0, 0.0, 0.0), Velocity(vx=speed_mps), node.time_s)
    side.on_odometry(convert.odometry_message(odometry, convert.time_of(node.time_s)), node.time_s)


def test_a_stop_is_answered_that_the_robot_stands_only_once_that_is_seen() -> None:
    node: Any = ClockOnly()
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.25)

    def answer(on_watch: Callable[[], None] = lambda: None) -> str:
        return stop_answers.StopAnswers(side, on_watch, timeout_s=0.05).answer("stop", True)

    assert answer() == stop_answers.NOT_CONFIRMED, "without odometry"
    ride(side, node, 0.0)
    assert answer() == stop_answers.NOT_CONFIRMED, "it stood before the stop"
    assert answer(lambda: ride(side, node, 0.3)) == stop_answers.NOT_CONFIRMED
    assert answer(lambda: ride(side, node, 0.01)) == STANDS


def test_of_many_stops_one_waits_for_the_robot_to_stand() -> None:
    node: Any = ClockOnly()
    side = RosRobotSide(node, lambda: LinkState.CONNECTED, camera_silence_s=0.25)
    others: list[str] = []

    def ask_again() -> None:
        others.extend(watch.answer("stop", True) for _ in range(3))
        ride(side, node, 0.0)

    watch = stop_answers.StopAnswers(side, ask_again)
    assert watch.answer("stop", True) == STANDS and others == [stop_answers.NOT_CONFIRMED] * 3
