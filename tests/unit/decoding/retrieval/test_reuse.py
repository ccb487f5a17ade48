"""Rejected drafts: which run of tokens is kept, where it is drafted again, and for how long."""

from __future__ import annotations

import pytest

from outrider.decoding.drafting.retrieval.drafts import RetrievedDrafts
from outrider.decoding.drafting.retrieval.reuse import LIFETIME, SegmentReuse, longest_run


@pytest.mark.parametrize(
    ("draft", "choices", "run"),
    [
        ([1, 2, 3], [1, 2, 3], (0, 3)),
        ([1, 2, 3, 4, 5, 6], [1, 2, 9, 4, 5, 6], (3, 6)),
        ([1, 2, 3, 4, 5, 6], [1, 2, 9, 4, 5, 9], (0, 2)),
        ([1, 2, 3], [9, 2, 9], ()),
        ([], [], ()),
    ],
)
def test_the_longest_run_of_at_least_two(draft: list[int], choices: list[int], run: tuple[int, ...]):
    assert longest_run(draft, choices) == run


def kept(segment: list[int]) -> SegmentReuse:
    reuse = SegmentReuse()
    reuse.begin([1, 2])
    reuse.keep(segment)
    return reuse


def tokens_of(reuse: SegmentReuse, branch: tuple[int, ...] = (), limit: int = 8) -> tuple[int, ...]:
    proposal = reuse.propose(branch, limit)
    return () if proposal is None else proposal.tokens


def test_a_segment_is_proposed_right_after_its_rejection():
    reuse = kept([5, 6, 7])
    reuse.extend([9])
    assert tokens_of(reuse) == (5, 6, 7)
    assert tokens_of(reuse, limit=2) == (5, 6)
    reuse.extend([8])
    assert tokens_of(reuse) == ()


def test_a_segment_is_proposed_wherever_the_text_reaches_inside_it():
    reuse = kept([5, 6, 7, 8])
    reuse.extend([9])
    assert tokens_of(reuse, (5,)) == (6, 7, 8)
    reuse.extend([5, 6])
    assert tokens_of(reuse) == (7, 8)
    assert tokens_of(reuse, (7,)) == (8,)


def test_the_longer_overlap_decides():
    reuse = kept([6, 1, 5, 6, 2, 3])
    reuse.extend([5, 6])
    assert tokens_of(reuse) == (2, 3)


def test_a_segment_is_dropped_after_its_lifetime_and_with_its_text():
    reuse = kept([5, 6, 7])
    for _ in range(LIFETIME):
        assert reuse.propose((5,), 8) is not None
        reuse.extend([9])
    assert tokens_of(reuse, (5,)) == (6, 7)
    reuse.extend([9])
    assert tokens_of(reuse, (5,)) == ()
    again = kept([5, 6, 7])
    again.begin([1])
    assert tokens_of(again, (5,)) == ()


def test_segments_continue_where_the_other_sources_end():
    drafts = RetrievedDrafts(("suffix", "reuse"), frozenset((0,)))
    drafts.begin([1, 2, 3])
    drafts.keep([7, 8])
    drafts.extend([1])
    assert [token for token, _ in drafts.likely((), 2)] == [2, 3]
    drafts.keep([5, 6])
    drafts.extend([4])
    assert [token for token, _ in drafts.likely((), 8)] == [5, 6]
