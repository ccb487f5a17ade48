import pytest

from outrider.core.errors import InstructionError
from outrider.navigation.instructions import check_instruction

WORDS = {"find", "the", "silver", "bottle", "where", "is", "my", "green", "cup", "go", "to"}


def test_a_good_instruction_is_normalised():
    assert check_instruction("  Find  the Silver bottle. ", WORDS) == "find the silver bottle"
    assert check_instruction("Where is my green cup?", WORDS) == "where is my green cup?"


def test_a_general_model_takes_any_word():
    assert check_instruction("faire le tour de l'atelier") == "faire le tour de l'atelier"


@pytest.mark.parametrize("text", ["", "   ", "...", "?!"])
def test_an_empty_instruction(text):
    with pytest.raises(InstructionError, match="empty"):
        check_instruction(text, WORDS)


@pytest.mark.parametrize("text", ["find\x00the", "find\nthe bottle", "find\x1b[31m the"])
def test_control_characters(text):
    with pytest.raises(InstructionError, match="control"):
        check_instruction(text, WORDS)


def test_a_too_long_instruction():
    with pytest.raises(InstructionError, match="201 characters"):
        check_instruction("a" * 201, WORDS)


def test_every_unknown_word_is_named_once_with_its_neighbours():
    with pytest.raises(InstructionError) as error:
        check_instruction("find the sliver botle botle xyzzy", WORDS)
    message = str(error.value)
    assert '"sliver" (nearest known: silver' in message
    assert message.count('"botle"') == 1 and "bottle" in message
    assert '"xyzzy" (nothing like it)' in message
