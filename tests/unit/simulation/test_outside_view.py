"""The robot seen from outside, the legs of its figure, and the shortest path."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from outrider.core.values import Pose2D
from outrider.simulation.homes.home import PLACEMENTS, generate_home
from outrider.simulation.looks.go2_figure import LINK_M, Gait, leg_angles
from outrider.simulation.outside_view import OutsideView
from outrider.simulation.shortest_path import path_m, shortest_path


@pytest.mark.parametrize(("ahead_m", "height_m"), [(0.0, 0.285), (0.1, 0.25), (-0.1, 0.2), (0.0, 0.42)])
def test_a_foot_is_where_its_leg_is_asked_to_put_it(ahead_m, height_m):
    thigh, calf = leg_angles(ahead_m, height_m)
    x = -LINK_M * (math.sin(thigh) + math.sin(thigh + calf))
    z = LINK_M * (math.cos(thigh) + math.cos(thigh + calf))
    assert (x, z) == pytest.approx((ahead_m, height_m), abs=1e-4)


def test_legs_trot_while_the_robot_goes_and_rest_where_it_stands():
    gait = Gait()
    going = [gait.angles(Pose2D(0.02 * step, 0.0, 0.0)) for step in range(30)]
    assert np.ptp(going, axis=0).min() > 0.2
    standing = [gait.angles(Pose2D(0.58, 0.0, 0.0)) for _ in range(30)]
    assert np.allclose(standing[-1], gait.angles(Pose2D(0.58, 0.0, 0.0)))
    assert np.allclose(standing[-1][0::2], standing[-1][0])


@pytest.mark.lengthy
@pytest.mark.parametrize("seed", [1, 5])
def test_no_picture_of_the_robot_shows_a_black_sky(seed):
    home = generate_home(seed, None, "other_room")
    view = OutsideView(home, 320, 180)
    try:
        for turn in range(8):
            pose = Pose2D(home.start.x, home.start.y, home.start.yaw + turn * math.pi / 4)
            pictures = [view.picture(pose) for _ in range(6)]
            assert np.all(pictures[-1] == 0, axis=2).mean() < 0.01
            assert pictures[-1].shape == (180, 320, 3)
    finally:
        view.close()


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_shortest_way_ends_in_reach_and_goes_through_no_wall(placement):
    for seed in range(6):
        home = generate_home(seed, None, placement)
        way = shortest_path(home, home.start)
        end_m = math.dist(way[-1], (home.target.x, home.target.y))
        assert home.target.distance_m(*way[-1]) <= 1.05 and way[0] == (home.start.x, home.start.y)
        direct_m = home.start.distance_to(home.target.x, home.target.y)
        assert path_m(way) >= direct_m - end_m - 1e-9
        for (ax, ay), (bx, by) in itertools.pairwise(way):
            assert not any(wall.cuts(ax, ay, bx, by) for wall in home.walls)
