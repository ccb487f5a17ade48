import math

import pytest

from outrider.core.actions import ACTION_TEXTS, ActionTable, Answer, Motion, split_answer

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


def test_an_answer_counts_only_once_its_first_line_is_complete():
    assert split_answer("move forward lar") == Answer("", "", "")
    assert split_answer("stop\n") == Answer("stop", "", "")
    assert split_answer("stop\narrived") == Answer("stop", "", "arrived")
    assert split_answer("stop\narrived: here: at last. ") == Answer("stop", "arrived", "here: at last.")
