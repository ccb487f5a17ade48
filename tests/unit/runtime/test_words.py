"""`outrider words`: a page of all that can be said, by the words of a card."""

from outrider.core.language.grammar import Vocabulary
from outrider.core.language.words.things import SHAPES
from outrider.runtime.mission.words import words_text

SLOTS = {"colour": ("red",), "kind": ("ball", "bed")}


def test_one_shape_of_things_stands_in_every_sentence() -> None:
    page = words_text("pair", Vocabulary(SLOTS))
    assert "  find the <colour> <kind>\n" in page and "<kind>    ball, bed" in page
    assert not any(part in page for part in ("<thing>", "room with", "find any", "<size>", "<side>"))


def test_several_shapes_are_listed_once_with_rooms_and_any() -> None:
    slots = {**SLOTS, "size": ("small", "large"), "side": ("left", "right")}
    page = words_text("pair", Vocabulary(slots, SHAPES, rooms=True))
    for part in (
        *("<size>    small, large", "<side>    left, right", "  <side> <colour> <kind>\n", "  <kind>\n"),
        *("  find the <thing>\n", "  find any <kind>\n", "  go to the room with the <thing>\n"),
    ):
        assert part in page
    assert page.count("\n  find the <") == 1


def test_a_model_without_things_is_told_how_to_move() -> None:
    page = words_text("pair", Vocabulary({}))
    assert "turn left" in page and "to find a thing" not in page
