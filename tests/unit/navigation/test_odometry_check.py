"""Which odometry samples count as a pose, and the reason given for the others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from outrider.core.values import Pose2D, Velocity
from outrider.navigation.clocks import DRIFT
from outrider.navigation.sensing.odometry_check import SETTLE_S, OdometryCheck, OdometrySample

PERIOD_S = 0.05
ROBOT_S = 1_700_000_000.0
NAN = math.nan


def sample(x: float = 0.0, y: float = 0.0, yaw: float = 0.0, **more: object) -> OdometrySample:
    quaternion = (0.0, 0.0, math.sin(yaw / 2.0), math.cos(yaw / 2.0))
    made = OdometrySample((x, y, 0.0), quaternion, Velocity(), "odom", "base_link", ROBOT_S)
    return replace(made, **more)  # type: ignore[arg-type]


class Source:
    """Sends samples every PERIOD_S, stamped by its own clock."""

    def __init__(self) -> None:
        self.check = OdometryCheck()
        self.now_s = 100.0
        self.ahead_s = ROBOT_S

    def send(self, of: OdometrySample | None = None, after_s: float = PERIOD_S) -> str:
        """Send a sample after `after_s`; return why it is refused, or an empty text."""
        self.now_s += after_s
        of = of or sample()
        stamped = replace(of, stamp_s=self.ahead_s + self.now_s) if of.stamp_s == ROBOT_S else of
        odometry = self.check.take(stamped, self.now_s)
        assert (odometry is None) == bool(self.check.fault)
        if odometry is not None:
            assert odometry.pose == of.pose and 0.0 <= self.now_s - odometry.stamp_s < 1.0
        return self.check.fault

    def settle(self, of: OdometrySample | None = None) -> str:
        """Send for as long as a fault is held against it, and a little longer; return the last fault."""
        for _ in range(round(SETTLE_S / PERIOD_S) + 2):
            fault = self.send(of)
        return fault


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"quaternion": (0.0, 0.0, 0.0, 0.0)}, "norm 0.00"),
        ({"quaternion": (0.0, 0.0, 0.0, 2.0)}, "norm 2.00"),
        ({"quaternion": (0.0, 0.0, 0.6, 0.0)}, "norm 0.60"),
        ({"quaternion": (0.0, 0.0, 0.0, 1.006)}, "norm 1.01"),
        ({"quaternion": (1.0, 0.0, 0.0, 0.0)}, "tilted by 180 deg"),
        ({"quaternion": (-0.5, 0.5, -0.5, 0.5)}, "tilted by 90 deg"),
        ({"quaternion": (0.0, 0.0, NAN, 1.0)}, "not a number"),
        ({"position": (NAN, 0.0, 0.0)}, "not a number"),
        ({"position": (0.0, math.inf, 0.0)}, "not a number"),
        ({"position": (0.0, 0.0, NAN)}, "not a number"),
        ({"position": (1e300, 0.0, 0.0)}, "metres"),
        ({"velocity": Velocity(vy=NAN)}, "not a number"),
        ({"velocity": Velocity(vx=600.0)}, "m/s"),
        ({"velocity": Velocity(wz=60.0)}, "rad/s"),
        ({"frame_id": "base_link"}, "in the frame 'base_link'"),
        ({"frame_id": "map"}, "in the frame 'map'"),
        ({"child_frame_id": "camera_optical_frame"}, "of the frame 'camera_optical_frame'"),
        ({"child_frame_id": "odom"}, "of the frame 'odom'"),
    ],
)
def test_what_is_no_pose_is_missing_and_named(wrong: dict[str, object], words: str) -> None:
    source = Source()
    assert words in source.send(sample(**wrong))
    source.settle(sample(**wrong))
    assert words in source.check.fault, "for as long as it lasts"
    assert source.settle() == "", "and no longer"


@pytest.mark.parametrize(
    ("frame_id", "child_frame_id"),
    [
        ("odom", "base_link"),
        ("/odom", "/base_link"),
        ("robot1/odom", "robot1/base_link"),
        ("robot1_odom", "robot1_base_footprint"),
        ("odom_combined", "base"),
        ("odom", ""),
        ("", ""),
        ("go2/odom", "trunk"),
    ],
)
def test_frames_may_be_prefixed_or_left_out(frame_id: str, child_frame_id: str) -> None:
    assert Source().send(sample(frame_id=frame_id, child_frame_id=child_frame_id)) == ""


@pytest.mark.parametrize("norm", [0.997, 1.0, 1.003])
@pytest.mark.parametrize("lean_deg", [0.0, 20.0])
def test_a_quaternion_that_is_rounded_or_leans_is_a_pose(norm: float, lean_deg: float) -> None:
    yaw, lean = 0.6, math.radians(lean_deg)
    parts = (
        -math.sin(yaw / 2) * math.sin(lean / 2),
        math.cos(yaw / 2) * math.sin(lean / 2),
        math.sin(yaw / 2) * math.cos(lean / 2),
        math.cos(yaw / 2) * math.cos(lean / 2),
    )
    scaled = replace(sample(), quaternion=tuple(norm * part for part in parts))
    assert Source().send(scaled) == "" and scaled.pose.yaw == pytest.approx(yaw, abs=0.01)


@pytest.mark.parametrize("period_s", [0.002, 0.02, 0.1])
@pytest.mark.parametrize("moves", [Velocity(vx=1.5), Velocity(vx=-1.0, vy=0.5), Velocity(wz=2.5)])
def test_a_robot_that_moves_as_fast_as_it_can_does_not_jump(period_s: float, moves: Velocity) -> None:
    source, time_s = Source(), 0.0
    for _ in range(200):
        time_s += period_s
        moving = sample(moves.vx * time_s, moves.vy * time_s, moves.wz * time_s)
        assert source.send(moving, period_s) == ""


@pytest.mark.parametrize(
    "elsewhere", [sample(3.0), sample(-3.0), sample(0.0, 0.5), sample(yaw=1.5), sample(0.0, 0.0, 3.1)]
)
def test_a_jump_is_missing_until_the_source_goes_on_from_there(elsewhere: OdometrySample) -> None:
    source = Source()
    source.settle()
    assert "jumped by" in source.send(elsewhere)
    for _ in range(round(SETTLE_S / PERIOD_S) - 1):
        assert "jumped by" in source.send(elsewhere)
    assert source.settle(elsewhere) == ""


def test_of_two_sources_that_take_turns_neither_counts() -> None:
    source = Source()
    source.send()
    for _ in range(100):
        assert "jumped" in source.send(sample(2.0), 0.01)
        assert "jumped" in source.send(sample(0.0), 0.04)


@pytest.mark.parametrize(
    "other", [sample(frame_id="robot2/odom"), sample(child_frame_id="robot2/base_link"), sample(frame_id="")]
)
def test_frames_that_change_under_way_are_named(other: OdometrySample) -> None:
    source = Source()
    source.send()
    assert "frames change" in source.send(other)
    assert source.settle(other) == ""


def test_after_a_silence_the_source_may_be_anywhere() -> None:
    source = Source()
    source.send()
    assert source.send(sample(5.0), after_s=3.0) == ""


@pytest.mark.parametrize("ahead_s", [ROBOT_S, -90.0, 3.0, 1e8])
def test_a_clock_of_its_own_is_followed_however_far_off(ahead_s: float) -> None:
    source = Source()
    source.ahead_s = ahead_s
    assert source.settle() == ""


@pytest.mark.parametrize("jump_s", [-3600.0, -1.5, 1.5, 3e7])
def test_a_source_s_clock_that_jumps_is_named(jump_s: float) -> None:
    source = Source()
    source.settle()
    source.ahead_s += jump_s
    assert "clock jumped" in source.send()
    assert source.settle() == ""


def test_stamps_that_go_back_and_forth_are_named() -> None:
    source = Source()
    source.send()
    for shift_s in (-0.4, 0.4) * 20:
        source.ahead_s += shift_s
        fault = source.send()
    assert "go back" in fault


def test_a_source_that_does_not_stamp_counts_from_arrival() -> None:
    source = Source()
    for _ in range(50):
        assert source.send(sample(stamp_s=0.0)) == ""
    assert source.check.take(sample(stamp_s=0.0), 200.0).stamp_s == 200.0  # type: ignore[union-attr]


def test_stamps_that_stand_still_grow_old_at_once_and_are_named_within_a_second() -> None:
    check, fault_s = OdometryCheck(), math.inf
    for number in range(40):
        now_s = 100.0 + number * PERIOD_S
        odometry = check.take(sample(), now_s)
        if odometry is not None and now_s < fault_s:
            assert odometry.stamp_s == pytest.approx(100.0, abs=1e-3), "as old as what it repeats"
        elif math.isinf(fault_s):
            fault_s = now_s
            assert "stand still" in check.fault
    assert fault_s - 100.0 < 1.0 and check.fault


def test_odometry_that_comes_late_is_as_old_as_its_stamp_says() -> None:
    source = Source()
    source.settle()
    late = replace(sample(), stamp_s=ROBOT_S + source.now_s + PERIOD_S)
    source.now_s += PERIOD_S + 0.4
    odometry = source.check.take(late, source.now_s)
    assert odometry is not None and source.now_s - odometry.stamp_s == pytest.approx(0.4, abs=1e-3)


@pytest.mark.parametrize("delay_s", [0.4, 0.6, 1.3, 3.0])
def test_odometry_that_comes_late_for_good_never_counts_as_new(delay_s: float) -> None:
    source = Source()
    source.settle()
    source.now_s += delay_s
    source.ahead_s -= delay_s
    for _ in range(1200):
        source.now_s += PERIOD_S
        odometry = source.check.take(replace(sample(), stamp_s=source.ahead_s + source.now_s), source.now_s)
        assert odometry is None or source.now_s - odometry.stamp_s > delay_s - 0.05


@pytest.mark.parametrize("jump_s", [-0.9, -0.5, -0.2, 0.2, 0.5, 0.9])
def test_a_source_s_clock_that_was_set_a_little_makes_nothing_old_for_longer(jump_s: float) -> None:
    source = Source()
    source.settle()
    source.ahead_s += jump_s
    source.settle()
    odometry = source.check.take(
        replace(sample(), stamp_s=source.ahead_s + source.now_s + PERIOD_S), source.now_s + PERIOD_S
    )
    assert odometry is not None and source.now_s + PERIOD_S - odometry.stamp_s < 0.01


def test_one_stamp_that_is_ahead_makes_nothing_old_for_longer() -> None:
    source = Source()
    source.settle()
    source.ahead_s += 0.7
    source.send()
    source.ahead_s -= 0.7
    assert "go back" in source.send()
    source.settle()
    late = replace(sample(), stamp_s=source.ahead_s + source.now_s + PERIOD_S)
    odometry = source.check.take(late, source.now_s + PERIOD_S)
    assert odometry is not None and source.now_s + PERIOD_S - odometry.stamp_s < 0.01


def test_this_clock_set_back_is_a_fault_for_a_second() -> None:
    source = Source()
    source.settle()
    source.now_s = 3.0
    assert "clock" in source.send()
    assert source.settle() == ""


def test_the_pose_is_the_planar_one() -> None:
    assert sample(1.0, -2.0, 0.5).pose == Pose2D(1.0, -2.0, pytest.approx(0.5))


@pytest.mark.parametrize("is_simulated", [False, True])
def test_one_that_overtakes_the_simulated_clock_makes_the_next_no_older(is_simulated: bool) -> None:
    check = OdometryCheck(is_simulated)
    check.take(sample(stamp_s=10.0), 9.9)
    odometry = check.take(sample(stamp_s=10.05), 10.05)
    assert odometry is not None and odometry.stamp_s == pytest.approx(
        10.05 if is_simulated else 9.95, abs=DRIFT
    )


def velocities(of: Callable[[float], OdometrySample], seconds: float, period_s: float) -> list[Velocity]:
    """Return the velocities that a check gives for a source of these samples."""
    check, found = OdometryCheck(), []
    for step in range(round(seconds / period_s)):
        at_s = step * period_s
        odometry = check.take(replace(of(at_s), stamp_s=ROBOT_S + at_s), 100.0 + at_s)
        assert odometry is not None
        found.append(odometry.velocity)
    return found


@pytest.mark.parametrize("period_s", [0.004, 0.02, 0.1, 0.2])
@pytest.mark.parametrize(
    ("vx", "vy", "wz"), [(0.4, 0.0, 0.0), (0.0, -0.2, 0.0), (0.3, 0.0, 0.6), (0.0, 0.0, -1.0)]
)
def test_a_source_without_a_velocity_has_that_of_its_poses(
    period_s: float, vx: float, vy: float, wz: float
) -> None:
    """The source stands for 1 s, and then moves on a circle or straight ahead."""

    def at(time_s: float) -> OdometrySample:
        moved_s = max(0.0, time_s - 1.0)
        yaw = 0.7 + wz * moved_s
        along = moved_s if wz == 0.0 else math.sin(wz * moved_s) / wz
        across = 0.0 if wz == 0.0 else (1.0 - math.cos(wz * moved_s)) / wz
        start = Pose2D(3.0, -2.0, 0.7)
        pose = start.compose(Pose2D(vx * along - vy * across, vx * across + vy * along, 0.0))
        return sample(pose.x, pose.y, yaw)

    found = velocities(at, 3.0, period_s)
    standing, moving = found[: int(1.0 / period_s)], found[int(1.5 / period_s) :]
    assert all(one == Velocity() for one in standing)
    for one in moving:
        assert (one.vx, one.vy, one.wz) == pytest.approx((vx, vy, wz), abs=0.01)


def test_the_velocity_of_a_source_counts_at_standstill_too() -> None:
    def at(time_s: float) -> OdometrySample:
        moves = time_s < 1.0
        return sample(0.3 * min(time_s, 1.0), velocity=Velocity(0.31) if moves else Velocity())

    found = velocities(at, 2.0, 0.05)
    assert found[5] == Velocity(0.31) and found[-1] == Velocity()
    assert found[21] == Velocity()  # its last few poses still moved


def test_a_jump_and_a_silence_are_no_speed() -> None:
    source = Source()
    source.settle(sample(0.0))
    assert "jumped" in source.send(sample(5.0))
    for _ in range(round(SETTLE_S / PERIOD_S) + 5):
        source.send(sample(5.0))
    assert source.check.take(sample(5.0, stamp_s=0.0), source.now_s + 0.05).velocity == Velocity()  # type: ignore[union-attr]
    late = source.check.take(sample(9.0, stamp_s=0.0), source.now_s + 4.0)
    assert late is not None and late.velocity == Velocity()
