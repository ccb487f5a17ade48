"""The cloud's store of draft tokens finds the likeliest branch, in whatever order drafts arrive."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.decoding.acceptance.packing import SparseRow
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.cloud import branch_cache
from outrider.decoding.cloud.branch_cache import (
    MAX_CHOICES,
    MAX_TOKENS,
    ROW_TOKENS,
    TOKEN_ENTRIES,
    BranchCache,
)
from outrider.decoding.protocol.branch_codec import Run
from outrider.decoding.protocol.prefix_digest import extend_digest

ROOT = 3
texts = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple), min_size=1, max_size=6)
steady = settings(max_examples=200, deadline=None, derandomize=True)


def after(*tokens: int) -> int:
    return extend_digest(ROOT, tokens)


def add(pool: BranchCache, text: tuple[int, ...], first: int = 0) -> None:
    """Add text[first:] as a branch that continues text[:first]."""
    pool.add_runs(first, after(*text[:first]), [Run(0, text[first:])])


def ends(pool: BranchCache) -> list[tuple[int, ...]]:
    """Return all branches whole, likeliest first; each further choice is half as likely."""
    found = pool.open_ends([((), ROOT, 1.0)], lambda path: True, 999, lambda rank, evidence: 0.5**rank)
    return [path for path, _ in found]


def holds(pool: BranchCache, tokens: tuple[int, ...]) -> bool:
    """Whether some branch begins with the tokens."""
    return any(branch[: len(tokens)] == tokens for branch in ends(pool))


@pytest.mark.lengthy
@steady
@given(texts, st.integers(0, 5), st.randoms(use_true_random=False), st.integers(1, 7))
def test_branches_added_in_any_order_are_found_and_the_first_token_at_each_position_leads(
    offered, cut, rng, limit
):
    pool = BranchCache()
    pieces = [(text[:end], start) for text in offered for start, end in ((0, cut), (cut, len(text)))]
    rng.shuffle(pieces)
    firsts: dict[tuple[int, ...], int] = {}
    for text, start in pieces:
        for at in range(start, len(text)):
            firsts.setdefault(text[:at], text[at])
        if start < len(text):
            add(pool, text, start)
    known = {text[:end] for text in offered for end in range(len(text) + 1)}
    for text in known:
        tokens, evidence = pool.best(after(*text), limit)
        followed = text
        while followed in firsts and len(followed) - len(text) < limit:
            followed += (firsts[followed],)
        assert text + tokens == followed
        assert evidence == (None,) * len(tokens)
        assert all(holds(pool, prefix) for prefix in known)


def test_runs_that_go_back_are_branches_of_one_parent():
    pool = BranchCache()
    pool.add_runs(0, ROOT, [Run(0, (1, 2)), Run(1, (5, 6, 7)), Run(4, (9,))])
    for branch in ((1, 2), (1, 5, 6, 7), (9,)):
        assert holds(pool, branch)
    assert not holds(pool, (1, 2, 5))
    assert not holds(pool, (9, 2))
    assert pool.best(ROOT, 9)[0] == (1, 2)
    assert pool.best(after(1, 5), 1)[0] == (6,)
    assert pool.best(after(1, 2), 9)[0] == ()


def test_a_preferred_run_is_followed_first_and_only_its_first_token_is():
    pool = BranchCache()
    pool.add_runs(0, ROOT, [Run(0, (1, 2)), Run(2, (3, 4))])
    pool.add_runs(0, ROOT, [Run(0, (3, 5), preferred=True)])
    assert pool.best(ROOT, 9)[0] == (3, 4)
    pool.add_runs(0, ROOT, [Run(0, (3,)), Run(0, (5,), preferred=True), Run(2, (1,))])
    assert pool.best(ROOT, 9)[0] == (3, 5), "a token added again without preference keeps its rank"
    pool.add_runs(0, ROOT, [Run(0, (1,), preferred=True)])
    assert pool.best(ROOT, 9)[0] == (1, 2)


def test_evidence_stays_with_its_token_and_the_newest_counts():
    pool = BranchCache()
    pool.add_branch(0, ROOT, (1, 2), (0.1, 0.2))
    pool.add_branch(1, after(1), (2, 3), (0.5, 0.6))
    assert pool.best(ROOT, 9) == ((1, 2, 3), (0.1, 0.5, 0.6))
    assert pool.best(ROOT, 2) == ((1, 2), (0.1, 0.5))
    assert pool.best(ROOT, 0) == ((), ())
    assert pool.best(after(7), 9) == ((), ())


def test_branches_after_shorter_texts_are_dropped():
    pool = BranchCache()
    add(pool, (1, 2, 3))
    pool.keep_after(2, after(1, 2))
    assert pool.best(ROOT, 9)[0] == ()
    assert pool.best(after(1), 9)[0] == ()
    assert pool.best(after(1, 2), 9)[0] == (3,)


def test_the_pool_is_bounded_and_the_oldest_go_first():
    pool = BranchCache()
    add(pool, (1, 2))
    for number in range(MAX_TOKENS):
        pool.add_runs(0, number << 8, [Run(0, (5,))])
    assert pool.best(ROOT, 9)[0] == ()
    assert sum(bool(pool.best(number << 8, 1)[0]) for number in range(2 * MAX_TOKENS)) == MAX_TOKENS
    assert len(pool._nodes) == MAX_TOKENS


def test_digests_that_collide_cost_no_time(monkeypatch):
    """A peer may construct collisions: two tokens per position that share a digest give 2^depth paths."""
    calls = []

    def colliding(digest: int, token: int) -> int:
        calls.append(digest)
        assert len(calls) < 100_000, "the search does not end"
        return digest + 1

    monkeypatch.setattr(branch_cache, "next_digest", colliding)
    pool = BranchCache()
    for token in (1, 2):
        pool.add_branch(0, ROOT, (token,) * 40, (None,) * 40)
    assert pool.best(ROOT, 64)[0] == (1,) * 40


def test_the_number_of_tokens_after_one_text_is_bounded():
    pool = BranchCache()
    for token in range(5 * MAX_TOKENS):
        pool.add_branch(0, ROOT, (token,), (None,))
    assert ends(pool) == [(token,) for token in range(MAX_CHOICES)], "the first are the likeliest"
    pool.add_runs(0, ROOT, [Run(0, (7777,), preferred=True)])
    assert ends(pool) == [(7777,), *[(token,) for token in range(MAX_CHOICES - 1)]]


@pytest.mark.parametrize(("entries", "room"), [(1, ROW_TOKENS), (100 * TOKEN_ENTRIES, ROW_TOKENS + 100)])
def test_tokens_with_distributions_take_more_room(entries, room):
    pool, row = BranchCache(), SparseRow(np.arange(entries), np.full(entries, 1.0 / entries), 2**17)
    for number in range(MAX_TOKENS):
        pool.add_branch(0, number << 8, (5,), (row,))
        pool.add_branch(0, number << 8, (5,), (row,))
    assert sum(bool(pool.best(number << 8, 1)[0]) for number in range(MAX_TOKENS)) == MAX_TOKENS // room
    pool.keep_after(1, after(9))
    add(pool, (1, 2))
    assert pool._size == 2


def chances(rank: int, evidence: float) -> float:
    """Return the probability of a choice of the cloud's draft: `evidence`, halved for each rank after 1."""
    return evidence if not rank else evidence * 0.5 ** (rank - 1)


def test_the_clouds_drafts_after_other_texts_are_dropped():
    pool = BranchCache()
    add(pool, (1, 2, 3))
    for path in ((), (7,), (8,), (7, 9)):
        pool.add_choices(len(path), after(*path), Choices((7 if not path else 9, 8), None, 0.9))
    pool.keep_after(1, after(7))
    assert pool.best(after(7), 9)[0] == (9, 9)
    assert pool.best(after(8), 9)[0] == (), "a draft of another text"
    assert pool.best(after(1), 9)[0] == (2, 3), "of a text that the edge knows more of"


def test_the_likeliest_open_ends_come_first():
    pool, anywhere = BranchCache(), lambda path: True
    assert pool.open_ends([((), ROOT, 1.0)], anywhere, 9, chances) == [((), 1.0)]
    pool.add_choices(0, ROOT, Choices((1, 2, 3), None, 0.7))
    pool.add_choices(1, after(1), Choices((4, 5), None, 0.6))
    ends = pool.open_ends([((), ROOT, 1.0)], anywhere, 9, chances)
    assert [path for path, _ in ends] == [(1, 4), (2,), (1, 5), (3,)]
    assert [chance for _, chance in ends] == pytest.approx([0.42, 0.3, 0.28, 0.15])
    assert pool.open_ends([((), ROOT, 1.0)], anywhere, 2, chances) == ends[:2]
    starts = [((2,), after(2), 0.8), ((), ROOT, 0.2)]
    assert next(iter(pool.open_ends(starts, anywhere, 9, chances))) == ((2,), 0.8), "what an exit predicts"
    short = pool.open_ends([((), ROOT, 1.0)], lambda path: len(path) < 2, 9, chances)
    assert [path for path, _ in short] == [(2,), (3,)]


def test_drafts_ahead_leave_room_for_those_that_are_verified():
    pool = BranchCache()
    while ends := pool.open_ends([((), ROOT, 1.0)], lambda path: True, 12, chances):
        for path, _ in ends:
            pool.add_choices(len(path), after(*path), Choices((1, 2, 3, 4), None, 0.9))
    assert pool._size <= MAX_TOKENS
    assert pool.best(ROOT, 3)[0] == (1, 1, 1), "nothing was dropped"


def test_a_full_cache_accepts_the_clouds_choices_after_its_oldest_text():
    """A robot may fill the pool with one chain that starts at the end of the text."""
    pool = BranchCache()
    pool.add_branch(0, ROOT, (1, *range(2, MAX_TOKENS + 1)), (None,) * MAX_TOKENS)
    pool.add_choices(0, ROOT, Choices((1, MAX_TOKENS + 7), None, 0.9))
    assert pool.best(ROOT, 1)[0] == (1,)
    assert pool._size <= MAX_TOKENS
