"""The motion controller: distances and turns, obstacles, missing measurements and false odometry."""

import math
from dataclasses import replace

import numpy as np
import pytest
from flatland import Flatland, box, wall

from outrider.core.language.actions import Motion
from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity
from outrider.navigation.limits import MotionLimits
from outrider.navigation.motion.controller import Command, MotionController
from outrider.navigation.motion.driving import carry_out

STEP_S = 0.05


@pytest.mark.parametrize("distance_m", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("lag_s", [0.0, 0.1, 0.25])
@pytest.mark.parametrize("seed", range(4))
def test_a_move_ahead_covers_its_distance_within_five_per_cent(distance_m, lag_s, seed):
    robot = Flatland(lag_s=lag_s, noise=0.02, seed=seed)
    command = carry_out(robot, Motion(forward_m=distance_m))
    assert command.error is None and not command.blocked
    robot.drive(Velocity(), 1.0)
    assert robot.pose.x == pytest.approx(distance_m, rel=0.05)
    assert abs(robot.pose.y) < 0.02 and abs(robot.pose.yaw) < 0.02


@pytest.mark.parametrize("turn_deg", [15, -15, 30, -30, 45, -45])
@pytest.mark.parametrize("lag_s", [0.0, 0.1, 0.25])
@pytest.mark.parametrize("seed", range(4))
def test_a_turn_covers_its_angle_within_five_per_cent(turn_deg, lag_s, seed):
    robot = Flatland(lag_s=lag_s, noise=0.02, seed=seed, start=Pose2D(1, 2, 3.1))
    command = carry_out(robot, Motion(turn_rad=math.radians(turn_deg)))
    assert command.error is None and not command.blocked
    robot.drive(Velocity(), 1.0)
    turned = math.degrees(math.remainder(robot.pose.yaw - 3.1, 2 * math.pi))
    assert turned == pytest.approx(turn_deg, rel=0.05)


def test_a_stop_never_moves_whatever_surrounds_it():
    robot = Flatland(walls=box(0.6, 0.0, 0.2))
    controller = MotionController(Motion())
    controller.start(robot.odometry(), 0.0)
    assert controller.update(robot.odometry(), robot.scan(), 0.0) == Command(done=True)


def test_the_robot_stops_short_of_a_wall_and_reports_the_distance():
    robot = Flatland(walls=[wall(0.8, -3, 0.8, 3)])
    command = carry_out(robot, Motion(forward_m=0.75))
    assert command.blocked and command.error is None
    assert command.note.startswith("blocked after 0.3") and command.note.endswith("of 0.75 m")
    assert robot.contacts == 0


@pytest.mark.parametrize(
    "scan",
    [
        RangeScan((0.4,) * 36, math.nan, math.tau / 36, 0.0),
        RangeScan((0.4,) * 36, -math.pi, math.nan, 0.0),
        RangeScan((), -math.pi, math.tau / 36, 0.0),
        RangeScan((math.nan,) * 36, -math.pi, math.tau / 36, 0.0),
        RangeScan((0.0, math.nan, -math.inf) * 12, -math.pi, math.tau / 36, 0.0),
    ],
)
def test_a_scan_that_shows_no_place_moves_nothing(scan):
    controller = MotionController(Motion(forward_m=0.5))
    odometry = Odometry(Pose2D(0.0, 0.0, 0.0), Velocity(), 0.0)
    controller.start(odometry, 0.0)
    command = controller.update(odometry, scan, 0.0)
    assert command.done and command.velocity == Velocity() and "scan" in (command.error or "")


@pytest.mark.parametrize(
    ("range_min", "num_near", "moves"),
    [(0.45, 16, False), (0.45, 1, False), (0.1, 16, False), (0.1, 1, True)],
)
def test_a_sector_too_near_to_be_measured_is_not_gone_into(range_min, num_near, moves):
    step = math.tau / 180
    ranges = tuple(-math.inf if 90 <= ray < 90 + num_near else math.inf for ray in range(180))
    scan = RangeScan(ranges, -math.pi, step, 0.0, range_min)
    controller = MotionController(Motion(forward_m=0.5))
    odometry = Odometry(Pose2D(0.0, 0.0, 0.0), Velocity(), 0.0)
    controller.start(odometry, 0.0)
    command = controller.update(odometry, scan, 0.0)
    assert (command.velocity.vx > 0.0) == moves


def test_a_robot_close_to_a_wall_stays_where_it_is():
    robot = Flatland(walls=[wall(0.45, -3, 0.45, 3)])
    assert carry_out(robot, Motion(forward_m=0.75)).blocked
    assert math.hypot(robot.pose.x, robot.pose.y) < 0.05


@pytest.mark.parametrize("y", [-0.25, -0.15, 0.1, 0.2])
def test_it_side_steps_around_a_small_obstacle_and_keeps_its_heading(y):
    robot = Flatland(walls=box(0.9, y, 0.05))
    command = carry_out(robot, Motion(forward_m=0.75))
    assert not command.blocked and robot.contacts == 0
    assert robot.pose.x == pytest.approx(0.75, abs=0.05)
    assert robot.pose.y * y < 0 and abs(robot.pose.yaw) < 0.03


@pytest.mark.parametrize("offset_m", [-0.3, -0.2, 0.0, 0.1, 0.3])
@pytest.mark.parametrize("yaw_deg", [-10, 0, 10])
def test_a_metre_wide_door_is_passable_from_off_its_middle(offset_m, yaw_deg):
    frame = [wall(1.0, 0.5, 1.0, 3), wall(1.1, 0.5, 1.1, 3), wall(1.0, 0.5, 1.1, 0.5)]
    frame += [wall(1.0, -0.5, 1.0, -3), wall(1.1, -0.5, 1.1, -3), wall(1.0, -0.5, 1.1, -0.5)]
    robot = Flatland(walls=frame, start=Pose2D(0, offset_m, math.radians(yaw_deg)))
    for _ in range(3):
        carry_out(robot, Motion(forward_m=0.75))
    assert robot.contacts == 0
    assert robot.pose.x > 1.6


def test_a_turn_next_to_a_wall_gets_clear_of_it_without_contact():
    robot = Flatland(walls=[wall(-3, 0.25, 3, 0.25)])
    command = carry_out(robot, Motion(turn_rad=math.radians(45)))
    assert command.error is None and not command.blocked
    assert robot.contacts == 0


def test_a_turn_with_no_room_at_all_ends_as_blocked():
    cell = [wall(-0.4, 0.21, 0.4, 0.21), wall(-0.4, -0.21, 0.4, -0.21)]
    cell += [wall(0.4, -0.21, 0.4, 0.21), wall(-0.4, -0.21, -0.4, 0.21)]
    robot = Flatland(walls=cell)
    assert carry_out(robot, Motion(turn_rad=math.radians(45))).blocked
    assert robot.contacts == 0


def test_random_walks_among_obstacles_touch_nothing():
    rng = np.random.default_rng(3)
    motions = [Motion(forward_m=d) for d in (0.25, 0.5, 0.75)]
    motions += [Motion(turn_rad=math.radians(d)) for d in (-45, -30, 15, 30, 45)]
    for seed in range(4):
        walls = [wall(-3, -3, 3, -3), wall(3, -3, 3, 3), wall(3, 3, -3, 3), wall(-3, 3, -3, -3)]
        for _ in range(9):
            x, y = rng.uniform(-2.6, 2.6, 2)
            if math.hypot(x, y) > 0.8:
                walls += box(x, y, rng.uniform(0.06, 0.3))
        robot = Flatland(walls=walls, noise=0.02, seed=seed)
        for _ in range(30):
            carry_out(robot, motions[int(rng.integers(len(motions)))])
        assert robot.contacts == 0, seed


def moving(controller: MotionController) -> tuple[Odometry, RangeScan]:
    robot = Flatland()
    controller.start(robot.odometry(), 0.0)
    assert controller.update(robot.odometry(), robot.scan(), 0.0).velocity != Velocity()
    return robot.odometry(), robot.scan()


@pytest.mark.parametrize("stale", ["odometry", "scan"])
def test_stale_measurements_abort_the_motion_for_good(stale):
    controller = MotionController(Motion(forward_m=0.5))
    odometry, scan = moving(controller)
    fresh = replace(odometry, stamp_s=0.4), replace(scan, stamp_s=0.4)
    late = (odometry, fresh[1]) if stale == "odometry" else (fresh[0], scan)
    command = controller.update(*late, 0.4)
    assert command.done and command.error is not None and stale in command.error
    assert controller.update(*fresh, 0.4) == command


def test_odometry_that_is_no_number_aborts():
    controller = MotionController(Motion(turn_rad=0.5))
    odometry, scan = moving(controller)
    command = controller.update(replace(odometry, pose=Pose2D(math.nan, 0, 0)), scan, 0.1)
    assert command.done and command.error is not None and "not a number" in command.error


def test_a_base_that_slips_runs_out_of_time_or_is_found_stuck():
    controller = MotionController(Motion(forward_m=0.5), MotionLimits())
    odometry, scan = moving(controller)
    command = Command()
    for step in range(200):
        now_s = step * STEP_S
        command = controller.update(replace(odometry, stamp_s=now_s), replace(scan, stamp_s=now_s), now_s)
        if command.done:
            break
    assert command.blocked and "0.00 of 0.50 m" in command.note


def test_a_base_that_creeps_is_ended_by_its_time_allowance():
    limits = MotionLimits(forward_mps=0.05, allowance_factor=1.0, allowance_extra_s=0.1)
    controller = MotionController(Motion(forward_m=0.75), limits)
    odometry, scan = moving(controller)
    command = Command()
    for step in range(400):
        now_s = step * STEP_S
        at = replace(odometry, pose=Pose2D(0.04 * now_s, 0, 0), stamp_s=now_s)
        command = controller.update(at, replace(scan, stamp_s=now_s), now_s)
        if command.done:
            break
    assert command.error is not None and "time allowance" in command.error


class Shown:
    """A base whose odometry is what `show` makes of its pose and velocity, plus 1 mm of jitter."""

    def __init__(self, show, lag_s=0.0):
        self.robot, self.show = Flatland(lag_s=lag_s), show

    def run(self, motion, period_s=1.0 / 30.0):
        """Carry out a motion with that odometry; return the last command."""
        controller, robot = MotionController(motion, period_s=period_s), self.robot
        controller.start(self.odometry(), robot.time_s)
        while True:
            command = controller.update(self.odometry(), robot.scan(), robot.time_s)
            robot.drive(command.velocity, period_s)
            if command.done:
                return command

    def odometry(self):
        pose, velocity = self.show(self.robot.pose, self.robot.velocity)
        jitter_m = 0.001 * math.sin(1e3 * self.robot.time_s)
        return Odometry(replace(pose, x=pose.x + jitter_m), velocity, self.robot.time_s)


STILL = Pose2D(0.0, 0.0, 0.0)
LIES = {
    "stands still": lambda pose, velocity: (STILL, Velocity()),
    "stands still, reports speed": lambda pose, velocity: (STILL, velocity),
    "covers a third": lambda pose, velocity: (Pose2D(pose.x / 3, pose.y / 3, pose.yaw / 3), velocity),
    "runs backwards": lambda pose, velocity: (Pose2D(-pose.x, -pose.y, -pose.yaw), velocity),
    "faces left": lambda pose, velocity: (Pose2D(-pose.y, pose.x, pose.yaw), velocity),
    "faces back, keeps its heading": lambda pose, velocity: (Pose2D(-pose.x, -pose.y, 0.0), velocity),
    "drifts": lambda pose, velocity: (Pose2D(pose.x, 2.0 * pose.x, pose.yaw), velocity),
    "turns as it moves": lambda pose, velocity: (Pose2D(pose.x, pose.y, pose.yaw + 3.0 * pose.x), velocity),
}


@pytest.mark.parametrize("lag_s", [0.0, 0.25])
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("forward_m", [0.25, 0.5, 0.75])
def test_odometry_that_lies_lets_no_move_go_far_beyond_its_command(lie, forward_m, lag_s):
    shown = Shown(LIES[lie], lag_s)
    command = shown.run(Motion(forward_m=forward_m))
    assert command.blocked or command.error, lie
    shown.robot.drive(Velocity(), 1.0)
    assert math.hypot(shown.robot.pose.x, shown.robot.pose.y) < forward_m + 0.25


@pytest.mark.parametrize("lag_s", [0.0, 0.25])
@pytest.mark.parametrize(
    "lie", ["stands still", "stands still, reports speed", "covers a third", "runs backwards"]
)
@pytest.mark.parametrize("turn_deg", [-45, 15, 30])
def test_odometry_that_lies_lets_no_turn_go_far_beyond_its_command(lie, turn_deg, lag_s):
    shown = Shown(LIES[lie], lag_s)
    command = shown.run(Motion(turn_rad=math.radians(turn_deg)))
    assert command.blocked or command.error, lie
    shown.robot.drive(Velocity(), 1.0)
    assert abs(math.degrees(shown.robot.pose.yaw)) < abs(turn_deg) + 20.0


@pytest.mark.parametrize("twist", ["the world's", "never filled in"])
@pytest.mark.parametrize("heading_deg", [90, 180])
def test_a_twist_in_another_frame_or_none_does_no_harm(twist, heading_deg):
    heading = math.radians(heading_deg)

    def show(pose, velocity):
        cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
        world = Velocity(
            velocity.vx * cos - velocity.vy * sin, velocity.vx * sin + velocity.vy * cos, velocity.wz
        )
        return pose, world if twist == "the world's" else Velocity()

    shown = Shown(show, lag_s=0.1)
    shown.robot.pose = shown.robot.believed = Pose2D(0.0, 0.0, heading)
    command = shown.run(Motion(forward_m=0.5))
    shown.robot.drive(Velocity(), 1.0)
    assert not command.error and not command.blocked
    assert math.hypot(shown.robot.pose.x, shown.robot.pose.y) == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize("push", [Velocity(vx=0.6), Velocity(vx=-0.9), Velocity(vy=0.4), Velocity(wz=1.5)])
@pytest.mark.parametrize("motion", [Motion(forward_m=0.75), Motion(turn_rad=0.5), Motion(turn_rad=-0.5)])
def test_a_robot_that_goes_elsewhere_than_commanded_is_stopped_whatever_moves_it(motion, push):
    robot, period_s = Flatland(lag_s=0.0), 1.0 / 30.0
    controller = MotionController(motion, period_s=period_s)
    controller.start(robot.odometry(), 0.0)
    command = Command()
    while not command.done and robot.time_s < 5.0:
        command = controller.update(robot.odometry(), robot.scan(), robot.time_s)
        asked = command.velocity
        robot.drive(Velocity(asked.vx + push.vx, asked.vy + push.vy, asked.wz + push.wz), period_s)
    assert command.done and command.velocity == Velocity()
    assert math.hypot(robot.pose.x, robot.pose.y) < motion.forward_m + 0.35
    assert abs(robot.pose.yaw) < abs(motion.turn_rad) + math.radians(25.0)


@pytest.mark.parametrize("motion", [Motion(forward_m=0.75), Motion(turn_rad=math.radians(45.0))])
@pytest.mark.parametrize(
    "place", [(0.37, -0.05), (0.1, -0.2), (0.36, 0.21), (0.3, 0.21), (0.8, 0.0), (0.2, 0.2)]
)
def test_nothing_that_appears_or_goes_makes_a_base_speed_up_beyond_the_limits(motion, place):
    limits, period_s = MotionLimits(), 1.0 / 30.0
    robot = Flatland(walls=box(*place, 0.01), lag_s=0.05)
    controller, last = MotionController(motion, period_s=period_s), Velocity()
    controller.start(robot.odometry(), 0.0)
    while True:
        if robot.time_s > 0.8:
            robot.walls = np.zeros((0, 4))
        command = controller.update(robot.odometry(), robot.scan(), robot.time_s)
        if command.done:
            break
        part, most = (
            ("vx", limits.acceleration_mps2) if motion.forward_m else ("wz", limits.yaw_acceleration_rps2)
        )
        gain = abs(getattr(command.velocity, part)) - abs(getattr(last, part))
        assert gain <= most * 0.035 + 1e-9, robot.time_s
        last = command.velocity
        robot.drive(command.velocity, period_s)


@pytest.mark.parametrize("motion", [Motion(forward_m=0.75), Motion(turn_rad=math.radians(45.0))])
@pytest.mark.parametrize(("share", "words"), [(0.4, "far less than commanded"), (2.0, "at most")])
def test_a_base_that_is_slower_or_faster_than_commanded_is_named(motion, share, words):
    robot, period_s = Flatland(lag_s=0.0), 1.0 / 30.0
    controller = MotionController(motion, period_s=period_s)
    controller.start(robot.odometry(), 0.0)
    command = Command()
    while not command.done:
        asked = command.velocity
        robot.drive(Velocity(share * asked.vx, share * asked.vy, share * asked.wz), period_s)
        command = controller.update(robot.odometry(), robot.scan(), robot.time_s)
    assert command.error is not None and words in command.error
