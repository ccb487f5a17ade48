"""The pilot: one motion for each text, and a stop for everything else."""

from __future__ import annotations

import math
from typing import Any

import pytest
from flatland import Flatland, wall
from pilot_rig import PERIOD_S, Rig, free_scan

from outrider.core.values import Odometry, Pose2D, Velocity
from outrider.navigation.limits import MotionLimits
from outrider.navigation.motion.pilot import Moment, Pilot, PilotSettings
from outrider.navigation.motion.step_motions import Drive, Ending, StepText
from outrider.navigation.motion.stopping import STOP_BURST_TICKS


def test_a_complete_action_is_carried_out_once_and_reported_once() -> None:
    rig = Rig()
    end = rig.run().end
    assert end is not None and end.ending is Ending.DONE
    assert rig.pose.x == pytest.approx(0.5, abs=0.03)
    where = rig.pose
    for _ in range(50):
        rig.say()
        assert rig.tick().end is None
    assert rig.pose == where


def test_a_turn_back_is_halved_within_a_session() -> None:
    rig = Rig()
    rig.run(step=1, action="turn left medium")
    half = rig.run(step=2, action="turn right medium").end
    whole = rig.run(step=1, action="turn left medium", session="b").end
    assert half is not None and math.degrees(half.turned_rad) == pytest.approx(-15.0, abs=3.0)
    assert whole is not None and math.degrees(whole.turned_rad) == pytest.approx(30.0, abs=3.0)


def test_a_turn_that_the_joystick_took_over_is_not_turned_back() -> None:
    rig = Rig()
    rig.say(action="turn left medium")
    rig.tick()
    rig.pilot.on_joystick(Velocity(), rig.now)
    for _ in range(12):
        rig.tick()
    whole = rig.run(step=2, action="turn right medium").end
    assert whole is not None and math.degrees(whole.turned_rad) == pytest.approx(-30.0, abs=3.0)


def test_a_base_that_did_not_answer_is_tried_again_by_the_next_goal_alone() -> None:
    """Without noise, the odometry of a standing robot looks like frozen odometry: only a try can tell."""
    rig = Rig()
    rig.holds = True
    first = rig.run(step=1).end
    assert first is not None and first.ending is Ending.BLOCKED
    for step in (2, 3, 4):
        sent = len(rig.sent)
        end = rig.run(step=step).end
        assert end is not None and end.ending is Ending.FAILED
        assert end.message == "odometry still repeats itself: check its source, then give the goal again"
        assert not any(drive.velocity and drive.velocity.vx for drive in rig.sent[sent:])
    again = rig.run(step=1, session="b").end
    assert again is not None and again.ending is Ending.BLOCKED, "it was tried, and is frozen still"
    rig.holds = False
    obeyed = rig.run(step=1, session="c").end
    assert obeyed is not None and obeyed.ending is Ending.DONE


class Wheels(Flatland):
    """A base whose odometry counts in millimetres, and which ignores speeds below `dead`."""

    def __init__(self, walls: Any, start: Pose2D, dead: float) -> None:
        super().__init__(walls, start)
        self._dead = dead

    def drive(self, velocity: Velocity, duration_s: float) -> None:
        parts = (velocity.vx, velocity.vy, velocity.wz)
        super().drive(Velocity(*(part if abs(part) >= self._dead else 0.0 for part in parts)), duration_s)

    def odometry(self) -> Odometry:
        pose, velocity = self.believed, self.velocity
        parts = pose.x, pose.y, pose.yaw, velocity.vx, velocity.vy, velocity.wz
        x, y, yaw, *speeds = (round(part, 3) for part in parts)
        return Odometry(Pose2D(x, y, yaw), Velocity(*speeds), self.time_s)


@pytest.mark.lengthy
@pytest.mark.parametrize("dead", [0.0, 0.05, 0.08])
@pytest.mark.parametrize("yaw", [0.0, 0.05, 0.3])
def test_a_base_that_stands_before_a_wall_may_still_turn_away(yaw: float, dead: float) -> None:
    """Commands too slow for the base to obey are no evidence that odometry is frozen."""
    base = Wheels([wall(1.0, -3.0, 1.0, 3.0)], Pose2D(0.0, 0.0, yaw), dead)
    pilot = Pilot(PilotSettings(period_s=PERIOD_S))
    base.drive(Velocity(), 1.0)
    pilot.start(Moment(base.time_s, base.time_s))
    ends = []
    for step, action in enumerate((*["move forward medium"] * 4, "turn left medium"), 1):
        asked_s = base.time_s
        while len(ends) < step:
            now = Moment(base.time_s, base.time_s)
            pilot.on_text(StepText("a", step, action, True, frame_age_s=base.time_s - asked_s), now)
            drive = pilot.tick(base.odometry(), base.scan(), now)
            base.drive(drive.velocity or Velocity(), PERIOD_S)
            ends += [drive.end] if drive.end else []
    assert [end.ending for end in ends[-2:]] == [Ending.BLOCKED, Ending.DONE], ends
    assert base.contacts == 0


@pytest.mark.parametrize("action", ["move forward medium", "turn left medium"])
def test_odometry_that_freezes_is_named_at_low_limits_too(action: str) -> None:
    limits = MotionLimits(forward_mps=0.05, yaw_rps=0.1)
    pilot = Pilot(PilotSettings(period_s=PERIOD_S, limits=limits))
    pilot.start(Moment(1.0, 1.0))
    ends, time_s = [], 1.0
    for step in range(1, 4):
        asked_s = time_s
        while len(ends) < step:
            time_s += PERIOD_S
            now = Moment(time_s, time_s)
            pilot.on_text(StepText("a", step, action, True, frame_age_s=time_s - asked_s), now)
            frozen = Odometry(Pose2D(0.0, 0.0, 0.0), Velocity(), time_s)
            drive = pilot.tick(frozen, free_scan(time_s), now)
            ends += [drive.end] if drive.end else []
    assert [end.ending for end in ends[1:]] == [Ending.FAILED] * 2, ends
    assert all("repeats itself" in end.message for end in ends[1:]), ends


def test_odometry_that_freezes_as_one_motion_follows_another_is_noticed_as_soon() -> None:
    rig = Rig()
    rig.go(12, action="move forward large")
    rig.holds = True
    ends = []
    for step in (1, 1, 1, 2, 2, 2, 2, 2):
        rig.say(step=step, action="move forward large")
        ends.append(rig.tick().end)
    told = [end.message for end in ends if end is not None]
    assert len(told) == 2 and "repeats its pose" in told[1], told


def test_an_incomplete_action_moves_nothing() -> None:
    rig = Rig()
    rig.say(complete=False)
    assert rig.tick() == Drive()


@pytest.mark.parametrize("text", ["move forward", "Move forward small", "stop now", "", "turn left huge"])
def test_what_is_not_in_the_table_is_refused_and_stops(text: str) -> None:
    rig = Rig()
    rig.say(action=text)
    drive = rig.tick()
    assert drive.stop and drive.velocity == Velocity()
    assert drive.end is not None and drive.end.ending is Ending.REFUSED and text in drive.end.message


def test_what_is_missing_is_named_in_the_report() -> None:
    rig = Rig()
    rig.say()
    end = rig.pilot.tick(None, None, rig.now, missing="odometry jumped").end
    assert end is not None and end.message == "odometry jumped"


def test_withdrawal_stops_and_the_same_step_never_starts_again() -> None:
    rig = Rig()
    rig.say()
    rig.tick()
    rig.say(withdrawn=True, text="cancelled")
    drive = rig.tick()
    assert drive.end is not None and drive.end.ending is Ending.STOPPED and drive.stop
    rig.say()
    assert not rig.pilot.is_moving


def test_a_lost_link_stops_a_motion_and_holds_back_the_next_until_it_is_back() -> None:
    rig = Rig()
    rig.say()
    rig.tick()
    rig.say(link_lost=True)
    drive = rig.tick()
    assert drive.stop and drive.end is not None and "link" in drive.end.message
    rig.say(step=2, link_lost=True)
    assert not rig.pilot.is_moving
    assert rig.run(step=2).end.ending is Ending.DONE  # type: ignore[union-attr]


def test_a_step_withdrawn_before_it_began_never_starts() -> None:
    rig = Rig()
    rig.say(step=2, withdrawn=True, complete=False)
    rig.say(step=2)
    assert not rig.pilot.is_moving


def test_an_action_completed_after_its_withdrawal_is_reported_once_and_never_starts() -> None:
    """A camera that stutters withdraws the text being decoded, whose writer waits for a report."""
    rig = Rig()
    rig.say()
    rig.tick()
    rig.say(step=2, complete=False, action="", withdrawn=True, text="no new picture")
    stopped = rig.tick().end
    assert stopped is not None and (stopped.step, stopped.ending) == (1, Ending.STOPPED)
    ends = []
    for _ in range(20):
        rig.say(step=2)
        ends.append(rig.tick().end)
        assert not rig.pilot.is_moving
    reported = [end for end in ends if end is not None]
    assert [(end.step, end.ending, end.message) for end in reported] == [
        (2, Ending.STOPPED, "no new picture")
    ]
    assert rig.run(step=3).end.ending is Ending.DONE  # type: ignore[union-attr]


@pytest.mark.parametrize("held_back_by", ["base", "link"])
def test_a_complete_action_that_is_withdrawn_while_it_waits_is_reported_once(held_back_by: str) -> None:
    rig = Rig()
    if held_back_by == "base":
        rig.pilot.on_base("the base gets up", rig.now)
    rig.say(link_lost=held_back_by == "link")
    assert rig.tick().end is None
    for _ in range(3):
        rig.say(complete=False, action="", withdrawn=True, text="no new picture")
    ends = [end for _ in range(10) if (end := rig.tick().end) is not None]
    assert [(end.step, end.action, end.ending) for end in ends] == [
        (1, "move forward medium", Ending.STOPPED)
    ]
    rig.pilot.on_base("", rig.now)
    rig.say()
    assert rig.tick().end is None and not rig.pilot.is_moving


def test_the_withdrawal_of_one_step_reports_no_other() -> None:
    rig = Rig()
    rig.pilot.on_base("the base gets up", rig.now)
    rig.say(step=1)
    rig.say(step=2, complete=False, action="", withdrawn=True)
    rig.say(step=2, session="b")
    assert all(rig.tick().end is None for _ in range(10))


def test_a_text_waits_for_a_base_that_is_not_ready_and_fails_where_it_does_not_come() -> None:
    rig = Rig()
    rig.pilot.on_base("still standing up", rig.now)
    for _ in range(20):
        rig.say()
        assert rig.tick().end is None and not rig.pilot.is_moving
    rig.pilot.on_base("", rig.now)
    assert rig.run().end.ending is Ending.DONE  # type: ignore[union-attr]
    rig.say(step=2)
    rig.tick()
    rig.pilot.on_base("in doubt", rig.now)
    drive = rig.tick()
    assert drive.end is not None and drive.end.ending is Ending.FAILED and drive.stop
    for _ in range(round(rig.pilot.settings.base_patience_s / PERIOD_S) + 1):
        rig.pilot.on_base("still in doubt", rig.now)
        assert not rig.pilot.is_moving
        rig.tick()
    rig.say(step=3)
    drive = rig.tick()
    assert drive.end is not None and drive.end.ending is Ending.FAILED
    assert drive.end.message == "still in doubt"
    rig.say(step=4, action="stop")
    assert rig.tick().end.ending is Ending.DONE  # type: ignore[union-attr]


@pytest.mark.parametrize(("action", "ending"), [("stop", Ending.DONE), ("dance", Ending.REFUSED)])
def test_a_stop_does_not_wait_for_a_base_that_is_not_ready(action: str, ending: Ending) -> None:
    rig = Rig()
    rig.pilot.on_base("in doubt", rig.now)
    rig.say(action=action)
    drive = rig.tick()
    assert drive.stop and drive.end is not None and drive.end.ending is ending


def test_an_old_frame_moves_nothing() -> None:
    rig = Rig(max_frame_age_s=2.0)
    rig.say(frame_age_s=2.5)
    drive = rig.tick()
    assert drive.end is not None and drive.end.ending is Ending.FAILED and "2.5 s old" in drive.end.message


def test_without_odometry_or_scan_nothing_moves() -> None:
    rig = Rig()
    rig.say()
    drive = rig.pilot.tick(None, None, rig.now)
    assert drive.end is not None and "odom" in drive.end.message and drive.velocity == Velocity()
    rig.say(step=2)
    drive = rig.pilot.tick(Odometry(rig.pose, Velocity(), rig.now_s), None, rig.now)
    assert drive.end is not None and "scan" in drive.end.message


def test_a_stop_is_repeated_for_as_long_as_the_base_moves() -> None:
    rig = Rig()
    rig.go(20)
    rig.velocity, rig.holds = Velocity(vx=0.5), True
    rig.pilot.on_emergency_stop(True, rig.now)
    assert all(rig.tick().velocity == Velocity() for _ in range(4 * STOP_BURST_TICKS))
    rig.velocity = Velocity(vx=0.01)
    assert rig.tick().velocity is None
    rig.velocity = Velocity(vx=0.5)
    assert rig.tick().velocity is None, "others drive it"
