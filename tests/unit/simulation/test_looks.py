"""Looks: chosen by name and seed, applied to a home without moving anything, and rendered as by a camera."""

from contextlib import closing
from dataclasses import replace

import cv2
import numpy as np
import pytest

from outrider.core.errors import ConfigError
from outrider.core.sensors.camera import JPEG_QUALITY
from outrider.simulation.homes.home import generate_home
from outrider.simulation.looks.scenery import SIZE, texture
from outrider.simulation.looks.styles import LOOKS, PLAIN, Film, Look, checked_looks, develop, draw_look
from outrider.simulation.mjcf import build_model
from outrider.simulation.perception import Eyes
from outrider.simulation.simulator import Simulator

OTHERS = [name for name in LOOKS if name != "plain"]
PICTURE = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)


def frame(look: Look, seed: int = 3) -> np.ndarray:
    with closing(Simulator(generate_home(seed), seed, look=look)) as simulator:
        return cv2.imdecode(np.frombuffer(simulator.frame_jpeg(), np.uint8), cv2.IMREAD_COLOR)


@pytest.mark.parametrize("name", OTHERS)
def test_a_name_and_a_seed_give_one_look_and_each_seed_its_own(name):
    assert draw_look(name, 3) == draw_look(name, 3)
    assert len({draw_look(name, seed) for seed in range(20)}) == 20


def test_plain_is_the_home_as_it_is_built_for_every_seed():
    assert {draw_look("plain", seed) for seed in range(5)} == {PLAIN}
    assert np.array_equal(frame(PLAIN), frame(draw_look("plain", 8)))


def test_a_look_that_is_none_is_refused_with_those_that_are():
    with pytest.raises(ConfigError, match="look 'foggy' is unknown; use plain, textured"):
        checked_looks(["plain", "foggy"])
    with pytest.raises(ConfigError, match="unknown"):
        checked_looks([])


@pytest.mark.lengthy
@pytest.mark.parametrize("name", OTHERS)
def test_a_look_changes_the_picture_and_gives_the_same_one_each_time(name):
    look = draw_look(name, 3)
    assert np.array_equal(frame(look), frame(look))
    assert np.abs(frame(look).astype(int) - frame(PLAIN)).mean() > 5.0


@pytest.mark.lengthy
@pytest.mark.parametrize("name", OTHERS)
def test_a_look_leaves_what_is_where_as_it_is(name):
    home = generate_home(3)
    with closing(Simulator(home)) as plain, closing(Simulator(home, look=draw_look(name, 3))) as dressed:
        seen = [Eyes(simulator).look() for simulator in (plain, dressed)]
        assert plain.scan() == dressed.scan()
    assert {thing.spec for thing in seen[0].objects} == {thing.spec for thing in seen[1].objects}
    assert seen[0].free_m == seen[1].free_m


def test_textures_are_on_every_surface_and_objects_keep_their_colours():
    home = generate_home(3)
    plain, dressed = build_model(home), build_model(home, draw_look("textured", 3))
    for geom in range(dressed.ngeom):
        name = dressed.geom(geom).name
        if name.startswith(("floor/", "wall/", "furniture/", "object/")):
            assert dressed.geom_matid[geom] >= 0, name
        if name.startswith("object/"):
            assert np.array_equal(dressed.geom(name).rgba, plain.geom(name).rgba)


def test_ceilings_lie_over_all_rooms_and_fill_what_was_black_above_the_walls():
    home, ceilings = generate_home(3), replace(PLAIN, ceiling=True)
    model = build_model(home, ceilings)
    names = [model.geom(index).name for index in range(model.ngeom)]
    assert sum(name.startswith("ceiling/") for name in names) == len(home.rooms)
    black, left = ((frame(look, 3).max(-1) < 5).mean() for look in (PLAIN, ceilings))
    assert black > 0.01 and left < black / 4


def test_lamps_are_lights_of_their_own():
    home = generate_home(3)
    assert build_model(home, replace(PLAIN, lamps=2)).nlight == build_model(home).nlight + 2


def test_a_lens_moves_and_tilts_the_camera_and_widens_its_view():
    home = generate_home(3)
    nominal = build_model(home).camera("front")
    lens = replace(PLAIN.lens, focal=0.9, raised_m=0.02, pitch_rad=0.02)
    changed = build_model(home, replace(PLAIN, lens=lens)).camera("front")
    assert changed.fovy[0] > nominal.fovy[0]
    assert changed.pos[2] - nominal.pos[2] == pytest.approx(0.02)
    turned = np.abs(np.dot(changed.quat, nominal.quat))
    assert 2 * np.arccos(turned) == pytest.approx(0.02, rel=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_a_texture_lies_between_its_darkest_and_white(seed):
    made = texture(np.random.default_rng(seed), darkest=0.5)
    assert made.shape == (SIZE, SIZE, 3) and made.dtype == np.uint8
    assert made.min() >= 0.5 * 0.92 * 255 - 1 and made.std() > 1.0


def test_the_plain_film_leaves_every_byte():
    assert develop(PICTURE, Film(), np.random.default_rng(0)) is PICTURE
    assert Film().jpeg_quality == JPEG_QUALITY


@pytest.mark.parametrize(
    ("film", "expected"),
    [
        (Film(exposure=0.5), lambda x: x * 0.5),
        (Film(gamma=0.5), lambda x: x**0.5),
        (Film(balance=(1.0, 1.0, 0.5)), lambda x: x * [1.0, 1.0, 0.5]),
        (Film(contrast=0.8, black=0.1), lambda x: 0.1 + 0.9 * 0.8 * x),
    ],
)
def test_a_film_maps_intensities_by_its_formula(film, expected):
    wanted = 255.0 * np.clip(expected(PICTURE / 255.0), 0.0, 1.0)
    assert np.abs(develop(PICTURE, film, np.random.default_rng(0)) - wanted).max() <= 1.0


def test_noise_has_its_strength_and_blur_takes_detail_away():
    grey = np.full((60, 80, 3), 128, np.uint8)
    noisy = develop(grey, Film(noise=0.05), np.random.default_rng(0))
    assert noisy.std() == pytest.approx(0.05 * 255, rel=0.05)
    assert develop(PICTURE, Film(blur_px=1.0), np.random.default_rng(0)).std() < 0.7 * PICTURE.std()
