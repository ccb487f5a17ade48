"""Names on the map: each next to its thing, fully visible, and over no other name if there is room."""

from __future__ import annotations

from itertools import combinations

import pytest

from outrider.runtime.pictures import drawing
from outrider.runtime.pictures.map_labels import Label, overlap, place_labels
from outrider.simulation.homes.home import generate_home
from outrider.simulation.homes.vocabulary import ObjectSpec

SIZE = 200, 100
THING = (90, 40, 110, 60)


def label(of: tuple[int, int, int, int] = THING, width: int = 40) -> Label:
    return Label("silver bottle", width, 10, of)


def test_a_name_stands_below_its_thing_where_there_is_room() -> None:
    ((left, top, right, bottom),) = place_labels([label()], [THING], *SIZE)
    assert top > THING[3] and (left + right) // 2 == 100 and (right - left, bottom - top) == (40, 10)


@pytest.mark.parametrize("of", [(0, 0, 10, 10), (190, 0, 200, 10), (0, 90, 10, 100), (190, 90, 200, 100)])
def test_a_name_at_the_edge_is_whole_and_clear_of_its_thing(of: tuple[int, int, int, int]) -> None:
    ((left, top, right, bottom),) = place_labels([label(of)], [of], *SIZE)
    assert left >= 0 and top >= 0 and right <= SIZE[0] and bottom <= SIZE[1]
    assert overlap((left, top, right, bottom), of) == 0


def test_what_is_taken_moves_a_name_and_a_name_moves_the_next() -> None:
    wall = (0, 62, 200, 66)
    first, second = place_labels([label(), label()], [THING, wall], *SIZE)
    assert first[3] <= THING[1] and overlap(first, wall) == overlap(second, wall) == 0
    assert overlap(first, second) == 0


def test_overlap_is_the_common_area() -> None:
    assert overlap((0, 0, 10, 10), (5, 5, 20, 20)) == 25
    assert overlap((0, 0, 10, 10), (10, 0, 20, 10)) == 0


@pytest.mark.parametrize("seed", range(12))
def test_on_the_map_of_a_film_names_are_whole_and_hardly_ever_cover_each_other(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[int, int, int, int]] = []

    def write(picture: object, text: str, at: tuple[int, int], size_px: float, colour: object) -> None:
        width = drawing.text_width(text, size_px)
        written.append((at[0], at[1] - round(0.85 * size_px), at[0] + width, at[1]))

    monkeypatch.setattr(drawing, "write_text", write)
    home = generate_home(seed, ObjectSpec("bottle", "silver"), "hidden")
    view = drawing.fit_view(448, 440, home, [home.start])
    drawing.draw_map(view, home, [home.start])
    assert len(written) == len(home.furniture) + len(home.standing)
    assert all(left >= 0 and right <= view.width for left, _, right, _ in written)
    covered = sum(overlap(one, other) for one, other in combinations(written, 2))
    assert covered <= 0.02 * sum(overlap(one, one) for one in written)
