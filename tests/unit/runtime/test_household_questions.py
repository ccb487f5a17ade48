"""Questions about synthetic households: the prompt has what was recalled, and the answer follows from it."""

from __future__ import annotations

from itertools import islice

from support.memories import WordEmbedder

from outrider.core.language.questions import parts_of
from outrider.runtime.datasets.household_questions import NUM_RECALLED, household_questions
from outrider.training.household import MAX_FACTS


def test_what_is_recalled_is_in_the_prompt_and_answers_the_question():
    asked = list(islice(household_questions(0, WordEmbedder()), 2 * MAX_FACTS))
    for one in asked:
        question, records = parts_of(one.prompt.text)
        assert len(records) == NUM_RECALLED
        places = [record[record.index(" in the ") :].split(",")[0].rstrip(".") for record in records]
        assert any(place in one.answer for place in places)
        assert question.startswith("what did") or question.rstrip("?").split()[-1] in one.answer
    assert len({one.prompt.text for one in asked}) == len(asked)


def test_questions_are_their_seeds():
    first, again, other = (
        [one.prompt.text for one in islice(household_questions(seed, WordEmbedder()), 5)]
        for seed in (3, 3, 4)
    )
    assert first == again != other
