"""Printed sheets, and nothing else, are removed from pictures for models that cannot read."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from outrider.models.checkpoint.architectures import QWEN2_PICTURES
from outrider.models.checkpoint.configuration import read_config
from outrider.models.checkpoint.preprocessor_config import read_preprocessing
from outrider.models.inputs.images import Preprocessing, decode_jpeg, fit_to_model
from outrider.models.inputs.printed_sheets import sheets_in, without_sheets
from outrider.runtime.datasets.dataset import random_pose
from outrider.simulation.homes.home import generate_home
from outrider.simulation.looks.signs import QR_TEXTS, SIGN_TEXTS, Sign, sign_picture
from outrider.simulation.looks.styles import PLAIN, Look
from outrider.simulation.sign_places import place_signs
from outrider.simulation.simulator import Simulator

WALL = (150, 120, 95)
HEIGHT, WIDTH = 280, 504


def wall() -> NDArray[np.uint8]:
    return np.full((HEIGHT, WIDTH, 3), WALL, np.uint8)


def with_sheet(sheet: NDArray[np.uint8], width: int, left: int = 180, top: int = 70) -> NDArray[np.uint8]:
    """Return the wall with a sheet that is `width` pixels wide."""
    height = round(width * sheet.shape[0] / sheet.shape[1])
    picture = wall()
    small = cv2.resize(sheet, (width, height), interpolation=cv2.INTER_AREA)
    picture[top : top + height, left : left + width] = small
    return picture


def printed(text: str, is_code: bool = False) -> NDArray[np.uint8]:
    return sign_picture(Sign(text, 0.0, 0.0, 0.5, 0.0, 0.8, 0.5, is_code=is_code))


@pytest.mark.parametrize("width", [90, 150])
@pytest.mark.parametrize(
    ("text", "is_code"), [(SIGN_TEXTS[0], False), (SIGN_TEXTS[-1], False), (QR_TEXTS[0], True)]
)
def test_a_sheet_gets_the_colour_of_its_wall(text: str, is_code: bool, width: int) -> None:
    cleaned = without_sheets(with_sheet(printed(text, is_code), width))
    assert np.abs(cleaned.astype(int) - WALL).max() <= 12


def test_a_sheet_at_the_pictures_edge_and_two_beside_each_other_are_taken_out() -> None:
    sheet = cv2.resize(printed(SIGN_TEXTS[0]), (140, 90), interpolation=cv2.INTER_AREA)
    picture = wall()
    picture[0:90, 0:140] = sheet
    picture[120:210, 200:340], picture[120:210, 350:490] = sheet, sheet
    assert np.abs(without_sheets(picture).astype(int) - WALL).max() <= 12


def test_what_a_sheet_hangs_on_stays() -> None:
    """The sheet hangs on a fridge that is nearly as pale."""
    picture = wall()
    picture[30:250, 180:320] = (178, 180, 184)
    bare = picture.copy()
    sheet = cv2.resize(printed(SIGN_TEXTS[0]), (110, 70), interpolation=cv2.INTER_AREA)
    picture[60:130, 195:305] = sheet
    assert np.abs(without_sheets(picture).astype(int) - bare).max() <= 12


@pytest.mark.parametrize(
    ("left", "width", "colour"), [(300, 60, (190, 40, 40)), (262, 4, (30, 150, 140)), (340, 24, (52, 30, 16))]
)
def test_what_is_in_front_of_a_sheet_stays(left: int, width: int, colour: tuple[int, int, int]) -> None:
    """Something wide in front of its print, a thin post in front of it, and a dark frame right next to it."""
    picture, bare = with_sheet(printed(SIGN_TEXTS[10]), 160), wall()
    for one in (picture, bare):
        one[20:260, left : left + width] = colour
    assert np.abs(without_sheets(picture).astype(int) - bare).max() <= 12


@pytest.mark.parametrize(("text", "is_code"), [(SIGN_TEXTS[0], False), (QR_TEXTS[1], True)])
def test_a_sheet_that_is_cut_off_in_its_print_is_taken_out(text: str, is_code: bool) -> None:
    sheet = cv2.resize(printed(text, is_code), (160, 100), interpolation=cv2.INTER_AREA)
    picture = wall()
    picture[0:70, WIDTH - 110 : WIDTH] = sheet[30:, :110]
    assert np.abs(without_sheets(picture).astype(int) - WALL).max() <= 12


@pytest.mark.parametrize("width", [24, 36, 48])
def test_a_sheet_far_off_is_taken_out(width: int) -> None:
    picture = with_sheet(printed(SIGN_TEXTS[0]), width)
    before, after = (np.abs(one.astype(int) - WALL).sum() for one in (picture, without_sheets(picture)))
    assert after < 0.05 * before


def drawn(name: str) -> NDArray[np.uint8]:
    """Return a picture of something pale without print; some of these things are targets."""
    picture = wall()
    if name == "white box":
        picture[100:200, 200:300] = 240
        picture[100:130, 200:300] = 205
    elif name == "screen":
        picture[80:180, 180:330], picture[90:170, 190:320] = 30, 225
    elif name == "shelf":
        picture[60:220, 200:320] = 200
        for top in (75, 125, 175):
            picture[top : top + 35, 210:310] = 60
    elif name == "fridge with a handle":
        picture[40:240, 220:310], picture[100:160, 300:304] = 230, 90
    elif name == "silver cabinet":
        picture[100:200, 180:300] = (168, 174, 185)
        picture[104:196, 239:242] = 60
        for left in (228, 248):
            picture[140:148, left : left + 6] = 70
    elif name == "silver ladder":
        picture[20:240, 200:212], picture[20:240, 250:262] = (168, 174, 185), (168, 174, 185)
        for top in range(40, 230, 30):
            picture[top : top + 8, 200:262] = (168, 174, 185)
    elif name == "chair before a wall":
        picture[60:220, 160:330] = (172, 164, 148)
        picture[120:160, 220:255] = 20
        for left in (220, 232, 249):
            picture[160:200, left : left + 6] = 20
    elif name == "noise":
        picture = np.random.default_rng(1).integers(0, 256, picture.shape).astype(np.uint8)
    elif name == "shine":
        picture[...] = np.linspace(90, 255, WIDTH).astype(np.uint8)[None, :, None]
    return picture


@pytest.mark.parametrize(
    "name",
    [
        "wall",
        "white box",
        "screen",
        "shelf",
        "fridge with a handle",
        "silver cabinet",
        "silver ladder",
        "chair before a wall",
        "noise",
        "shine",
    ],
)
def test_what_has_no_print_stays_as_it_is(name: str) -> None:
    picture = drawn(name)
    assert sheets_in(picture) == []
    assert without_sheets(picture) is picture


@pytest.mark.parametrize("size", [(1, 1), (28, 28), (3, 600), (56, 84)])
def test_any_size_of_picture_will_do(size: tuple[int, int]) -> None:
    for level in (0, 255):
        picture = np.full((*size, 3), level, np.uint8)
        assert without_sheets(picture) is picture


def seen_in(home_seed: int, signs: bool) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.bool_]]]:
    """Return pictures of a home from its start and two random poses, as the model sees them.

    Also returns a mask of the signs in each of them.
    """
    home, rng = generate_home(home_seed, placement="in_view"), np.random.default_rng(home_seed)
    look = Look(signs=place_signs(home)) if signs else PLAIN
    pictures, masks = [], []
    with closing(Simulator(home, look=look)) as simulator:
        names = [simulator.model.geom(geom).name for geom in range(simulator.model.ngeom)]
        of_signs = [geom for geom, name in enumerate(names) if name.startswith("sign/")]
        for pose in (home.start, random_pose(rng, home), random_pose(rng, home)):
            simulator.place(pose)
            pictures.append(decode_jpeg(simulator.frame_jpeg()))
            truly = np.isin(simulator.segment_camera(), of_signs).astype(np.uint8)
            shape = pictures[-1].shape[1::-1]
            masks.append(cv2.resize(truly, shape, interpolation=cv2.INTER_NEAREST) > 0)
    return pictures, masks


@pytest.mark.lengthy
def test_homes_without_signs_look_the_same() -> None:
    touched = [picture for seed in range(40, 52) for picture in seen_in(seed, False)[0] if sheets_in(picture)]
    assert len(touched) <= 1


@pytest.mark.lengthy
def test_in_homes_most_of_the_signs_and_little_else_goes() -> None:
    signs = found = beside = 0
    for seed in range(40, 46):
        for picture, truly in zip(*seen_in(seed, True), strict=True):
            changed = np.any(without_sheets(picture) != picture, axis=2)
            signs += int(truly.sum())
            found += int((changed & truly).sum())
            near = cv2.dilate(truly.astype(np.uint8), np.ones((7, 7), np.uint8)) > 0
            beside += int((changed & ~near).sum())
    assert found > 0.75 * signs > 0
    assert beside < 0.1 * signs


def test_only_models_that_cannot_read_have_them_taken_out() -> None:
    picture = with_sheet(printed(SIGN_TEXTS[0]), 140)
    how = replace(QWEN2_PICTURES, takes_out_sheets=True)
    assert np.abs(fit_to_model(picture, how).astype(int) - WALL).max() <= 12
    assert np.array_equal(fit_to_model(picture, Preprocessing()), picture)


@pytest.mark.parametrize("folder", ["target", "draft"])
def test_the_shipped_pair_cannot_read(folder: str) -> None:
    place = Path(__file__).parents[3] / "models" / folder
    how = read_preprocessing(place, read_config(place), 1024)
    assert how is not None and how.takes_out_sheets
