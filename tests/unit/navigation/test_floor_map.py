"""The floor map in the odometry frame: if that frame changes, all that was seen before is dropped."""

from __future__ import annotations

import math

import pytest

from outrider.core.values import Pose2D, RangeScan
from outrider.navigation.sensing.floor_map import FloorMap

RAYS = 72


def room(stamp_s: float) -> RangeScan:
    """Return a scan of walls 2 m away, all around."""
    return RangeScan((2.0,) * RAYS, -math.pi, math.tau / RAYS, stamp_s)


def seen(*poses: tuple[float, Pose2D]) -> FloorMap:
    floor = FloorMap()
    for stamp_s, pose in poses:
        floor.see(pose, room(stamp_s))
    return floor


@pytest.mark.parametrize(
    "elsewhere", [Pose2D(1.2, 0.0, 0.0), Pose2D(0.0, 0.0, math.pi / 2), Pose2D(-2.9, 0.4, 0.0)]
)
def test_a_jump_of_odometry_begins_a_new_map(elsewhere: Pose2D) -> None:
    here = Pose2D(0.0, 0.0, 0.0)
    floor = seen((1.0, here), (1.1, here), (1.2, elsewhere))
    assert floor.num_breaks == 1
    wall = elsewhere.x - 2.0, elsewhere.y
    assert 0 < floor.evidence_at(wall) == seen((1.2, elsewhere)).evidence_at(wall)


@pytest.mark.parametrize("period_s", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(("mps", "rps"), [(0.6, 0.0), (0.0, 1.0), (0.5, 0.9)])
def test_a_robot_that_moves_as_fast_as_it_may_breaks_no_map(period_s: float, mps: float, rps: float) -> None:
    poses = [(n * period_s, Pose2D(0.1 + n * mps * period_s, 0.0, n * rps * period_s)) for n in range(4)]
    assert seen(*poses).num_breaks == 0
