import time

import pytest

from outrider.core.errors import InstructionError
from outrider.core.language.grammar import Vocabulary
from outrider.navigation.goal.instructions import check_instruction

WORDS = Vocabulary(
    {"colour": ("red", "silver", "green"), "kind": ("bottle", "chair", "bin", "cup", "lamp", "vase")}
)


def refusal(text: str) -> str:
    with pytest.raises(InstructionError) as error:
        check_instruction(text, WORDS)
    return str(error.value)


@pytest.mark.parametrize(
    ("said", "trained"),
    [
        ("  Find  the Silver bottle. ", "find the silver bottle"),
        ("Where is my green cup?", "where is my green cup?"),
        ("where is the green cup", "where is the green cup?"),
        ("please find your red vase!", "find the red vase"),
        ("could you find an red lamp for me?", "find the red lamp"),
        ("go to silver chair", "go to the silver chair"),
        ("Turn left, please", "turn left"),
        ("STOP!", "stop"),
    ],
)
def test_what_is_meant_is_told_as_it_was_trained(said: str, trained: str) -> None:
    assert check_instruction(said, WORDS) == trained


@pytest.mark.parametrize("text", ["go home", "faire le tour de l'atelier", "red", "find the fridge"])
def test_a_general_model_takes_any_sentence(text: str) -> None:
    assert check_instruction(text) == text


@pytest.mark.parametrize("text", ["", "   ", "...", "?!", "_"])
@pytest.mark.parametrize("vocabulary", [WORDS, None])
def test_an_empty_instruction(text: str, vocabulary: Vocabulary | None) -> None:
    with pytest.raises(InstructionError, match="empty"):
        check_instruction(text, vocabulary)


@pytest.mark.parametrize("text", ["find\x00the", "find\nthe bottle", "find\x1b[31m the"])
def test_control_characters(text: str) -> None:
    assert "control" in refusal(text)


def test_a_too_long_instruction() -> None:
    assert "201 characters" in refusal("a" * 201)


@pytest.mark.parametrize(
    "text",
    [
        *("go home", "walk home", "find me", "leave me", "red", "red bottle", "bottle", "find", "the", "me"),
        *("find the bottle", "find the red", "find the silver bottle or else", "silver find bottle the"),
        *(
            "find the silver bottle in the kitchen",
            "do not find the red cup",
            "turn around",
            "door left turn",
        ),
    ],
)
def test_known_words_that_are_no_sentence_are_refused(text: str) -> None:
    assert text in refusal(text) or "outrider words" in refusal(text)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("find the sliver botle", "find the silver bottle"),
        ("serch for the rde vase", "search for the red vase"),
        ("find the the red cup", "find the red cup"),
        ("turn lft", "turn left"),
        ("turn left at the dor", "turn left at the door"),
        ("move", "move forward"),
    ],
)
def test_a_near_miss_gets_the_sentence_that_was_meant(said: str, meant: str) -> None:
    assert f'did you mean "{meant}"?' in refusal(said)


@pytest.mark.parametrize(
    ("said", "word"),
    [
        *(("find the fridge", "fridge"), ("go to the kitchen", "kitchen"), ("find me", "me")),
        *(("find the bed", "bed"), ("find my keys", "keys"), ("where is the red mug?", "mug")),
    ],
)
def test_an_unknown_thing_is_named_beside_all_that_are_known(said: str, word: str) -> None:
    message = refusal(said)
    assert f'knows no kind "{word}"' in message and "bottle, chair, bin, cup, lamp, vase" in message
    assert "did you mean" not in message and "outrider words" in message


def test_an_unknown_colour_is_named_beside_all_that_are_known() -> None:
    message = refusal("find the pink bottle")
    assert 'knows no colour "pink"' in message and "red, silver, green" in message and "kind" not in message


def test_a_thing_without_its_colour_or_kind_is_asked_for_it() -> None:
    assert 'names no colour: say it too, such as "find the silver chair"' in refusal("find the chair")
    assert 'names no kind: say it too, such as "find the red bottle"' in refusal("find the red")


def test_far_sentences_get_an_example_in_their_own_words() -> None:
    assert 'such as "find the green lamp"' in refusal("there is a lamp, a green one, over there, I believe")


def test_a_model_without_things_takes_commands_alone() -> None:
    assert check_instruction("turn left", Vocabulary({})) == "turn left"
    with pytest.raises(InstructionError, match="turn left"):
        check_instruction("find the red cup", Vocabulary({}))


@pytest.mark.parametrize("text", ["a " * 100, "bottl " * 33, "x" * 200, "find the " * 20])
def test_the_longest_nonsense_is_refused_at_once(text: str) -> None:
    began_s = time.process_time()
    refusal(text)
    assert time.process_time() - began_s < 0.5
