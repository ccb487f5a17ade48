"""Questions as prompts, and documents whose private words are masked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.core.errors import ConfigError
from outrider.core.language.questions import FUNCTION_WORDS, Slots, question_of, question_prompt

QUESTION = "tell me where my hearing aid is"


@pytest.mark.parametrize(
    ("document", "masked"),
    [
        ("my hearing aid lies in the walnut cabinet.", "my hearing aid #1."),
        ("i saw the Hearing aid 5 minutes ago, 2.0 m ahead.", "i #1 the Hearing aid #2."),
        ('i was told 2 days ago: "my hearing-aid is gone".', 'i was #1".'),
        ("the code is 4711-oleander", "the #1"),
        ("😀 日本語 £50 §", "#1"),
        ("#2 is not a slot", "#1"),
        ("where is my aid?", "where is my aid?"),
        ("", ""),
    ],
)
def test_only_words_of_the_question_and_those_that_join_them_stay(document: str, masked: str) -> None:
    slots = Slots(QUESTION)
    assert slots.mask(document) == masked
    assert slots.fill(masked) == document


def test_slots_are_numbered_over_all_documents_and_unknown_ones_say_nothing() -> None:
    slots = Slots(QUESTION)
    assert [slots.mask("my aid broke"), slots.mask("my aid rusts")] == ["my aid #1", "my aid #2"]
    assert slots.fill("#2, #1, #3 and #0; # 1") == "rusts, broke, something and something; # 1"


def test_the_words_of_a_slot_are_not_filled_in_again() -> None:
    slots = Slots("what is it?")
    slots.mask("a #2 b")
    assert slots.fill("#1") == "#2 b"


@pytest.mark.lengthy
@given(st.text(max_size=60), st.text(alphabet="abc my?", max_size=20))
def test_no_word_that_the_question_lacks_is_in_a_masked_document(document: str, question: str) -> None:
    masked = Slots(question).mask(document)
    known = {word.strip(".,;:!?()\"'’-").lower() for word in question.split()} | FUNCTION_WORDS
    for word in masked.split():
        for part in word.replace("#", " #").split():
            plain = part.strip(".,;:!?()\"'’-").lower()
            assert not plain or plain.startswith("#") or plain in known, (document, masked)


def test_a_question_is_read_from_its_prompt_and_nothing_else_is() -> None:
    assert question_of(question_prompt("where\n is it?")) == "where is it?"
    for prompt in (question_prompt("where?", ["a document"]), "where?", question_prompt("")):
        with pytest.raises(ConfigError, match="question"):
            question_of(prompt)
    assert "memory:\none two\nthree\ntask: where?<" in question_prompt("where?", ["one\n two", "three"])
