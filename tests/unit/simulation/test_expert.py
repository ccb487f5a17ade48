"""The expert's texts: what they name, where they say it is, and why another thing is not the target."""

import math
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from outrider.core.language.prompt import PromptContext, Step, seen_memory
from outrider.runtime.datasets.dataset import home_examples
from outrider.simulation.expert import SearchedPlace, answer
from outrider.simulation.homes.vocabulary import ObjectSpec
from outrider.simulation.perception import SeenDoor, SeenObject, View

FREE_M = (1.04, 2.0, 3.14)
FREE_TEXT = "free left 1.0, ahead 2.0, right 3.1 m"
BOTTLE = SeenObject(ObjectSpec("bottle", "silver"), math.radians(21), 2.34, 90)
RED_BOTTLE = SeenObject(ObjectSpec("bottle", "red"), math.radians(-12), 3.0, 60)
SILVER_BALL = SeenObject(ObjectSpec("ball", "silver"), math.radians(2), 3.5, 50)
BLUE_BOX = SeenObject(ObjectSpec("box", "blue"), math.radians(-33), 1.2, 400)
DOOR = SeenDoor(math.radians(9), 2.05, 0.1)
OTHER_DOOR = SeenDoor(math.radians(-36), 4.0, 0.1)
INSTRUCTION = "find the silver bottle"


def said(objects=(), doors=(), context=None, searched=()) -> str:
    view = View(tuple(objects), tuple(doors), FREE_M)
    return answer(view, context or PromptContext(INSTRUCTION), tuple(searched))


def test_an_approach_says_where_the_target_is_and_why_look_alikes_are_not_it():
    text = said([BLUE_BOX, BOTTLE, RED_BOTTLE, SILVER_BALL])
    assert text == (
        "turn left small\napproach: silver bottle left 20 at 2.3 m; "
        "red bottle right 10 at 3.0 m, not silver; silver ball ahead at 3.5 m, no bottle."
    )


def test_with_little_in_view_the_text_names_the_free_distance():
    assert said([BOTTLE]) == f"turn left small\napproach: silver bottle left 20 at 2.3 m; {FREE_TEXT}."
    assert said() == f"turn left large\nsearch: no silver bottle; {FREE_TEXT}."


def test_a_search_lists_what_is_there_instead_and_a_door():
    assert said([BLUE_BOX, RED_BOTTLE], [DOOR], PromptContext(INSTRUCTION, (), 90)) == (
        "turn left large\nsearch: no silver bottle; blue box right 35 at 1.2 m; "
        "red bottle right 10 at 3.0 m, not silver; door left 10 at 2.0 m."
    )


def test_the_way_out_is_the_door_that_leads_to_no_searched_place():
    context = PromptContext(INSTRUCTION, (Step("door", "move forward large"),), 0)
    behind_door = SearchedPlace(math.radians(9), 4.0)
    text = said([], [DOOR, OTHER_DOOR], context, [behind_door])
    assert text == (
        f"turn right medium\ndoor: way out right 35 at 4.0 m; door left 10 at 2.0 m, searched; {FREE_TEXT}."
    )


def recalled(bearing_deg: float, distance_m: float, what: str = "silver bottle", **past) -> PromptContext:
    return PromptContext(
        INSTRUCTION, memories=(seen_memory(what, math.radians(bearing_deg), distance_m),), **past
    )


def test_a_remembered_place_is_faced_and_neared_instead_of_searched_for():
    assert said(context=recalled(-100, 3.1)) == (
        f"turn right large\nrecall: silver bottle was far right 3.0 m; {FREE_TEXT}."
    )
    assert said(context=recalled(15, 2.0)).startswith("turn left small\nrecall: ")
    assert said(context=recalled(3, 2.0)).startswith(
        "move forward large\nrecall: silver bottle was ahead 2.0 m"
    )


def test_what_is_seen_counts_more_than_what_is_remembered():
    assert said([BOTTLE], context=recalled(-100, 3.0)).startswith("turn left small\napproach: ")


def test_the_place_of_another_thing_is_no_place_to_go():
    assert said(context=recalled(-100, 3.0, "red bottle")).startswith("turn left large\nsearch: ")


def test_a_remembered_place_behind_a_wall_is_reached_by_a_door_on_the_way():
    assert FREE_M[1] < 4.0
    assert said(context=recalled(0, 4.0)).startswith("turn right large\ndoor: no way out")
    assert said([], [DOOR], recalled(0, 4.0)).startswith("move forward large\ndoor: way out left 10 at 2.0 m")
    looking = (Step("door", "turn right large"),)
    assert said([], [DOOR], recalled(180, 4.0, steps=looking)).startswith("turn left large\ndoor: no way out")
    assert said([], [DOOR], recalled(180, 4.0, steps=looking, turned_deg=360)).startswith(
        "move forward large"
    )


def test_a_command_is_obeyed_with_what_is_in_view():
    text = said([BLUE_BOX, RED_BOTTLE, SILVER_BALL], context=PromptContext("turn left a little"))
    assert text == (
        "turn left small\nobey: turn left small as told; blue box right 35 at 1.2 m; "
        "red bottle right 10 at 3.0 m."
    )


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(Path(__file__).parents[3] / "models" / "tokenizer")


@pytest.mark.lengthy
def test_the_longest_text_fits_the_models_limit_and_the_mean_is_a_sentence_or_two(tokenizer):
    texts = [query.answer for example in home_examples(4) for query in example.queries]
    lengths = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]
    assert max(lengths) < 96
    assert 30 < sum(lengths) / len(lengths) < 60
