"""Steps of a plan that move the robot, when the data they rely on is lost."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest

from outrider.core.language.plan import Home, Return, Wait
from outrider.core.values import Odometry, Pose2D, RangeScan, Velocity
from outrider.navigation.sensing.floor_map import FloorMap
from outrider.runtime.mission.goal_run import GoalSettings
from outrider.runtime.mission.robot_side import GoalError
from outrider.runtime.plans.moves import Moves
from outrider.runtime.plans.run_log import RunLog


class Robot:
    """A robot that stands, on a clock that runs at `pace`."""

    def __init__(self, pace: float = 1.0) -> None:
        self.pace, self.clock_s, self.paused_s = pace, 10.0, 0.0

    def now_s(self) -> float:
        return self.clock_s

    def pause(self, duration_s: float) -> None:
        self.clock_s += self.pace * duration_s
        self.paused_s += duration_s

    def odometry(self) -> Odometry:
        return Odometry(Pose2D(0.0, 0.0, 0.0), Velocity(), self.clock_s)

    def __getattr__(self, name: str) -> Any:
        """Takes every other call, as a robot does that is told to stand."""
        return lambda *_: None


def moves_of(robot: Robot, floor: FloorMap | None = None) -> Moves:
    nobody: Any = None
    moves = Moves(cast(Any, robot), nobody, GoalSettings(), None, floor, RunLog())
    moves.begin(robot.odometry().pose)
    return moves


@pytest.mark.parametrize("pace", [1.0, 0.2, 5.0])
def test_a_wait_lasts_its_full_time_on_the_clock_of_the_robot(pace: float) -> None:
    robot = Robot(pace)
    assert moves_of(robot).wait(Wait(seconds=2.0), lambda: False).success
    assert robot.clock_s == pytest.approx(12.0, abs=0.3)


def test_a_wait_on_a_clock_that_stands_still_ends_and_says_so() -> None:
    robot = Robot(0.0)
    result = moves_of(robot).wait(Wait(seconds=2.0), lambda: False)
    assert result.error is GoalError.NO_SENSOR and "clock stands still" in result.message
    assert robot.paused_s < 10.0


@pytest.mark.parametrize("step", [Return(), Home()])
def test_nobody_comes_back_to_a_place_from_before_odometry_jumped(step: Return | Home) -> None:
    floor, walls = FloorMap(), (3.0,) * 36
    floor.see(Pose2D(0.0, 0.0, 0.0), RangeScan(walls, -math.pi, math.tau / 36, 1.0))
    moves = moves_of(Robot(), floor)
    floor.see(Pose2D(4.0, 0.0, 0.0), RangeScan(walls, -math.pi, math.tau / 36, 1.1))
    go = moves.come_back if isinstance(step, Return) else moves.home
    result = go(cast(Any, step), lambda: False)
    assert result.error is GoalError.MOTION_FAILED and "odometry has jumped" in result.message


@pytest.mark.parametrize("step", [Return(), Home()])
def test_a_jump_from_before_the_first_task_keeps_nobody_from_coming_back(step: Return | Home) -> None:
    floor, walls = FloorMap(), (3.0,) * 36
    for number in range(2):
        floor.see(
            Pose2D(4.0 * number, 0.0, 0.0), RangeScan(walls, -math.pi, math.tau / 36, 1.0 + 0.1 * number)
        )
    assert floor.num_breaks == 1
    moves = moves_of(Robot(), floor)
    go = moves.come_back if isinstance(step, Return) else moves.home
    assert go(cast(Any, step), lambda: True).error is GoalError.CANCELLED, "on its way when it is cancelled"
