"""Proofs by enumeration: every scheme draws its text from the target's distribution, to rounding error.

The schemes' own code runs on every branch of its decisions; nothing is sampled.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from support.closed_forms import total_variation
from support.enumeration import outcomes, texts
from support.rounds import Pair, Round

from outrider.core.errors import ProtocolError
from outrider.decoding.acceptance import rejection, sparse
from outrider.decoding.acceptance.counter_rng import CounterChance, Purpose
from outrider.decoding.acceptance.quantized import (
    DRAFT_BITS,
    TARGET_BITS,
    draft_distribution,
    on_grid,
    target_distribution,
)
from outrider.decoding.acceptance.schemes import certain_row
from outrider.decoding.protocol.sampling_rules import Sampling

TOLERANCE = 1e-12
SHAPES = {
    "mixed": ([0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]),
    "zeros in both": ([0.6, 0.0, 0.4, 0.0], [0.2, 0.5, 0.3, 0.0]),
    "disjoint": ([0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 0.1, 0.9]),
    "equal": ([0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]),
    "certain draft": ([0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 1.0, 0.0]),
    "certain target": ([0.0, 1.0, 0.0, 0.0], [0.3, 0.3, 0.2, 0.2]),
    "three tokens": ([0.2, 0.7, 0.1], [0.5, 0.2, 0.3]),
    "zeros, three tokens": ([0.6, 0.4, 0.0], [0.5, 0.0, 0.5]),
    "five tokens": ([0.4, 0.1, 0.2, 0.05, 0.25], [0.1, 0.3, 0.1, 0.45, 0.05]),
}


def rows_of(shape):
    target, draft = (torch.tensor(probs, dtype=torch.float64) for probs in SHAPES[shape])
    return on_grid(target, TARGET_BITS), on_grid(draft, DRAFT_BITS)


def pair_of(shape):
    """Return models whose distributions depend on the text, so that a mixed-up position or context shows."""
    target, draft = rows_of(shape)

    @cache
    def turned(text):
        shift = sum((index + 1) * token for index, token in enumerate(text))
        return target.roll(shift), draft.roll(shift if len(text) % 2 else 0)

    return Pair(lambda text: turned(text)[0], lambda text: turned(text)[1])


def direct(pair, length):
    """Return the distribution of texts drawn from the target alone, token by token."""
    return texts(lambda text, chance: (chance.pick(pair.target(text), Purpose.TARGET, len(text)),), length)


def largest_difference(first, second):
    return max(abs(first.get(text, 0.0) - second.get(text, 0.0)) for text in {*first, *second})


def assert_exact(pair, round_, length):
    found = texts(lambda text, chance: round_.extend(pair, text, chance), length)
    assert largest_difference(found, direct(pair, length)) < TOLERANCE


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scheme", ["rejection", "split"])
def test_a_token_is_distributed_as_the_targets_own(scheme, shape):
    assert_exact(pair_of(shape), Round(scheme, 1, with_bonus=False), length=1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("num_head", [1, 2, 3, 4, 5])
def test_a_token_of_sparse_is_whatever_the_head(shape, num_head):
    """With refills; after the last refill the whole of P is sent."""
    assert_exact(pair_of(shape), Round("sparse", 1, False, num_head, num_draws=1, refills=1), length=1)


@pytest.mark.parametrize("scheme", ["rejection", "split", "sparse"])
@pytest.mark.parametrize("with_bonus", [True, False])
@pytest.mark.parametrize("shape", ["three tokens", "zeros, three tokens"])
def test_a_text_is_distributed_as_the_targets_own(scheme, with_bonus, shape):
    assert_exact(pair_of(shape), Round(scheme, 2, with_bonus, refills=0), length=2)


@pytest.mark.parametrize("scheme", ["rejection", "split", "sparse"])
@pytest.mark.parametrize(("top_k", "top_p"), [(1, 1.0), (2, 1.0), (3, 0.8), (3, 1.0)])
def test_a_text_is_the_targets_own_where_each_side_keeps_its_likeliest_tokens(scheme, top_k, top_p):
    """Target and draft keep different tokens, and some of them are equally likely."""
    sampling = Sampling(1.0, top_p, top_k=top_k)

    @cache
    def logits(text, side):
        rows = {"target": [0.0, 1.0, 1.0, -0.5], "draft": [0.5, 0.5, -1.0, 0.5]}
        return torch.tensor(rows[side]).roll(sum(text) + len(text))

    pair = Pair(
        lambda text: target_distribution(logits(text, "target"), sampling),
        lambda text: draft_distribution(logits(text, "draft"), sampling),
    )
    kept = direct(pair, 2)
    assert len([chance for chance in kept.values() if chance]) <= top_k**2
    assert_exact(pair, Round(scheme, 2, with_bonus=True, refills=0), length=2)


@pytest.mark.parametrize("scheme", ["rejection", "split", "sparse"])
@pytest.mark.parametrize("with_bonus", [True, False])
def test_retrieved_tokens_among_drawn_ones_leave_the_text_the_targets_own(scheme, with_bonus):
    """Depending on the text, the draft token is certain, likely or impossible for the target, or drawn."""
    drawn = pair_of("zeros, three tokens")

    def draft(text):
        marker = 2 * len(text) + sum(text)
        return certain_row(marker % 3, 3) if marker % 4 != 1 else drawn.draft(text)

    joined = Pair(drawn.target, draft)
    assert_exact(joined, Round(scheme, 2, with_bonus, refills=0), length=3)


@pytest.mark.parametrize("scheme", ["rejection", "split"])
def test_a_chunk_of_three_tokens(scheme):
    assert_exact(pair_of("three tokens"), Round(scheme, 3, with_bonus=True), length=4)


@pytest.mark.parametrize("num_head", [1, 2, 3])
@pytest.mark.parametrize(("num_draws", "refills"), [(1, 0), (1, 2), (2, 1), (3, 0)])
def test_every_turn_of_sparse_returns_in_proportion_to_the_excess(num_head, num_draws, refills):
    """After t turns, norm((P - Q)+) is returned with probability 1 - L^t. So the endless loop is exact."""
    target, draft = rows_of("five tokens")
    excess = (target - draft).clamp_min(0.0)
    head = sparse.head_of(target, num_head)
    budget = float(excess[head].sum()) + 1.0 - float(target[head].sum())
    go_on = 1.0 - float(excess.sum()) / budget
    turns = num_draws * (refills + 1)

    def program(chance):
        residue = sparse.sparse_residue(target, 0, chance, num_head, num_draws)
        token = sparse.resample_sparse(residue, draft, 0, chance)
        for _ in range(refills):
            if token is not None:
                break
            more = sparse.tail_draws(target, head, 0, chance, residue.draws.end, num_draws)
            residue = replace(residue, draws=more)
            token = sparse.resample_sparse(residue, draft, 0, chance)
        return token

    found = outcomes(program)
    returned = (1.0 - go_on**turns) * excess / excess.sum()
    for token, prob in enumerate(returned.tolist()):
        assert found.get(token, 0.0) == pytest.approx(prob, abs=TOLERANCE)
    assert found[None] == pytest.approx(go_on**turns, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("shape", "num_head"), [("mixed", 1), ("five tokens", 1), ("five tokens", 2), ("certain draft", 1)]
)
def test_a_head_alone_would_bias_the_text(shape, num_head):
    """PicoSpec as printed is biased, within the bound of its error. So the proofs above can fail."""
    target, draft = rows_of(shape)
    head = sparse.head_of(target, num_head)
    tail_mass = 1.0 - float(target[head].sum())

    def program(chance):
        drafted = chance.pick(draft, Purpose.DRAFT, 0)
        if rejection.count_accepted(target[None], [float(draft[drafted])], [drafted], 0, chance):
            return drafted
        kept = torch.zeros_like(target)
        kept[head] = target[head]
        return rejection.resample(kept, draft, 0, chance)

    found = torch.zeros_like(target)
    for token, prob in outcomes(program).items():
        found[token] = prob
    assert 1e-3 < total_variation(target, found) <= tail_mass


def test_the_inverted_ratio_would_bias_the_text():
    """DSSD's Algorithm 2 as printed accepts with min(1, Q / P)."""
    target, draft = rows_of("mixed")

    def program(chance):
        drafted = chance.pick(draft, Purpose.DRAFT, 0)
        ratio = float(draft[drafted] / target[drafted])
        if chance.happens(min(1.0, ratio), Purpose.ACCEPT, 0):
            return drafted
        return rejection.resample(target, draft, 0, chance)

    wrong = outcomes(program)
    assert max(abs(wrong[token] - float(target[token])) for token in wrong) > 0.1


def test_dropping_an_unlikely_draft_would_bias_the_text():
    """A draft may be cut short because of Q, but never because of the token that was drawn."""
    pair = pair_of("three tokens")

    def confident_only(text, chance):
        drafted = chance.pick(pair.draft(text), Purpose.DRAFT, len(text))
        if float(pair.draft(text)[drafted]) < 0.4:
            return (chance.pick(pair.target(text), Purpose.TARGET, len(text)),)
        return Round("split", 1, with_bonus=False).extend(pair, text, chance)

    assert largest_difference(texts(confident_only, 1), direct(pair, 1)) > 0.05


def test_impossible_reports_are_refused():
    target, _ = rows_of("mixed")
    chance = CounterChance(0)
    with pytest.raises(ProtocolError, match="probability 0"):
        rejection.judge_split(target[None], [0.0], [1], 3, chance, False)
    with pytest.raises(ProtocolError, match="the same"):
        rejection.resample(target, target, 3, chance)
    residue = sparse.sparse_residue(target, 3, chance, 4, 2)
    with pytest.raises(ProtocolError, match="the same"):
        sparse.resample_sparse(residue, target, 3, chance)


def test_a_choice_follows_a_whole_draft_only_where_there_is_a_bonus() -> None:
    decided = [(4, 1.0), (5, 2.0), (6, 0.5)]
    assert rejection.judge_decided(decided, (4, 5))[:2] == (2, 6)
    assert rejection.judge_decided(decided, (4, 5), with_bonus=False)[:2] == (2, None)
    assert rejection.judge_decided(decided, (4, 9), with_bonus=False)[:2] == (1, 5)
