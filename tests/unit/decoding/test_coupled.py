"""Many rows decided at once are decided as each alone, and noise made on a device matches numpy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from support.choices import choose
from support.held import Held

from outrider.decoding.acceptance.counter_rng import Purpose, uniforms
from outrider.decoding.acceptance.coupled import (
    NUMBERS_AT_ONCE,
    Draw,
    Draws,
    columns_of,
    decide,
    decide_exit,
    decide_exit_here,
    decide_there,
    draws_on,
    noise_here,
    noise_there,
    two_passes,
)
from outrider.decoding.acceptance.philox import BLOCKS_AT_ONCE, generator_keys, uniform_rows
from outrider.decoding.acceptance.sampling import perturbed
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.models.footprint.step_footprint import CHOICE_WORKSPACE_BYTES

VOCABULARY = 203
SAMPLINGS = (
    Sampling(),
    Sampling(1.0, seed=3),
    Sampling(0.7, 0.8, 5),
    Sampling(0.7, 0.8, 6),
    Sampling(2.0, seed=(1 << 64) - 1, top_k=40),
)
DRAWS = [Draw(sampling, position) for position in (0, 17, 4095) for sampling in SAMPLINGS]


HOST = torch.device("cpu")


def draws_of_all() -> Draws:
    return draws_on(HOST, DRAWS, VOCABULARY)


def random_logits(seed: int = 0) -> torch.Tensor:
    return torch.randn(len(DRAWS), VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 3.0


@pytest.mark.parametrize("count", [1, 4, 203, 4098])
@pytest.mark.parametrize("purpose", [Purpose.NOISE, Purpose.ROUNDING])
def test_a_device_makes_the_generators_bits(count, purpose):
    seeds, positions = [0, 1, (1 << 64) - 1, 1 << 63, 0xDEADBEEF12345678], [0, 4096, 7, 1, 2]
    rows = uniform_rows(generator_keys(seeds, positions, HOST), purpose, count)
    expected = [
        uniforms(seed, purpose, position, count) for seed, position in zip(seeds, positions, strict=True)
    ]
    assert rows.dtype == torch.float64
    assert np.array_equal(rows.numpy(), np.stack(expected))


def test_noise_made_on_a_device_decides_as_the_hosts():
    """The bits are the same; a logarithm may differ in its last digit."""
    drawn = [Draw(Sampling(1.0, seed=seed), position) for seed in range(40) for position in range(25)]
    host = noise_here(drawn, VOCABULARY)
    keys = generator_keys([draw.sampling.seed for draw in drawn], [draw.position for draw in drawn], HOST)
    device = noise_there(keys, VOCABULARY)
    assert torch.allclose(host, device, rtol=1e-14, atol=1e-14)
    logits = torch.randn(len(drawn), VOCABULARY, generator=torch.Generator().manual_seed(1)).double()
    assert torch.equal((logits + host).argmax(-1), (logits + device).argmax(-1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_rows_decide_as_each_alone(dtype):
    logits = random_logits().to(dtype)
    decided = decide(logits, draws_of_all())
    for row, draw, (choice, lead) in zip(logits, DRAWS, decided, strict=True):
        assert choice == choose(row, draw.sampling, draw.position)
        values = (
            row.double() if draw.sampling.temperature == 0.0 else perturbed(row, draw.sampling, draw.position)
        )
        best = values.topk(2).values.double()
        assert lead == float(best[0] - best[1]) * (draw.sampling.temperature or 1.0)


def test_draws_of_any_part_in_any_order_are_equal():
    logits, draws = random_logits(), draws_of_all()
    whole = decide(logits, draws)
    for runs in ([range(11, 12), range(2, 4), range(1)], [range(4), range(4, 15)], [range(7), range(7, 9)]):
        numbers = [number for run in runs for number in run]
        assert decide(logits[numbers], draws.part(runs)) == [whole[number] for number in numbers]
    again = draws.part([range(5, 15)]).part([range(3, 5), range(2)])
    assert decide(logits[[8, 9, 5, 6]], again) == [whole[number] for number in (8, 9, 5, 6)]


def test_a_device_decides_in_its_own_way_what_the_host_does():
    logits, draws = random_logits(3), draws_of_all()
    logits[:, 7] = logits[:, 5] = logits.amax(-1) + 1.0
    logits[2, 9], logits[6, 11] = math.nan, -math.inf
    host = decide(logits, draws)
    choices, leads = columns_of(two_passes(draws.noisy(logits)))
    assert [choice for choice, _ in host] == choices
    assert [lead for _, lead in host] == pytest.approx(draws.in_logits(leads), rel=0.0, abs=0.0, nan_ok=True)
    assert host[0] == host[5] == (5, 0.0)


def test_an_exits_choices_are_copied_to_the_host_unchanged():
    logits, draws = random_logits(4)[2:9, 5:45], draws_of_all().part([range(2, 9)], torch.arange(5, 45))
    assert columns_of(decide_exit(logits, draws)) == decide_exit_here(logits, draws)


def test_an_exit_chooses_on_its_shortlist_as_if_nothing_else_were_there():
    token_ids = torch.tensor([3, 4, 50, 120, 202])
    logits = random_logits(2)[:, : len(token_ids)]
    decided = decide_exit(logits, draws_of_all().part([range(len(DRAWS))], token_ids))
    for row, draw, (choice, sure) in zip(logits, DRAWS, decided.tolist(), strict=True):
        whole = torch.full((VOCABULARY,), -torch.inf)
        whole[token_ids] = row
        assert token_ids[int(choice)] == choose(whole, draw.sampling, draw.position)
        assert sure == pytest.approx(float(row.softmax(0).max()))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_nan_row_changes_no_other_row(value):
    logits, numbers = random_logits(), [1, 6, 11]
    logits[6, 9] = value
    decided = decide(logits[numbers], draws_of_all().part([range(at, at + 1) for at in numbers]))
    assert [math.isnan(lead) for _, lead in decided] == [False, True, False]


def test_noise_and_choices_computed_in_parts_are_equal():
    logits, draws = random_logits(5), draws_of_all()
    keys = generator_keys(list(range(9)), list(range(9)), HOST)
    decided, noise = decide_there(logits, draws), noise_there(keys, VOCABULARY)
    assert columns_of(decided)[0] == [choice for choice, _ in decide(logits, draws)]
    for at_once in (1, 2 * VOCABULARY, 4 * VOCABULARY + 1):
        assert torch.equal(decide_there(logits, draws, at_once), decided)
        assert torch.equal(noise_there(keys, VOCABULARY, at_once // 4), noise)


def test_choosing_needs_no_more_memory_than_documented():
    """Peak memory for many rows at once; here with fewer numbers, in parts smaller by the same factor."""
    num_rows, vocab_size, smaller = 64, 4096, 256
    drawn = [Draw(Sampling(0.7, seed=seed), 3) for seed in range(num_rows)]
    keys = generator_keys([draw.sampling.seed for draw in drawn], [3] * num_rows, HOST)
    logits, documented_bytes = torch.randn(num_rows, vocab_size), CHOICE_WORKSPACE_BYTES // smaller
    with Held() as held:
        noise = noise_there(keys, vocab_size, BLOCKS_AT_ONCE // smaller)
    assert 0.5 * documented_bytes < held.most - 8 * noise.numel() < documented_bytes
    draws = Draws([draw.sampling for draw in drawn], lambda: noise)
    with Held(logits, noise) as held:
        decide_there(logits, draws, NUMBERS_AT_ONCE // smaller)
    assert 0.5 * documented_bytes < held.most < documented_bytes


def test_deciding_leaves_nothing_on_the_host():
    """On the meta device an operation between the host and the device is an error, as on a GPU."""
    drawn = [
        Draw(sampling, position) for position in range(2) for sampling in (Sampling(), Sampling(0.7, seed=2))
    ]
    logits = torch.zeros(4, VOCABULARY, device="meta")
    draws = draws_on(logits.device, drawn, VOCABULARY)
    assert decide_there(logits, draws).device.type == "meta"
    shortlisted = draws.part([range(4)], torch.arange(5, device="meta"))
    assert decide_exit(logits[:, :5], shortlisted).shape == (4, 2)
