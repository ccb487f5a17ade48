"""Sentences that order a stop, and those that only contain one."""

import pytest
from planner_words import WORDS, refusal

from outrider.core.errors import InstructionError
from outrider.core.language.plan import Stop
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.sentences.stops import says_to_stop


@pytest.mark.parametrize(
    "text",
    [
        *(
            "stop",
            "STOP!!",
            "please stop",
            "stop, then find the red cup",
            "please stop, then find the red cup",
            "robot, please, halt, then turn left",
            "you must stop at once",
            "stpo",
            "halt",
        ),
        *("stopp sofort", "arrête-toi", "para ya", "停下", "stop " * 500, "stop \x00 it", "don't move"),
        "stop blah blah, find the red chair and blah",
    ],
)
def test_a_stop_is_never_refused(text: str) -> None:
    assert says_to_stop(text)
    assert plan_of(text, WORDS).steps == plan_of(text, None).steps == (Stop(),)


@pytest.mark.parametrize(
    "text", ["find the red cup, then stop", "stop at the red chair", "remember that i must stop"]
)
def test_a_stop_within_a_sentence_is_none_by_itself(text: str) -> None:
    assert not says_to_stop(text)


@pytest.mark.parametrize(
    "sentence",
    [
        "go forward and do not move",
        "find the red chair, then don't move",
        "geh vorwärts und beweg dich nicht",
        "avance et ne bouge pas",
        "avanza y no te muevas",
        "前进然后不要动",
    ],
)
def test_to_move_and_not_to_is_refused(sentence: str) -> None:
    with pytest.raises(InstructionError, match="to move and not to"):
        plan_of(sentence, None)


@pytest.mark.parametrize(
    "said",
    [
        "no stop",
        "oh no stop",
        "nein stopp",
        "non stop",
        "不停",
        "enough",
        "hör auf",
        "ça suffit",
        "basta",
        "够了",
        *(
            "emergency!",
            "watch out",
            "careful!",
            "danger",
            "no no no!",
            "stay",
            "brake",
            "turn it off",
            "shut down",
        ),
        *("Notaus!", "Achtung", "nein", "stehen bleiben", "urgence", "au secours", "non!"),
        *("cuidado", "no", "¡emergencia!", "小心", "救命", "不"),
    ],
)
def test_an_exclamation_is_a_stop(said: str) -> None:
    assert plan_of(said, WORDS).steps == (Stop(),)


@pytest.mark.parametrize(
    "said", ["don't stop", "do not stop now", "nicht anhalten", "ne t'arrête pas", "不要停"]
)
def test_a_stop_that_is_denied_is_none(said: str) -> None:
    assert "not to do" in refusal(said)


@pytest.mark.parametrize(
    "said",
    [
        "I don't like this, make it stop",
        "make it stop, I don't want this",
        "please do not hit it, stop",
        "oh no, it doesn't see me, stop it now",
        "never mind, stop",
        "don't! stop!",
        "do not move, halt",
        "nicht weiter, bitte anhalten",
        "ne bouge pas, arrête",
    ],
)
def test_a_negation_of_something_else_denies_no_stop(said: str) -> None:
    assert says_to_stop(said)


@pytest.mark.parametrize(
    "said", ["don't stop", "hey, don't stop now", "please do not ever stop", "nicht anhalten", "不要停"]
)
def test_a_negation_just_before_it_denies_a_stop(said: str) -> None:
    assert not says_to_stop(said)
