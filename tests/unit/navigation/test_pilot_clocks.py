"""The pilot's clocks: silence, age, jumps and standstill end a motion or begin none."""

from __future__ import annotations

import pytest
from pilot_rig import PERIOD_S, Rig, free_scan

from outrider.core.values import Odometry, Pose2D, Velocity
from outrider.navigation.motion.pilot import MAX_MOTION_REAL_S, Moment
from outrider.navigation.motion.step_motions import Ending, StepText
from outrider.navigation.motion.stopping import STOP_BURST_TICKS


def test_silence_of_the_navigator_stops_within_the_deadman_time() -> None:
    rig = Rig(silence_s=0.3)
    rig.say()
    rig.tick()
    heard_s = rig.now_s
    end = rig.run(alive=False).end
    assert end is not None and end.ending is Ending.FAILED and "sign of life" in end.message
    assert rig.now_s - heard_s <= 0.3
    burst = [rig.tick().velocity for _ in range(STOP_BURST_TICKS + 3)]
    assert burst.count(Velocity()) >= STOP_BURST_TICKS - 1 and burst[-1] is None


@pytest.mark.parametrize("pace", [0.1, 0.5, 1.0, 3.0])
def test_silence_counts_in_real_seconds_and_age_on_the_clock_of_the_measurements(pace: float) -> None:
    rig = Rig(pace=pace)
    rig.say(action="move forward large")
    drive, silent_since_s = rig.tick(), rig.now.real_s
    while drive.end is None:
        drive = rig.tick()
    assert "sign of life" in drive.end.message
    silent_s = rig.now.real_s - silent_since_s
    assert 0.3 - 2 * PERIOD_S < silent_s <= 0.3

    rig = Rig(pace=pace, silence_s=30.0)
    measured = Odometry(rig.pose, Velocity(), rig.now_s), free_scan(rig.now_s)
    ends = []
    for _ in range(2):
        rig.now_s += 0.15
        rig.say()
        ends.append(rig.pilot.tick(*measured, rig.now).end)
    assert ends[0] is None and ends[1] is not None and "0.30 s old" in ends[1].message


def test_motions_are_done_in_a_simulation_at_a_tenth_of_real_time() -> None:
    rig = Rig(pace=0.1)
    for step, action in enumerate(("move forward large", "turn left large"), start=1):
        end = rig.run(step=step, action=action, ticks=4000).end
        assert end is not None and end.ending is Ending.DONE, end


def test_on_a_clock_that_has_not_begun_nothing_moves() -> None:
    rig = Rig()
    odometry, scan = Odometry(rig.pose, Velocity(), 0.0), free_scan(0.0)
    for step in range(1, 9):
        now = Moment(0.0, 500.0 + 0.04 * step)
        rig.pilot.on_text(StepText("a", step, "move forward small", complete=True), now)
        drive = rig.pilot.tick(odometry, scan, now)
        assert drive.end is not None and "/clock" in drive.end.message
        assert drive.velocity in (None, Velocity())


@pytest.mark.parametrize("moves", [True, False], ids=["under way", "before it begins"])
def test_a_clock_that_stands_still_ends_a_motion_in_real_time(moves: bool) -> None:
    rig = Rig()
    for _ in range(10):
        rig.say(complete=moves)
        rig.tick()
    real_s = rig.now.real_s
    stopped_s, end = real_s + PERIOD_S, None  # the next tick still sees a clock that has run
    while end is None:
        real_s += PERIOD_S
        now = Moment(rig.now_s, real_s)
        rig.pilot.on_text(StepText("a", 1 if moves else 2, "move forward medium", complete=True), now)
        measured = (
            Odometry(rig.pose, Velocity(), rig.now_s),
            free_scan(rig.now_s),
        )
        end = rig.pilot.tick(*measured, now).end
    assert end.ending is Ending.FAILED and "stands still" in end.message and real_s - stopped_s <= 0.3


def test_a_clock_that_jumps_ends_a_motion_and_counts_again_after_a_second() -> None:
    rig = Rig()
    rig.say(action="move forward large")
    rig.tick()
    rig.now_s += 3600.0
    now = Moment(rig.now_s, rig.now_s - 3600.0 + PERIOD_S)
    rig.pilot.on_text(StepText("a", 1, "move forward large", complete=True), now)
    measured = (
        Odometry(rig.pose, Velocity(), now.motion_s),
        free_scan(now.motion_s),
    )
    end = rig.pilot.tick(*measured, now).end
    assert end is not None and end.ending is Ending.FAILED and "jumped ahead by 3600" in end.message
    assert rig.pilot.clock_fault
    rig.pilot.tick(*measured, Moment(now.motion_s + 1.1, now.real_s + 1.1))
    assert not rig.pilot.clock_fault


@pytest.mark.lengthy
def test_a_motion_that_real_time_outlasts_ends_though_its_clock_creeps_on() -> None:
    rig = Rig(silence_s=10.0)
    end, real_s = None, rig.now_s
    while end is None:
        rig.now_s += 0.001
        real_s += 0.2
        now = Moment(rig.now_s, real_s)
        rig.pilot.on_text(StepText("a", 1, "move forward large", complete=True), now)
        measured = (
            Odometry(rig.pose, Velocity(), rig.now_s),
            free_scan(rig.now_s),
        )
        drive = rig.pilot.tick(*measured, now)
        end, ahead_mps = drive.end, drive.velocity.vx if drive.velocity else 0.0
        rig.pose = Pose2D(rig.pose.x + 0.001 * ahead_mps, 0.0, 0.0)
    assert "real time" in end.message and real_s - 100.0 < MAX_MOTION_REAL_S + 1.0


@pytest.mark.parametrize(
    ("age_s", "words"),
    [(-5.0, "5.0 s ahead of this clock"), (1.7e9, "1700000000 s ago"), (3.2e7, "synchronise")],
)
def test_a_frame_of_a_clock_that_is_off_moves_nothing_and_is_named(age_s: float, words: str) -> None:
    rig = Rig()
    rig.say(frame_age_s=age_s)
    end = rig.tick().end
    assert end is not None and end.ending is Ending.FAILED and words in end.message
    assert not rig.pilot.is_moving


@pytest.mark.parametrize("before", ["nothing", "an emergency stop", "a hand"])
def test_a_clock_that_is_off_is_the_reason_whatever_has_happened_since(before: str) -> None:
    rig = Rig()
    if before == "an emergency stop":
        rig.pilot.on_emergency_stop(True, rig.now)
        rig.pilot.on_emergency_stop(False, rig.now)
    elif before == "a hand":
        rig.pilot.on_joystick(Velocity(), rig.now)
        rig.now_s += 1.0
        rig.tick()
    else:
        rig.pilot.start(rig.now)
    rig.now_s += 1.0
    rig.say(frame_age_s=1.7e9)
    ends = [drive.end for drive in (rig.tick(), rig.tick()) if drive.end is not None]
    assert [(end.ending, "use_sim_time" in end.message) for end in ends] == [(Ending.FAILED, True)]


def test_a_simulated_clock_that_is_set_back_ends_a_motion_which_it_would_allow_any_time() -> None:
    rig = Rig()
    rig.say(action="move forward large")
    rig.tick()
    real_s, rig.now_s = rig.now.real_s, 3.0
    now = Moment(3.0, real_s)
    rig.pilot.on_text(StepText("a", 1, "move forward large", complete=True), now)
    odometry, scan = Odometry(rig.pose, Velocity(), real_s), free_scan(real_s)
    drive = rig.pilot.tick(odometry, scan, now)
    assert drive.end is not None and drive.end.ending is Ending.FAILED and "clock" in drive.end.message
    assert drive.stop and drive.velocity == Velocity()
