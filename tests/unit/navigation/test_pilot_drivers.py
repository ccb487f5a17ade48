"""People before texts: the emergency stop, the joystick, and frames from before they acted."""

from __future__ import annotations

import math

import pytest
from pilot_rig import PERIOD_S, Rig

from outrider.core.values import Velocity
from outrider.navigation.limits import MotionLimits
from outrider.navigation.motion.step_motions import Ending
from outrider.navigation.motion.stopping import PERSIST_S, STOP_BURST_TICKS


def test_the_emergency_stop_ends_a_motion_and_blocks_the_next() -> None:
    rig = Rig()
    rig.say()
    rig.tick()
    rig.pilot.on_emergency_stop(True, rig.now)
    drive = rig.tick()
    assert drive.stop and drive.velocity == Velocity()
    assert drive.end is not None and drive.end.ending is Ending.EMERGENCY_STOP
    rig.say(step=2)
    drive = rig.tick()
    assert drive.end is not None and drive.end.ending is Ending.EMERGENCY_STOP and not rig.pilot.is_moving
    rig.pilot.on_emergency_stop(False, rig.now)
    assert rig.run(step=3).end.ending is Ending.DONE  # type: ignore[union-attr]


def test_the_joystick_takes_the_robot_from_a_motion_and_gives_it_back_when_it_falls_silent() -> None:
    rig = Rig()
    rig.say()
    rig.tick()
    rig.pilot.on_joystick(Velocity(-0.2, 0.1, 0.3), rig.now)
    drive = rig.tick()
    assert drive.end is not None and drive.end.ending is Ending.OVERRIDDEN and drive.stop
    assert drive.velocity == Velocity(-0.2, 0.1, 0.3)
    rig.say(step=2)
    drive = rig.tick()
    assert drive.end is not None and drive.end.ending is Ending.OVERRIDDEN and not rig.pilot.is_moving
    assert drive.velocity == Velocity(-0.2, 0.1, 0.3)
    silent = [rig.tick() for _ in range(12)]
    first = next(drive for drive in silent if drive.velocity == Velocity())
    assert first.stop and not rig.pilot.drivers
    assert rig.run(step=3).end.ending is Ending.DONE  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["move forward small", "stop"])
def test_no_text_counts_while_the_joystick_is_held(text: str) -> None:
    rig = Rig()
    for step in range(1, 20):
        rig.pilot.on_joystick(Velocity(), rig.now)
        rig.say(step=step, action=text)
        drive = rig.tick()
        assert drive.velocity == Velocity()
        assert drive.end is not None and drive.end.ending is Ending.OVERRIDDEN


def test_the_joystick_is_clamped_and_what_is_no_number_is_a_stop() -> None:
    rig, limits = Rig(), MotionLimits()
    rig.pilot.on_joystick(Velocity(9.0, -9.0, 9.0), rig.now)
    assert rig.tick().velocity == Velocity(limits.forward_mps, -limits.lateral_mps, limits.yaw_rps)
    rig.pilot.on_joystick(Velocity(math.nan, 0.1, 0.0), rig.now)
    assert rig.tick().velocity == Velocity()


def test_of_two_drivers_at_once_neither_moves_the_robot() -> None:
    rig = Rig()
    rig.pilot.on_joystick(Velocity(0.3), rig.now, "joystick")
    assert rig.tick().velocity == Velocity(0.3)
    for _ in range(20):
        rig.pilot.on_joystick(Velocity(0.3), rig.now, "joystick")
        rig.pilot.on_joystick(Velocity(-0.3), rig.now, "page")
        assert rig.tick().velocity == Velocity() and rig.pilot.drivers == ("joystick", "page")
    again = []
    for _ in range(12):
        rig.pilot.on_joystick(Velocity(0.3), rig.now, "joystick")
        again.append(rig.tick().velocity)
    assert again[0] == Velocity() and again[-1] == Velocity(0.3), "once the page has let go"


def test_the_emergency_stop_is_above_the_joystick() -> None:
    rig = Rig()
    rig.pilot.on_joystick(Velocity(0.3), rig.now)
    rig.tick()
    rig.pilot.on_emergency_stop(True, rig.now)
    rig.pilot.on_joystick(Velocity(0.3), rig.now)
    assert [rig.tick().velocity or Velocity() for _ in range(20)] == [Velocity()] * 20
    rig.pilot.on_emergency_stop(False, rig.now)
    assert rig.tick().velocity is None
    rig.pilot.on_joystick(Velocity(0.3), rig.now)
    assert rig.tick().velocity == Velocity(0.3)


@pytest.mark.parametrize("text", ["move forward small", "stop"])
def test_a_frame_from_before_manual_driving_moves_nothing(text: str) -> None:
    """The robot has moved since the picture was taken, though nobody drives it when the text is complete."""
    rig = Rig()
    rig.pilot.on_joystick(Velocity(0.3), rig.now)
    while rig.tick().velocity != Velocity():
        pass
    off_s = rig.now_s
    for _ in range(STOP_BURST_TICKS):
        rig.tick()
    rig.say(action=text, frame_age_s=rig.now_s - off_s + 0.1)
    end = rig.tick().end
    assert end is not None and end.ending is Ending.OVERRIDDEN and not rig.pilot.is_moving
    assert rig.run(step=2, action=text, frame_age_s=0.1).end.ending is Ending.DONE  # type: ignore[union-attr]


def test_a_text_begun_before_an_emergency_stop_does_not_move_the_robot_after_its_release() -> None:
    rig = Rig()
    rig.tick()
    rig.pilot.on_emergency_stop(True, rig.now)
    rig.tick()
    rig.pilot.on_emergency_stop(False, rig.now)
    rig.tick()
    rig.say(frame_age_s=2.0 * PERIOD_S)
    end = rig.tick().end
    assert end is not None and end.ending is Ending.EMERGENCY_STOP and not rig.pilot.is_moving
    for _ in range(5):
        rig.pilot.on_emergency_stop(False, rig.now)  # a publisher may repeat itself
        rig.tick()
    assert rig.run(step=2, frame_age_s=0.1).end.ending is Ending.DONE  # type: ignore[union-attr]


def test_a_text_that_waits_for_the_base_does_not_outwait_an_emergency_stop() -> None:
    rig = Rig()
    rig.pilot.on_base("still standing up", rig.now)
    rig.say(frame_age_s=0.1)
    rig.pilot.on_emergency_stop(True, rig.now)
    rig.tick()
    rig.pilot.on_emergency_stop(False, rig.now)
    rig.tick()
    rig.pilot.on_base("", rig.now)
    rig.say(frame_age_s=0.1 + 2.0 * PERIOD_S)
    end = rig.tick().end
    assert end is not None and end.ending is Ending.EMERGENCY_STOP and not rig.pilot.is_moving


def test_stops_against_another_driver_of_the_base_end_soon() -> None:
    rig = Rig()
    rig.go(20)
    rig.velocity, rig.holds = Velocity(wz=0.5), True
    rig.pilot.stop("withdrawn", rig.now)
    begun_s = rig.now.real_s
    while rig.tick().velocity is not None:
        assert rig.now.real_s - begun_s < PERSIST_S + 1.0
    assert rig.now.real_s - begun_s >= PERSIST_S - PERIOD_S
