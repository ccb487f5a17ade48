"""Theorem 1 and eq. 5 of DRAGON by enumeration: the rules' own code runs on every branch of its decisions."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from support.closed_forms import acceptance_rates, coupled_acceptance_bounds, divergence
from support.enumeration import outcomes, texts

from outrider.core.errors import ConfigError
from outrider.decoding.acceptance.counter_rng import CounterChance, Purpose
from outrider.decoding.acceptance.packing import pack_peer_rows, unpack_peer_rows
from outrider.decoding.acceptance.quantized import PEER_BITS, counts_of, on_grid, unbiased_grid
from outrider.decoding.aggregation.rule import (
    FULL_SHARE,
    SIDES,
    PeerDraft,
    aggregate,
    device_share,
    document_weights,
    likeliest,
    log_sum_exp,
    make_draft,
    mixture,
    owner,
)
from outrider.evaluation.aggregation.bench import zipf_row_bytes

TOLERANCE = 1e-12
SHARES = [0, 1, FULL_SHARE // 5, FULL_SHARE // 2, FULL_SHARE - 1, FULL_SHARE]
SHAPES = {
    "mixed": ([0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]),
    "zeros in both": ([0.6, 0.0, 0.4, 0.0], [0.2, 0.5, 0.3, 0.0]),
    "disjoint": ([0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 0.1, 0.9]),
    "equal": ([0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]),
    "certain": ([0.0, 1.0, 0.0], [0.2, 0.3, 0.5]),
    "both certain": ([0.0, 1.0, 0.0], [0.0, 0.0, 1.0]),
}


def rows_of(shape, bits=PEER_BITS):
    return tuple(on_grid(torch.tensor(probs, dtype=torch.float64), bits) for probs in SHAPES[shape])


def drawn(rows, position, chance):
    """Return both sides' drafts, drawn independently."""
    return tuple(
        PeerDraft(chance.pick(row, Purpose.DRAFT, position, index), row) for index, row in enumerate(rows)
    )


def difference(found, expected):
    return max(abs(found.get(token, 0.0) - prob) for token, prob in enumerate(expected.tolist()))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", SHARES)
def test_algorithm_1_draws_from_the_mixture(shape, share):
    rows = rows_of(shape)
    found = outcomes(lambda chance: aggregate(drawn(rows, 0, chance), share, 0, chance))
    assert difference(found, mixture(rows, share)) < TOLERANCE


@pytest.mark.parametrize("share", SHARES)
def test_texts_of_algorithm_1_are_those_of_the_mixture(share):
    """Texts of three tokens; each side's distribution depends on the text so far."""

    def rows_after(text):
        shift = sum((index + 1) * token for index, token in enumerate(text))
        return tuple(row.roll(shift if side else 2 * shift) for side, row in enumerate(rows_of("mixed")))

    def joined(text, chance):
        drafts = drawn(rows_after(text), len(text), chance)
        return (aggregate(drafts, share, len(text), chance),)

    def direct(text, chance):
        return (chance.pick(mixture(rows_after(text), share), Purpose.NOISE, len(text)),)

    found, expected = texts(joined, 3), texts(direct, 3)
    assert max(abs(found.get(text, 0.0) - prob) for text, prob in expected.items()) < TOLERANCE


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", SHARES)
def test_acceptance_is_that_of_equation_5(shape, share):
    rows = rows_of(shape)

    def kept(chance):
        drafts = drawn(rows, 0, chance)
        token = aggregate(drafts, share, 0, chance)
        return tuple(draft.token == token for draft in drafts)

    found = outcomes(kept)
    for side, rate in enumerate(acceptance_rates(rows, share)):
        assert sum(prob for outcome, prob in found.items() if outcome[side]) == pytest.approx(rate, abs=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("joint", ["apart", "as alike as can be"])
def test_the_owners_draft_is_drawn_from_the_mixture_however_the_drafts_are_joined(shape, share, joint):
    rows = rows_of(shape)

    def selected(chance):
        first, second = (draft.token for draft in drawn(rows, 0, chance))
        if joint != "apart":  # draw the second from the first by rejection: a maximal coupling
            ratio = float(rows[1][first] / rows[0][first])
            if chance.happens(min(1.0, ratio), Purpose.ACCEPT, 0):
                second = first
            else:
                second = chance.pick((rows[1] - rows[0]).clamp(min=0.0), Purpose.RESIDUAL, 0)
        return first if owner(share, 0, chance) == "device" else second

    assert difference(outcomes(selected), mixture(rows, share)) < TOLERANCE


@pytest.mark.parametrize("shape", SHAPES)
def test_no_rule_can_keep_more_drafts_than_the_coupled_ones_greatest(shape):
    """The upper bound is 1 - TV(own, mixture); Algorithm 1 does not exceed it."""
    rows, share = rows_of(shape), FULL_SHARE // 3
    for side, rate in enumerate(acceptance_rates(rows, share)):
        least, greatest = coupled_acceptance_bounds(rows, share, side)
        mixed = mixture(rows, share)
        assert greatest == pytest.approx(float(torch.minimum(rows[side], mixed).sum()))
        assert rate <= greatest + TOLERANCE
        assert least <= greatest


def offsets_of(rows, bits):
    """Return the intervals of (0, 1) within which all offsets round alike, as (midpoint, length)."""
    edges = torch.cat([row.cumsum(0) * 2.0**bits for row in rows])
    cuts = sorted({0.0, 1.0, *((1.0 - edges % 1.0) % 1.0).tolist()})
    return [((low + high) / 2.0, high - low) for low, high in pairwise(cuts)]


@pytest.mark.parametrize("bits", [1, 3, 10])
def test_rounding_is_right_on_average(bits):
    row = torch.tensor([0.4137, 0.0, 0.2811, 0.0013, 0.3039], dtype=torch.float64)
    mean = sum(length * unbiased_grid(row, bits, offset) for offset, length in offsets_of([row], bits))
    assert float((mean - row).abs().max()) < 1e-9
    counts_of(unbiased_grid(row, bits, 1.0 - 2.0**-53), bits)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", SHARES)
def test_theorem_1_holds_for_unsent_distributions(shape, share):
    """Rows are rounded to 8 units and packed; the token still follows the mixture of the full rows."""
    full = tuple(torch.tensor(probs, dtype=torch.float64) for probs in SHAPES[shape])
    pieces = offsets_of(full, 3)
    lengths = torch.tensor([length for _, length in pieces], dtype=torch.float64)

    def compressed(chance):
        offset, _ = pieces[chance.pick(lengths, Purpose.ROUNDING, 0)]
        rows = tuple(unbiased_grid(row, 3, offset) for row in full)
        rows = tuple(row.dense() for row in unpack_peer_rows(pack_peer_rows(rows), 2, len(rows[0])))
        return aggregate(drawn(rows, 0, chance), share, 0, chance)

    assert difference(outcomes(compressed), mixture(full, share)) < 1e-9


def test_top_p_would_break_it():
    """Sending only the nucleus of 0.8, as the public code does, changes the text: the test above can fail."""
    device, cloud = (torch.tensor(probs, dtype=torch.float64) for probs in SHAPES["mixed"])
    nucleus = torch.where(cloud < 0.15, 0.0, cloud)
    rows, full = (device, nucleus / nucleus.sum()), (device, cloud)
    found = outcomes(lambda chance: aggregate(drawn(rows, 0, chance), FULL_SHARE // 2, 0, chance))
    assert difference(found, mixture(full, FULL_SHARE // 2)) > 0.01


def test_drafts_of_equal_distributions_are_equal_when_coupled():
    row = rows_of("mixed")[0]
    for position in range(50):
        drafts = [make_draft(row, "coupled", 7, side, position) for side in SIDES]
        assert drafts[0].token == drafts[1].token and drafts[0].row is None


@pytest.mark.lengthy
@pytest.mark.parametrize("shape", ["mixed", "zeros in both", "certain"])
def test_coupled_drafts_agree_as_often_as_promised(shape):
    rows, share, trials = rows_of(shape), FULL_SHARE // 4, 4000
    kept = [0, 0]
    for position in range(trials):
        chance = CounterChance(11)
        drafts = [
            make_draft(row, "coupled", 11, side, position) for row, side in zip(rows, SIDES, strict=True)
        ]
        token = drafts[SIDES.index(owner(share, position, chance))].token
        kept = [count + (draft.token == token) for count, draft in zip(kept, drafts, strict=True)]
    for side in (0, 1):
        least, greatest = coupled_acceptance_bounds(rows, share, side)
        slack = 5.0 * math.sqrt(0.25 / trials)
        assert least - slack <= kept[side] / trials <= greatest + slack
        assert kept[side] / trials > acceptance_rates(rows, share)[side] - slack


def test_greedy_takes_the_likeliest_of_the_mixture_although_neither_side_does():
    rows = tuple(
        on_grid(torch.tensor(probs, dtype=torch.float64), PEER_BITS)
        for probs in ([0.6, 0.0, 0.4], [0.0, 0.6, 0.4])
    )
    assert [int(row.argmax()) for row in rows] == [0, 1]
    assert likeliest(rows, FULL_SHARE // 2) == 2


def test_weights_come_of_relevance_without_overflow():
    assert log_sum_exp([1000.0, 1000.0]) == pytest.approx(1000.0 + math.log(2.0))
    assert document_weights([0.0, math.log(3.0)]) == pytest.approx((0.25, 0.75))
    assert device_share(800.0, 800.0) == FULL_SHARE // 2
    assert device_share(0.0, 900.0) == 0
    assert device_share(900.0, 0.0) == FULL_SHARE
    assert device_share(math.log(3.0), 0.0) == pytest.approx(0.75 * FULL_SHARE, abs=1)
    with pytest.raises(ConfigError, match="document"):
        document_weights([])


def test_a_distribution_of_a_large_model_takes_less_than_half_a_kilobyte():
    perplexity, num_bytes = zipf_row_bytes(151_936, 1.6)
    assert 10 < perplexity < 20 and num_bytes < 500


def test_divergence_of_equal_rows_is_none():
    assert divergence(rows_of("equal")) == 0.0
    assert divergence(rows_of("disjoint")) == 1.0
