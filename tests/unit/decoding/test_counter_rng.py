"""Counter-based randomness: addressing, independence, and inverse-CDF sampling."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.statistics import fits

from outrider.decoding.acceptance.counter_rng import (
    CounterChance,
    Purpose,
    gumbel_noise,
    sample,
    uniform,
    uniforms,
)

weights = st.lists(st.sampled_from([0.0, 1e-9, 0.25, 1.0, 7.0]), min_size=1, max_size=6)


def test_the_bits_are_the_protocols():
    """Both sides must compute the same numbers with any numpy version: these are Philox-4x64-10's."""
    assert uniforms(0, Purpose.NOISE, 0, 3).tolist() == [
        0.011546754286331562,
        0.24154919656271823,
        0.11142585551493822,
    ]
    assert uniform(2**64 - 1, Purpose.TAIL_ACCEPT, 4096, 7) == 0.8917136375857019


@given(st.integers(0, 2**64 - 1), st.sampled_from(Purpose), st.integers(0, 5000), st.integers(0, 40))
def test_each_number_depends_only_on_its_index(seed, purpose, position, first):
    many = uniforms(seed, purpose, position, 6, first)
    assert many.tolist() == [uniform(seed, purpose, position, first + step) for step in range(6)]
    assert many.min() > 0.0
    assert many.max() < 1.0


def test_a_tokens_noise_does_not_depend_on_the_vocabulary():
    longest = gumbel_noise(5, 17, 4099)
    for vocab_size in (1, 2, 3, 4, 5, 7, 8, 31, 1000, 4096):
        assert torch.equal(gumbel_noise(5, 17, vocab_size), longest[:vocab_size])


def test_every_argument_changes_the_number():
    numbers = {
        uniform(seed, purpose, position, index)
        for seed in (0, 1, 2**40)
        for purpose in Purpose
        for position in (0, 1, 2)
        for index in (0, 1, 4, 5)
    }
    assert len(numbers) == 3 * len(Purpose) * 3 * 4


def test_neighbours_are_uniform_and_independent():
    """Over seeds, positions and indices: the coordinates that the engine varies."""
    cells = {(a, b): 1 / 64 for a in range(8) for b in range(8)}

    def pairs(numbers):
        eighths = (np.asarray(numbers) * 8).astype(int).tolist()
        return list(zip(eighths[::2], eighths[1::2], strict=True))

    assert fits(pairs([uniform(seed, Purpose.ACCEPT, 3) for seed in range(3000)]), cells)
    assert fits(pairs([uniform(3, Purpose.DRAFT, position) for position in range(3000)]), cells)
    assert fits(pairs(uniforms(3, Purpose.NOISE, 3, 6000)), cells)


def test_the_noise_is_gumbels():
    uniform_again = torch.exp(-torch.exp(-gumbel_noise(1, 2, 4000)))
    assert fits((uniform_again * 20).long().tolist(), dict.fromkeys(range(20), 1 / 20))


@given(weights.filter(any), st.floats(0.0, 1.0, exclude_min=True, exclude_max=True))
def test_sampling_never_takes_a_token_without_weight(values, number):
    token = sample(torch.tensor(values, dtype=torch.float64), number)
    assert values[token] > 0.0


def test_sampling_by_hand():
    row = torch.tensor([0.0, 1.0, 0.0, 3.0, 0.0], dtype=torch.float64)
    picked = [sample(row, number) for number in (2.0**-53, 0.2499, 0.25, 0.5, 1.0 - 2.0**-53)]
    assert picked == [1, 1, 3, 3, 3]
    with pytest.raises(ValueError, match="sum to zero"):
        sample(torch.zeros(3), 0.5)


def test_events_have_their_probability():
    chance = CounterChance(4)
    events = [chance.happens(0.3, Purpose.ACCEPT, position) for position in range(3000)]
    assert fits(events, {True: 0.3, False: 0.7})
    assert not any(chance.happens(0.0, Purpose.ACCEPT, position) for position in range(100))
    assert all(chance.happens(1.0, Purpose.ACCEPT, position) for position in range(100))
