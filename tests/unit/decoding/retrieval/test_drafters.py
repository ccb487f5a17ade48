"""What each source proposes, and how they are joined."""

from __future__ import annotations

import pytest

from outrider.decoding.drafting.retrieval.continuation import Continuation, Credit
from outrider.decoding.drafting.retrieval.drafts import PromptLookup, RetrievedDrafts, expected_accepted
from outrider.decoding.drafting.retrieval.suffix import SuffixDrafter

END = 0


def proposed(drafter: SuffixDrafter | PromptLookup, branch: tuple[int, ...] = (), limit: int = 8):
    continuation = drafter.propose(branch, limit)
    return None if continuation is None else continuation.tokens


def test_suffix_drafts_from_the_prompt_from_the_answer_and_from_earlier_texts():
    drafter = SuffixDrafter()
    drafter.begin([1, 2, 3, 4])
    drafter.extend([9, 2, 3])
    assert proposed(drafter) == (4, 9, 2, 3)
    drafter.begin([8])
    assert proposed(drafter) is None
    drafter.extend([9])
    assert proposed(drafter) == (2, 3)
    assert proposed(drafter, (2,), 1) == (3,)


def test_suffix_follows_a_branch_without_keeping_it():
    drafter = SuffixDrafter()
    drafter.begin([1, 2, 3, 1, 2, 4, 1])
    assert proposed(drafter, (2, 3)) == (1, 2, 4, 1)
    assert proposed(drafter) == (2, 4, 1)


def test_suffix_keeps_a_bounded_history_and_prefers_the_longer_match():
    drafter = SuffixDrafter(history_tokens=10)
    drafter.begin([1, 2, 3, 4, 5, 6, 7, 8, 9])
    drafter.begin([3, 7, 4])
    drafter.begin([1, 2, 3])
    assert proposed(drafter, limit=2) == (4, 5)
    drafter.begin([0])
    drafter.extend([3])
    assert proposed(drafter, limit=1) == (7,)
    for token in range(20, 120):
        drafter.begin([token])
    assert drafter.num_tokens < 2 * (10 + 2)
    drafter.extend([3])
    assert proposed(drafter) is None


def test_forgotten_text_is_never_drafted_again():
    drafts = RetrievedDrafts(("suffix", "lookup"), frozenset((END,)))
    drafts.begin([1, 2, 3])
    drafts.forget()
    drafts.begin([7, 1])
    assert list(drafts.likely((), 4)) == []
    drafts.begin([2])
    assert list(drafts.likely((), 4)) == []


def test_lookup_copies_the_first_occurrence_of_the_longest_ngram():
    drafter = PromptLookup()
    drafter.begin([1, 2, 3, 5, 2, 3, 6, 9, 2, 3, 7])
    drafter.extend([4, 2, 3])
    assert proposed(drafter, limit=2) == (5, 2)
    assert proposed(drafter, (6,), limit=2) == (9, 2)
    drafter.begin([5, 6])
    assert proposed(drafter) is None


def test_beliefs_are_calibrated_by_outcomes():
    credit = Credit()
    assert credit.chance("a", 0.9) == pytest.approx(0.9)
    for _ in range(200):
        credit.on_outcome(Continuation("a", (1, 2), (0.9, 0.9)), (1, 3))
        credit.on_outcome(Continuation("a", (1, 2, 5), (0.2, 0.2, 0.9)), (1, 2, 5))
    assert credit.chance("a", 0.9) == pytest.approx(2 / 3, abs=0.08)
    assert credit.chance("a", 0.2) > 0.9
    assert credit.chance("b", 0.9) == pytest.approx(0.9)


def test_nothing_is_learnt_past_the_first_difference():
    credit = Credit()
    for _ in range(50):
        credit.on_outcome(Continuation("a", (1, 2), (0.3, 0.95)), (7, 2))
    assert credit.chance("a", 0.3) < 0.05
    assert credit.chance("a", 0.95) == pytest.approx(0.95)


def test_where_one_source_ends_another_continues():
    drafts = RetrievedDrafts(("suffix",), frozenset((END,)))
    drafts.begin([1, 2, 3])
    drafts.begin([3, 4, 1])
    likely = list(drafts.likely((), 8))
    assert [token for token, _ in likely] == [2, 3, 4, 1, 2, 3, 4, 1]
    assert 0.0 < expected_accepted(likely) < 8.0


def test_sources_are_consulted_lazily(monkeypatch):
    drafts = RetrievedDrafts(("suffix",), frozenset((END,)))
    drafts.begin([1, 2, 3])
    drafts.begin([3, 4, 1])
    asked: list[tuple[int, ...]] = []
    propose = SuffixDrafter.propose
    monkeypatch.setattr(
        SuffixDrafter,
        "propose",
        lambda self, branch, limit: asked.append(tuple(branch)) or propose(self, branch, limit),
    )
    likely = drafts.likely((), 8)
    assert next(likely)[0] == 2
    assert asked == [()]
    assert [token for token, _ in likely] == [3, 4, 1, 2, 3, 4, 1]
    assert len(asked) > 1


def test_nothing_is_proposed_after_the_end_of_a_text():
    drafts = RetrievedDrafts(("suffix",), frozenset((END,)))
    drafts.begin([1, 2, END, 3, 4, 1])
    assert [token for token, _ in drafts.likely((), 8)] == [2, END]
