"""Consecutive texts and the poses of their camera frames: from where a motion is reckoned, if at all."""

from __future__ import annotations

import math

import pytest
from pilot_rig import PERIOD_S, Rig, free_scan

from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity
from outrider.navigation.motion.controller import Command
from outrider.navigation.motion.pilot import (
    Moment,
    Pilot,
)
from outrider.navigation.motion.step_motions import Ending


def test_a_newer_text_takes_over() -> None:
    rig = Rig()
    rig.say()
    rig.tick()
    rig.say(step=2, action="turn left small")
    drive = rig.tick()
    assert drive.end is not None and drive.end.step == 1 and drive.end.ending is Ending.STOPPED
    end = rig.run(step=2, action="turn left small").end
    assert end is not None and end.step == 2 and math.degrees(rig.pose.yaw) == pytest.approx(15.0, abs=1.5)


def test_a_text_of_another_goal_begins_with_a_stop() -> None:
    rig = Rig()
    rig.go(10, action="move forward large")
    rig.say(action="move forward small", session="b")
    assert rig.tick().stop


def test_the_next_step_goes_on_without_a_stop_from_where_its_frame_was_taken() -> None:
    rig = Rig()
    rig.go(14)
    taken, frame_s = rig.pose.x, rig.now_s
    speed = rig.go(3).velocity
    assert speed is not None and speed.vx > 0.3 and rig.pose.x > taken + 0.04
    rig.say(step=2, frame_age_s=rig.now_s - frame_s)
    drive = rig.tick()
    assert not drive.stop and drive.velocity is not None and drive.velocity.vx > 0.8 * speed.vx
    assert drive.end is not None and (drive.end.step, drive.end.ending) == (1, Ending.STOPPED)
    rig.velocity = drive.velocity
    while rig.pilot.is_moving:
        rig.go(1, step=2)
    assert rig.pose.x == pytest.approx(taken + 0.5, abs=0.03)


def test_a_step_that_has_nothing_left_to_do_is_done() -> None:
    rig = Rig()
    rig.go(3, action="move forward large")
    frame_s = rig.now_s
    rig.run(action="move forward large")
    where = rig.pose
    end = rig.run(step=2, action="move forward small", frame_age_s=rig.now_s - frame_s).end
    assert end is not None and end.ending is Ending.DONE and rig.pose.x == pytest.approx(where.x, abs=0.02)


def test_a_frame_under_way_whose_place_is_not_known_moves_nothing() -> None:
    rig = Rig()
    rig.go(10, action="move forward large")
    rig.say(step=2, action="move forward small", frame_age_s=5.0)
    ends = [rig.tick(), rig.tick()]
    assert any(drive.stop for drive in ends) and not rig.pilot.is_moving
    assert [(drive.end.step, drive.end.ending) for drive in ends if drive.end] == [
        (1, Ending.STOPPED),
        (2, Ending.FAILED),
    ]


def test_a_turn_back_is_halved_while_the_turn_before_it_still_runs() -> None:
    rig = Rig()
    rig.go(12, action="turn left large")
    begun = rig.pose.yaw
    while rig.pilot.is_moving:
        rig.go(1, step=2, action="turn right medium")
    assert math.degrees(rig.pose.yaw - begun) == pytest.approx(-15.0, abs=4.0)


@pytest.mark.parametrize("word", ["stop", "nonsense"])
def test_a_step_that_does_not_move_stops_what_is_under_way(word: str) -> None:
    rig = Rig()
    rig.go(10, action="move forward large")
    rig.say(step=2, action=word)
    drive = rig.tick()
    assert drive.stop and drive.velocity == Velocity() and not rig.pilot.is_moving


def test_after_a_start_no_frame_from_before_moves_the_robot() -> None:
    rig = Rig()
    rig.pilot.start(rig.now)
    for _ in range(5):
        rig.tick()
    rig.say(1, frame_age_s=6 * PERIOD_S)
    end = rig.tick().end
    assert end and end.ending is Ending.FAILED and "from before" in end.message
    assert not rig.pilot.is_moving
    rig.say(2, frame_age_s=4 * PERIOD_S)
    assert rig.pilot.is_moving


def test_a_simulated_clock_that_comes_after_the_start_makes_no_old_frame_new() -> None:
    rig = Rig()
    rig.pilot.start(Moment(0.0, 1.0))
    rig.pilot.tick(None, None, Moment(0.0, 1.0))
    rig.tick()
    rig.say(1, frame_age_s=0.5)
    assert not rig.pilot.is_moving
    rig.say(2, frame_age_s=0.0)
    assert rig.pilot.is_moving


def test_after_a_jump_of_odometry_no_frame_from_before_it_moves_the_robot() -> None:
    rig = Rig()
    rig.go(10, action="turn left large")
    frame_s = rig.now_s
    rig.go(2, action="turn left large")
    rig.pilot.tick(None, free_scan(rig.now_s), rig.now, "odometry jumped")
    rig.now_s += rig.step_s
    rig.pose = Pose2D(rig.pose.x, rig.pose.y, rig.pose.yaw + math.pi / 2)
    rig.say(step=2, action="turn left medium", frame_age_s=rig.now_s - frame_s)
    ends = [rig.tick().end for _ in range(3)]
    assert not rig.pilot.is_moving
    assert any(end and end.step == 2 and "no odometry of the moment" in end.message for end in ends)


def test_after_a_silence_of_odometry_no_frame_from_before_it_moves_the_robot() -> None:
    rig = Rig()
    rig.go(10, action="turn left large")
    frame_s = rig.now_s
    rig.go(2, action="turn left large")
    rig.now_s += 0.6
    rig.pose = Pose2D(0.0, 0.0, rig.pose.yaw + math.pi / 2)
    rig.tick()
    rig.say(step=2, action="turn left medium", frame_age_s=rig.now_s - frame_s)
    assert not rig.pilot.is_moving


@pytest.mark.parametrize(
    "pushed", [Pose2D(0.0, 0.0, math.radians(60.0)), Pose2D(0.2, 0.0, math.radians(-40.0))]
)
def test_a_robot_that_was_moved_while_it_stood_goes_the_way_that_its_frame_showed(pushed: Pose2D) -> None:
    rig = Rig()
    rig.tick()
    frame_s = rig.now_s - rig.step_s
    for share in (0.25, 0.5, 0.75, 1.0, 1.0):
        rig.pose = Pose2D(share * pushed.x, 0.0, share * pushed.yaw)
        rig.tick()
    end = None
    while end is None:
        drive = rig.go(1, frame_age_s=rig.now_s - frame_s)
        end = drive.end
    assert end.ending is Ending.DONE
    assert rig.pose.x == pytest.approx(0.5, abs=0.03) and rig.pose.y == pytest.approx(0.0, abs=0.08)


@pytest.mark.parametrize("elsewhere", [Pose2D(0.0, 0.0, 2.0), Pose2D(0.0, 1.5, 0.0)])
def test_a_robot_that_was_carried_elsewhere_does_not_move_by_its_frame(elsewhere: Pose2D) -> None:
    rig = Rig()
    rig.tick()
    frame_s = rig.now_s - rig.step_s
    rig.pose = elsewhere
    rig.tick()
    rig.say(frame_age_s=rig.now_s - frame_s)
    end = rig.tick().end
    assert end is not None and end.ending is Ending.FAILED and "was moved since its frame" in end.message


class Planner:
    """A motion that something else drives, such as nav2: no velocity is sent for it."""

    odometry_froze = False

    def start(self, odometry: Odometry, now_s: float) -> None:
        pass

    def update(self, odometry: Odometry, scan: RangeScan | None, now_s: float) -> Command:
        return Command()


@pytest.mark.parametrize("has_planner", [False, True])
def test_only_a_planner_is_stopped_where_a_newer_text_of_the_goal_takes_over(has_planner: bool) -> None:
    """It would drive on until the newer motion begins; a controller's last velocity is replaced at once."""
    rig = Rig()
    rig.pilot = Pilot(rig.pilot.settings, (lambda motion: Planner()) if has_planner else None)
    rig.go(5, step=1)
    assert not any(drive.stop for drive in rig.sent)
    rig.say(step=2, action="turn left medium")
    drive = rig.tick()
    assert drive.end is not None and drive.end.ending is Ending.STOPPED
    assert drive.stop is has_planner
