"""End to end over many seeds: real counter-based randomness, toy models, wire formats, discarded drafts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from support.choices import choose, judge_choices
from support.enumeration import texts
from support.rounds import Pair, Round
from support.statistics import fits
from support.toy_models import ToyModel, ToySettings

from outrider.decoding.acceptance.counter_rng import CounterChance, Purpose
from outrider.decoding.acceptance.quantized import draft_distribution, target_distribution
from outrider.decoding.protocol.prefix_digest import extend_digest
from outrider.decoding.protocol.sampling_rules import Sampling

LENGTH = 2
NUM_SEEDS = 900
ROUNDS = {
    "rejection": Round("rejection", 3, with_bonus=True, packed=True),
    "split": Round("split", 2, with_bonus=False, packed=True),
    "sparse": Round("sparse", 2, with_bonus=True, num_head=2, num_draws=1, refills=1, packed=True),
}


def toy_rows(sampling):
    """Return a pair whose draft is wrong about half of the time."""
    target = ToyModel(ToySettings(seed=3, vocab_size=4, eos_bias=0.0))
    draft = ToyModel(ToySettings(seed=3, vocab_size=4, eos_bias=0.0, agreement=0.4))
    return Pair(
        cache(lambda text: target_distribution(target.row(extend_digest(1, text)), sampling)),
        cache(lambda text: draft_distribution(draft.row(extend_digest(1, text)), sampling)),
    )


def step_alone(pair, text, chance):
    return (chance.pick(pair.target(text), Purpose.TARGET, len(text)),)


def write(extend, pair, seed):
    """Return a text of LENGTH tokens, written round by round.

    Drafts after a rejected one are drawn again from the same random bits.
    """
    text = ()
    while len(text) < LENGTH:
        text += extend(pair, text, CounterChance(seed))
    return text[:LENGTH]


PAIR = toy_rows(Sampling(1.0, 0.95))
EXPECTED = texts(lambda text, chance: step_alone(PAIR, text, chance), LENGTH)


@pytest.mark.lengthy
@pytest.mark.parametrize("scheme", ROUNDS)
def test_texts_fit_the_targets_distribution(scheme):
    assert fits([write(ROUNDS[scheme].extend, PAIR, seed) for seed in range(NUM_SEEDS)], EXPECTED)


@pytest.mark.lengthy
def test_coupled_texts_fit_the_targets_distribution():
    sampling = Sampling(1.0, 0.95)

    def extend(pair, text, chance):
        drawn = replace(sampling, seed=chance.seed)
        draft = (choose(pair.draft(text).log(), drawn, len(text)),)
        logits = torch.stack([pair.target(text).log(), pair.target(text + draft).log()])
        outcome = judge_choices(logits, draft, drawn, len(text))
        return (*draft[: outcome.accepted], outcome.next_token)

    pair = toy_rows(Sampling(1.0))
    assert fits([write(extend, pair, seed) for seed in range(NUM_SEEDS)], EXPECTED)


def test_direct_sampling_fits_and_the_draft_does_not():
    assert fits([write(step_alone, PAIR, seed) for seed in range(NUM_SEEDS)], EXPECTED)
    swapped = Pair(PAIR.draft, PAIR.draft)
    assert not fits([write(step_alone, swapped, seed) for seed in range(NUM_SEEDS)], EXPECTED)


@pytest.mark.lengthy
def test_a_head_alone_does_not_fit():
    """Without the tail draws the text is biased, and the bias is large enough for this test."""

    class HeadOnly(Round):
        def _residue_down(self, residue, vocab_size):
            mass = sum(residue.head_probs)
            return type(residue)(
                residue.head_ids, tuple(prob / mass for prob in residue.head_probs), residue.draws
            )

    biased = HeadOnly("sparse", 2, with_bonus=True, num_head=1, num_draws=1, refills=1)
    assert not fits([write(biased.extend, PAIR, seed) for seed in range(NUM_SEEDS)], EXPECTED)


@pytest.mark.parametrize("scheme", ROUNDS)
def test_at_temperature_0_every_scheme_writes_the_greedy_text(scheme):
    pair = toy_rows(Sampling())
    greedy = ()
    while len(greedy) < LENGTH:
        greedy += (int(pair.target(greedy).argmax()),)
    assert {write(ROUNDS[scheme].extend, pair, seed) for seed in range(20)} == {greedy}


@pytest.mark.parametrize("scheme", ROUNDS)
def test_the_same_seed_writes_the_same_text(scheme):
    first, again = ([write(ROUNDS[scheme].extend, PAIR, seed) for seed in range(30)] for _ in range(2))
    assert first == again
    assert len(set(first)) > 1
