"""Prompts: directions, distances, sightings and past steps in words."""

import math

import pytest

from outrider.core.language.prompt import (
    HISTORY_STEPS,
    IMAGE_PLACEHOLDER,
    MEMORY_SLOTS,
    PromptContext,
    Step,
    direction_words,
    metres_words,
    normalise_instruction,
    read_seen_memory,
    render_prompt,
    render_user_text,
    searched_place_memory,
    seen_memory,
)


@pytest.mark.parametrize(
    ("degrees", "words"),
    [
        (0, "ahead"),
        (-8, "ahead"),
        (15, "slightly left"),
        (-45, "right"),
        (90, "far left"),
        (-150, "behind right"),
        (180, "behind"),
        (-179, "behind"),
    ],
)
def test_directions_in_words(degrees, words):
    assert direction_words(math.radians(degrees)) == words


def test_distances_in_half_metres():
    assert [metres_words(d) for d in (0.2, 0.3, 1.26, 4.74)] == ["0.0 m", "0.5 m", "1.5 m", "4.5 m"]


def test_a_sighting_says_what_was_where():
    assert seen_memory("silver bottle", math.radians(75), 3.1) == "saw silver bottle far left 3.0 m"


@pytest.mark.parametrize("degrees", [0, 12, 45, 100, 150, 179, -12, -45, -100, -150])
def test_a_sighting_is_read_back_to_within_its_words(degrees):
    line = seen_memory("cup", math.radians(degrees), 2.6)
    place = read_seen_memory(line)
    assert place is not None and place.what == "cup"
    assert seen_memory(place.what, place.bearing_rad, place.distance_m) == line


def test_another_memory_is_no_sighting():
    assert read_seen_memory(searched_place_memory(0.0, 2.0)) is None
    assert read_seen_memory("saw the light") is None


def test_an_empty_context():
    text = render_user_text(PromptContext("find the red chair"))
    assert text == "task: find the red chair\nmemory: none\nlast: none\nturned: 0"


def test_only_the_newest_steps_and_memories_enter():
    steps = tuple(Step("search", f"turn {i}") for i in range(HISTORY_STEPS + 2))
    memories = tuple(f"place {i}" for i in range(MEMORY_SLOTS + 2))
    text = render_user_text(PromptContext("x", steps, 1234, memories))
    assert "turn 1;" not in text and f"turn {HISTORY_STEPS + 1}" in text
    assert "place 1" not in text and f"place {MEMORY_SLOTS + 1}" in text
    assert text.endswith("turned: 1080")


def test_turning_is_rounded_to_steps_the_model_knows():
    assert render_user_text(PromptContext("x", turned_deg=52)).endswith("turned: 45")
    assert render_user_text(PromptContext("x", turned_deg=53)).endswith("turned: 60")


def test_a_prompt_has_one_picture_and_ends_where_the_answer_begins():
    prompt = render_prompt(PromptContext("find the red chair"))
    assert prompt.count(IMAGE_PLACEHOLDER) == 1
    assert prompt.startswith("<|im_start|>system") and prompt.endswith("<|im_start|>assistant\n")


def test_instructions_are_normalised():
    assert normalise_instruction("  Find THE  red chair!. ") == "find the red chair"
    assert normalise_instruction(["Find", "the", "cup"]) == "find the cup"
