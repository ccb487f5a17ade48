"""`outrider words`: the page of all sentences that can be said with a model's vocabulary."""

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.words.things import SHAPES
from outrider.runtime.mission.words import check_sentence, words_text

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


def test_the_words_of_a_model_without_things_list_motions() -> None:
    page = words_text("pair", Vocabulary({}))
    assert "turn left" in page and "to find a thing" not in page


@pytest.mark.parametrize(("sentence", "hints"), [("find my keys", True), ("blah blah", False)])
def test_what_only_a_memory_may_know_is_refused_with_the_way_to_it(sentence: str, hints: bool) -> None:
    vocabulary = Vocabulary(SLOTS, shapes=SHAPES)
    with pytest.raises(InstructionError) as refused:
        check_sentence(sentence, vocabulary)
    assert ("--store" in str(refused.value)) is hints
