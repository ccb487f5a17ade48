"""The shipped reader answers from the memories in its prompt, also with documents on both sides."""

from __future__ import annotations

from itertools import islice

import pytest

from outrider.core.ports import LanguageModel
from outrider.decoding.fakes.replay import ReplayModel
from outrider.evaluation.aggregation.question_corpus import measure_readers_gain
from outrider.evaluation.pair.drafting import TextSet, share_right
from outrider.runtime.datasets.held_out import load_reader_model
from outrider.runtime.datasets.household_questions import household_questions


@pytest.fixture(scope="module")
def reader() -> LanguageModel:
    return ReplayModel(load_reader_model())


def test_most_questions_to_households_it_never_saw_are_answered_word_for_word(reader) -> None:
    asked = list(islice(household_questions(1), 20))
    prompts, answers = tuple(one.prompt for one in asked), tuple(one.answer for one in asked)
    assert share_right(TextSet("questions", "", prompts, False, reader, answers=answers)) >= 0.5


def test_documents_on_both_sides_answer_what_neither_side_can(reader) -> None:
    gain = measure_readers_gain(reader, seed=7, num_towns=1)
    together = gain["both, aggregated"]
    assert together.exact_match >= 0.9
    for alone in (gain["the device alone"], gain["the cloud alone"]):
        assert alone.exact_match <= 0.6 and alone.perplexity > together.perplexity
