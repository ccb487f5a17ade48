"""A camera that is mirrored and one that repeats pictures, both found by comparison with odometry."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import pytest

from outrider.core.values import Odometry, Pose2D, Velocity
from outrider.navigation.sensing.camera_check import (
    FOCAL_PX,
    HEIGHT_PX,
    UNMOVED,
    WIDTH_PX,
    MirrorCheck,
    RepeatWatch,
    is_black,
)
from outrider.simulation.homes.home import generate_home
from outrider.simulation.looks.styles import draw_look
from outrider.simulation.simulator import Simulator

STILL = Velocity()
Picture = np.ndarray


@functools.lru_cache(maxsize=3)
def half_circle(seed: int, rate_rps: float, sense: float) -> list[tuple[Picture, Pose2D]]:
    """Return read-only pictures of a turn of half a circle, and the poses by odometry."""
    simulator = Simulator(generate_home(seed, placement="hidden"), seed, 0.02)
    seen = []
    try:
        for _ in range(round(math.pi / rate_rps / 0.1)):
            seen.append((simulator.render_camera(), simulator.odometry().pose))
            seen[-1][0].setflags(write=False)
            simulator.drive(Velocity(wz=sense * rate_rps), 0.1)
    finally:
        simulator.close()
    return seen


def pan(flip: Callable[[Picture], Picture], seed: int, rate_rps: float, sense: float = 1.0) -> MirrorCheck:
    """Return the check after a turn of half a circle by a camera whose pictures `flip` changes."""
    check = MirrorCheck()
    for seen, pose in half_circle(seed, rate_rps, sense):
        picture = np.ascontiguousarray(flip(seen))
        check.see(lambda picture=picture: picture, pose)
    return check


@pytest.mark.lengthy
@pytest.mark.parametrize("rate_rps", [0.4, 1.0])
@pytest.mark.parametrize(("seed", "sense"), [(1, 1.0), (2, -1.0), (3, 1.0)])
def test_left_is_left_in_a_picture_as_it_should_be(seed: int, sense: float, rate_rps: float) -> None:
    check = pan(lambda picture: picture, seed, rate_rps, sense)
    assert not check.mirrored and check.votes[0] >= 6 and check.votes[1] == 0


@pytest.mark.lengthy
@pytest.mark.parametrize("flip", [np.fliplr, lambda p: np.rot90(p, 2)], ids=["mirrored", "upside down"])
@pytest.mark.parametrize(("seed", "sense"), [(1, 1.0), (2, -1.0), (3, 1.0)])
def test_a_picture_in_which_left_is_right_is_noticed(
    flip: Callable[..., Picture], seed: int, sense: float
) -> None:
    assert pan(flip, seed, 0.6, sense).mirrored


NOISE = np.random.default_rng(5).integers(0, 255, (HEIGHT_PX, WIDTH_PX, 3)).astype(np.uint8)


class Dying:
    """A camera that shows `number` more pictures, and then only the last of them, altered by `change`."""

    def __init__(self, number: int, change: Callable[[Picture, int], Picture]) -> None:
        self._left, self._change = number, change
        self._last, self._count = NOISE, 0

    def __call__(self, picture: Picture) -> Picture:
        self._left, self._count = self._left - 1, self._count + 1
        if self._left >= 0:
            self._last = picture
        return self._change(self._last.copy(), self._count) if self._left < 0 else picture


def with_clock(picture: Picture, count: int) -> Picture:
    picture[:10, : 10 + count % 20] = 255
    return picture


def with_noise(picture: Picture, count: int) -> Picture:
    rng = np.random.default_rng(count)
    return np.clip(picture + rng.normal(0.0, 3.0, picture.shape), 0, 255).astype(np.uint8)


@pytest.mark.lengthy
@pytest.mark.parametrize("change", [with_clock, with_noise])
@pytest.mark.parametrize("number", [0, 15])
def test_a_picture_that_shows_no_turn_is_noticed_though_it_changes(
    change: Callable[[Picture, int], Picture], number: int
) -> None:
    for seed in (1, 4, 6):
        assert pan(Dying(number, change), seed, 0.6).fault == UNMOVED


def test_static_noise_is_noticed() -> None:
    assert pan(lambda _: NOISE, 1, 0.6).unmoved


@pytest.mark.lengthy
@pytest.mark.parametrize("look", ["textured", "dim", "washed", "noisy"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_look_of_a_home_is_taken_for_a_camera_that_is_dead(look: str, seed: int) -> None:
    simulator = Simulator(generate_home(seed, placement="hidden"), seed, 0.02, look=draw_look(look, seed))
    check = MirrorCheck()
    try:
        for _ in range(50):
            picture = simulator.render_camera()
            check.see(lambda picture=picture: picture, simulator.odometry().pose)
            simulator.drive(Velocity(wz=0.6), 0.1)
            assert not check.fault
    finally:
        simulator.close()


def test_a_plain_wall_behind_a_lens_that_darkens_its_corners_is_no_evidence() -> None:
    check, rng = MirrorCheck(), np.random.default_rng(3)
    y, x = np.mgrid[-1 : 1 : HEIGHT_PX * 1j, -1 : 1 : WIDTH_PX * 1j]
    shade = 170.0 - 60.0 * (x * x + y * y)
    for index in range(60):
        picture = np.clip(shade[..., None] + rng.normal(0.0, 2.0, (HEIGHT_PX, WIDTH_PX, 3)), 0, 255)
        check.see(lambda picture=picture: picture.astype(np.uint8), Pose2D(0.0, 0.0, 0.06 * index))
    assert not check.fault


def test_without_turning_nothing_is_judged() -> None:
    check, rng = MirrorCheck(), np.random.default_rng(1)
    for index in range(30):
        picture = rng.integers(0, 255, (90, 160, 3)).astype(np.uint8)
        check.see(lambda picture=picture: picture, Pose2D(0.02 * index, 0.0, 0.0))
    assert check.votes == (0, 0) and not check.mirrored


def test_pictures_without_anything_in_common_are_no_evidence() -> None:
    check, rng = MirrorCheck(), np.random.default_rng(2)
    for index in range(60):
        picture = rng.integers(0, 255, (90, 160, 3)).astype(np.uint8)
        check.see(lambda picture=picture: picture, Pose2D(0.0, 0.0, 0.1 * index))
    assert not check.mirrored


def stripes(yaw_rad: float, period_deg: float) -> Picture:
    """Return a picture of stripes all around the camera, at equal distances."""
    column = np.arange(WIDTH_PX)
    bearing = yaw_rad - np.arctan((column - WIDTH_PX / 2) / FOCAL_PX)
    bright = 127.0 + 100.0 * np.sign(np.sin(bearing / math.radians(period_deg) * 2.0 * math.pi))
    return np.broadcast_to(bright[None, :, None], (HEIGHT_PX, WIDTH_PX, 3)).astype(np.uint8)


@pytest.mark.parametrize("step_deg", [2.6, 3.0, 3.7, 6.2, 7.5])
def test_even_stripes_which_look_the_same_turned_either_way_are_no_evidence(step_deg: float) -> None:
    check = MirrorCheck()
    for index in range(40):
        yaw = math.radians(step_deg * index)
        check.see(lambda yaw=yaw: stripes(yaw, 5.0), Pose2D(0.0, 0.0, yaw))
    assert not check.mirrored and check.votes[1] == 0


def test_a_picture_that_is_late_by_a_turn_the_other_way_is_no_evidence() -> None:
    check, simulator = MirrorCheck(), Simulator(generate_home(1, placement="hidden"), 1, 0.02)
    try:
        late = simulator.render_camera()
        for index in range(40):
            check.see(lambda late=late: late, simulator.odometry().pose)
            late = simulator.render_camera()
            simulator.drive(Velocity(wz=0.6 if index % 2 else -0.6), 0.1)
    finally:
        simulator.close()
    assert check.votes == (0, 0)


def odometry(x: float = 0.0, yaw: float = 0.0, velocity: Velocity = STILL) -> Odometry:
    return Odometry(Pose2D(x, 0.0, yaw), velocity, 0.0)


def test_a_picture_again_is_nothing_new_once_the_robot_moves_or_has_moved() -> None:
    watch = RepeatWatch()
    assert not watch.is_repeated(b"picture one", odometry())
    assert not watch.is_repeated(b"picture one", odometry()), "a robot that stands may see the same"
    assert watch.is_repeated(b"picture one", odometry(velocity=Velocity(wz=0.3)))
    assert watch.is_repeated(b"picture one", odometry(yaw=0.1)), "it stands, but elsewhere"
    assert not watch.is_repeated(b"picture two", odometry(yaw=0.1))
    assert not watch.is_repeated(b"picture two", odometry(yaw=0.1))
    assert watch.is_repeated(b"picture two", odometry(x=0.05, yaw=0.1))


@pytest.mark.parametrize("buffers", [2, 4, 32])
def test_a_driver_that_goes_round_in_its_buffers_shows_nothing_new(buffers: int) -> None:
    watch = RepeatWatch()
    seen = [watch.is_repeated(b"picture %d" % (i % buffers), odometry(x=0.03 * i)) for i in range(100)]
    assert seen == [i >= buffers for i in range(100)]


def test_a_robot_that_is_where_it_was_may_see_what_it_saw() -> None:
    watch = RepeatWatch()
    assert not watch.is_repeated(b"picture one", odometry())
    assert not watch.is_repeated(b"picture two", odometry(yaw=0.3))
    assert not watch.is_repeated(b"picture one", odometry())
    assert not watch.is_repeated(b"picture two", None), "odometry may begin anew"
    assert not watch.is_repeated(b"picture one", odometry(x=5.0))


@pytest.mark.parametrize("of_then", [True, False])
def test_a_second_wall_like_the_first_is_judged_from_where_it_came_into_view(of_then: bool) -> None:
    watch, wall = RepeatWatch(), bytes(900 * [200])
    assert not watch.is_repeated(wall, odometry())
    assert not watch.is_repeated(b"picture one", odometry(x=0.7))
    assert not watch.is_repeated(wall, odometry(x=1.5), of_then=of_then)
    assert not watch.is_repeated(wall, odometry(x=1.6))
    assert not watch.is_repeated(wall, odometry(x=1.7))
    assert watch.is_repeated(wall, odometry(x=2.8))


def test_the_newest_odometry_distinguishes_an_old_picture_from_a_new_one() -> None:
    watch = RepeatWatch()
    assert not watch.is_repeated(b"picture one", odometry(x=0.1), of_then=False)
    assert not watch.is_repeated(b"picture one", odometry(x=0.2)), "it stands here now"
    assert not watch.is_repeated(b"picture one", odometry(x=0.2), of_then=False)
    assert watch.is_repeated(b"picture one", odometry(x=0.4), of_then=False)


def test_without_odometry_nothing_is_held_against_the_camera() -> None:
    watch = RepeatWatch()
    assert not watch.is_repeated(b"picture one", None)
    assert not watch.is_repeated(b"picture one", odometry(x=5.0))
    assert watch.is_repeated(b"picture one", odometry(x=5.1))


def test_a_wall_of_one_colour_is_no_repetition() -> None:
    watch = RepeatWatch()
    wall = bytes((159, 140, 124)) * 100
    for x in (0.0, 0.3, 0.6):
        assert not watch.is_repeated(wall, odometry(x=x))
    assert not watch.is_repeated(b"picture one", odometry(x=0.6))
    assert watch.is_repeated(b"picture one", odometry(x=0.9))
    assert not watch.is_repeated(wall, odometry(x=1.5)), "another wall of its colour"


@pytest.mark.parametrize("colour", [(0, 135, 0), (255, 255, 255)])
def test_one_colour_for_long_is_no_wall(colour: tuple[int, int, int]) -> None:
    """As from a decoder whose stream is cut off, or from an overexposed sensor."""
    picture = bytes(colour) * 100
    for far in (odometry(x=1.2), odometry(yaw=1.2)):
        watch = RepeatWatch()
        assert not watch.is_repeated(picture, odometry())
        assert watch.is_repeated(picture, far)


def test_black_is_no_wall() -> None:
    watch = RepeatWatch()
    assert not watch.is_repeated(bytes(300), odometry())
    assert watch.is_repeated(bytes(300), odometry(x=0.3))


def test_of_a_large_picture_a_change_over_many_bytes_is_seen() -> None:
    watch = RepeatWatch()
    picture = np.resize(np.arange(256, dtype=np.uint8), 25_000_000)
    assert not watch.is_repeated(picture.tobytes(), odometry())
    assert watch.is_repeated(picture.tobytes(), odometry(x=1.0))
    picture[1000:2000] = 7
    assert not watch.is_repeated(picture.tobytes(), odometry(x=1.0))


@pytest.mark.lengthy
@pytest.mark.parametrize("look", ["plain", "dim", "noisy", "all"])
def test_a_home_is_not_black(look: str) -> None:
    for seed in range(6):
        simulator = Simulator(generate_home(seed, placement="hidden"), seed, 0.02, draw_look(look, seed))
        try:
            assert not is_black(simulator.render_camera())
        finally:
            simulator.close()


def test_a_covered_lens_is_black_for_all_its_noise_and_dead_pixels() -> None:
    rng = np.random.default_rng(4)
    picture = np.clip(rng.normal(4.0, 12.0, (480, 640, 3)), 0, 255).astype(np.uint8)
    picture[rng.integers(0, 480, 40), rng.integers(0, 640, 40)] = 255
    assert is_black(picture) and is_black(np.zeros((1080, 1920, 3), np.uint8))
    picture[200:280, 300:380] = 200  # a window at night
    assert not is_black(picture)
