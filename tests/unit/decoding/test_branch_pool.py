"""The cloud's store of drafted tokens: whatever the order of arrival, the longest fitting branch is found."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.decoding import branch_pool
from outrider.decoding.branch_pool import MAX_TOKENS, BranchPool
from outrider.decoding.digest import extend_digest

ROOT = 3
texts = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple), min_size=1, max_size=6)
steady = settings(max_examples=200, deadline=None, derandomize=True)


def after(*tokens: int) -> int:
    return extend_digest(ROOT, tokens)


def add(pool: BranchPool, text: tuple[int, ...], first: int = 0) -> None:
    """Offer text[first:] as a branch from what comes before it."""
    pool.add_runs(first, after(*text[:first]), [(0, text[first:])])


@steady
@given(texts, st.integers(0, 5), st.randoms(use_true_random=False), st.integers(1, 7))
def test_pieces_in_any_order_give_the_longest_branch_after_every_text(offered, cut, rng, limit):
    pool = BranchPool()
    pieces = [(text[:end], start) for text in offered for start, end in ((0, cut), (cut, len(text)))]
    rng.shuffle(pieces)
    for text, start in pieces:
        if start < len(text):
            add(pool, text, start)
    known = {text[:end] for text in offered for end in range(len(text) + 1)}
    for text in known:
        tokens, evidence = pool.longest(after(*text), limit)
        longest = max(len(other) - len(text) for other in known if other[: len(text)] == text)
        assert len(tokens) == min(longest, limit)
        assert text + tokens in known
        assert evidence == (None,) * len(tokens)


def test_runs_that_go_back_are_branches_of_one_parent():
    pool = BranchPool()
    pool.add_runs(0, ROOT, [(0, (1, 2)), (1, (5, 6, 7)), (4, (9,))])
    assert pool.longest(ROOT, 9)[0] == (1, 5, 6, 7)
    assert pool.longest(after(1, 2), 9)[0] == ()
    assert pool.longest(after(9), 9)[0] == ()
    assert pool.longest(after(1, 5), 1)[0] == (6,)


def test_of_equally_long_branches_the_newest_is_taken():
    pool = BranchPool()
    for text in ((1, 2), (3, 4), (1, 2)):
        add(pool, text)
        assert pool.longest(ROOT, 9)[0] == text


def test_evidence_stays_with_its_token_and_the_newest_counts():
    pool = BranchPool()
    pool.add_branch(0, ROOT, (1, 2), (0.1, 0.2))
    pool.add_branch(1, after(1), (2, 3), (0.5, 0.6))
    assert pool.longest(ROOT, 9) == ((1, 2, 3), (0.1, 0.5, 0.6))
    assert pool.longest(ROOT, 2) == ((1, 2), (0.1, 0.5))
    assert pool.longest(ROOT, 0) == ((), ())
    assert pool.longest(after(7), 9) == ((), ())


def test_what_lies_before_the_text_is_dropped():
    pool = BranchPool()
    add(pool, (1, 2, 3))
    pool.drop_before(2)
    assert pool.longest(ROOT, 9)[0] == ()
    assert pool.longest(after(1), 9)[0] == ()
    assert pool.longest(after(1, 2), 9)[0] == (3,)


def test_the_pool_is_bounded_and_the_oldest_go_first():
    pool = BranchPool()
    add(pool, (1, 2))
    for number in range(MAX_TOKENS):
        pool.add_runs(0, number << 8, [(0, (5,))])
    assert pool.longest(ROOT, 9)[0] == ()
    assert sum(bool(pool.longest(number << 8, 1)[0]) for number in range(2 * MAX_TOKENS)) == MAX_TOKENS
    assert len(pool._places) == MAX_TOKENS


def test_digests_that_collide_cost_no_time(monkeypatch):
    """A peer may look for collisions: two tokens a place that lead to one place make 2^depth paths."""
    calls = []

    def colliding(digest: int, tokens: tuple[int, ...]) -> int:
        calls.append(digest)
        assert len(calls) < 100_000, "the search does not end"
        return digest + len(tokens)

    monkeypatch.setattr(branch_pool, "extend_digest", colliding)
    pool = BranchPool()
    for token in (1, 2):
        pool.add_branch(0, ROOT, (token,) * 40, (None,) * 40)
    assert pool.longest(ROOT, 64)[0] == (2,) * 40
