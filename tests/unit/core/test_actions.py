"""Actions: the motion that each action text means, and when an answer counts."""

import math

import pytest

from outrider.core.language.actions import ACTION_TEXTS, ActionTable, Answer, Motion, split_answer

TABLE = ActionTable()


def test_every_action_text_has_a_motion_and_only_stop_stands_still():
    motions = {text: TABLE.motion(text) for text in ACTION_TEXTS}
    assert len(motions) == 10
    assert [text for text, motion in motions.items() if motion is None] == []
    assert [text for text, motion in motions.items() if motion == Motion()] == ["stop"]


def test_left_is_positive_and_sizes_grow():
    assert TABLE.motion("turn left large") == Motion(turn_rad=math.radians(45))
    assert TABLE.motion("turn right small") == Motion(turn_rad=-math.radians(15))
    assert TABLE.motion("move forward medium") == Motion(forward_m=0.5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "Stop",
        "stop ",
        "stop.",
        "move forward",
        "move forward huge",
        "move  forward small",
        "turn small left",
        "move backward small",
        "turn left small\n",
        "small",
        "forward small",
        "stop\x00",
    ],
)
def test_anything_else_has_none(text):
    assert TABLE.motion(text) is None


def test_a_turn_that_reverses_the_turn_before_it_is_halved():
    assert TABLE.motion("turn right small", "turn left small") == Motion(turn_rad=-math.radians(7.5))
    assert TABLE.motion("turn left large", "turn right small") == Motion(turn_rad=math.radians(22.5))


@pytest.mark.parametrize("previous", ["", "turn left small", "move forward small", "stop", "jump"])
def test_after_anything_else_a_turn_is_whole(previous):
    assert TABLE.motion("turn left small", previous) == TABLE.motion("turn left small")


def test_what_was_done_before_never_makes_an_action_of_another_text():
    assert TABLE.motion("jump", "turn left small") is None
    assert TABLE.motion("move forward large", "turn left small") == Motion(forward_m=0.75)


def test_an_answer_counts_only_once_its_first_line_is_complete():
    assert split_answer("move forward lar") == Answer("", "", "")
    assert split_answer("stop\n") == Answer("stop", "", "")
    assert split_answer("stop\narrived") == Answer("stop", "", "arrived")
    assert split_answer("stop\narrived: here: at last. ") == Answer("stop", "arrived", "here: at last.")
