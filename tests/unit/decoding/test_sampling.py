"""Temperature, top-k, top-p, grids, and the coupled choice."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.choices import choose, judge_choices
from support.closed_forms import (
    coupled_acceptance_bound,
    coupled_acceptance_rate,
    rejection_acceptance_rate,
    total_variation,
)
from support.statistics import fits

from outrider.core.errors import ConfigError, ModelError
from outrider.decoding.acceptance.counter_rng import gumbel_noise
from outrider.decoding.acceptance.quantized import (
    DRAFT_BITS,
    TARGET_BITS,
    counts_of,
    on_grid,
    target_distribution,
)
from outrider.decoding.acceptance.sampling import perturbed, probabilities, unchecked_scores
from outrider.decoding.protocol.sampling_rules import Sampling

logit_rows = st.lists(st.floats(-8.0, 8.0), min_size=2, max_size=8).map(torch.tensor)
distributions = st.lists(st.sampled_from([0.0, 0.01, 0.5, 1.0, 3.0]), min_size=4, max_size=4).filter(any)
samplings = st.builds(
    Sampling,
    st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    st.sampled_from([0.3, 0.9, 1.0]),
    st.integers(0, 99),
    st.integers(0, 3),
)


def normalised(values):
    row = torch.tensor(values, dtype=torch.float64)
    return row / row.sum()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", 101),
        ("temperature", "1"),
        ("top_p", 0.0),
        ("top_p", 1.01),
        ("top_p", True),
        ("seed", -1),
        ("seed", 1 << 64),
        ("top_k", -1),
        ("top_k", 2.0),
        ("top_k", True),
        ("top_k", (1 << 20) + 1),
        ("seed", 1.0),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(field, value):
    with pytest.raises(ConfigError, match=f"{field}={value!r}"):
        Sampling(**{field: value})


@given(logit_rows, st.sampled_from([0.2, 1.0, 3.0]), st.sampled_from([0.1, 0.5, 0.9, 1.0]))
def test_top_p_keeps_the_smallest_likeliest_set(logits, temperature, top_p):
    everything = torch.softmax(logits.double() / temperature, 0)
    kept = probabilities(logits, Sampling(temperature, top_p))
    order = everything.argsort(descending=True, stable=True)
    size = int(kept.count_nonzero() if top_p < 1.0 else len(order))
    assert everything[order[:size]].sum() >= top_p - 1e-12
    assert everything[order[: size - 1]].sum() < top_p + 1e-12
    expected = torch.zeros_like(everything)
    expected[order[:size]] = everything[order[:size]]
    assert torch.allclose(kept, expected / expected.sum(), atol=1e-12)


@given(
    st.lists(st.sampled_from([-2.0, 0.0, 0.5, 3.0]), min_size=1, max_size=9),
    st.integers(1, 10),
    st.sampled_from([0.3, 0.8, 1.0]),
)
def test_top_k_keeps_exactly_the_likeliest_and_top_p_is_of_these(values, top_k, top_p):
    """Of equal ones the lowest ids are kept: target and draft keep the same tokens on every device."""
    logits = torch.tensor(values)
    kept = probabilities(logits, Sampling(1.0, top_p, top_k=top_k))
    order = sorted(range(len(values)), key=lambda token: (-values[token], token))[:top_k]
    alone = torch.full_like(logits, -torch.inf)
    alone[order] = logits[order]
    assert torch.allclose(kept, probabilities(alone, Sampling(1.0, top_p)), atol=1e-15)
    assert top_p < 1.0 or int(kept.count_nonzero()) == min(top_k, len(values))


def test_top_k_of_long_rows_of_batches_and_of_broken_ones():
    rows = torch.randn(3, 20_000, generator=torch.Generator().manual_seed(1)).round(decimals=2)
    kept = probabilities(rows, Sampling(0.7, top_k=50))
    assert kept.count_nonzero(dim=-1).tolist() == [50] * 3
    assert torch.equal(kept[1], probabilities(rows[1], Sampling(0.7, top_k=50)))
    nucleus = probabilities(rows, Sampling(0.7, 0.5, top_k=50))
    assert bool((kept[nucleus > 0] > 0).all())
    assert nucleus.count_nonzero(dim=-1).max() < 50
    broken = torch.tensor([0.0, torch.nan, 2.0])
    assert bool(unchecked_scores(broken, Sampling(1.0, top_k=1)).isnan().any())
    with pytest.raises(ModelError, match="NaN or inf"):
        judge_choices(broken[None], (), Sampling(1.0, top_k=2), 0)


def test_probabilities_of_batches_and_of_extreme_logits():
    logits = torch.tensor([[0.0, 1e4, -torch.inf], [2.0, 2.0, 2.0]])
    for sampling in (Sampling(1.0), Sampling(1e-300), Sampling(1.0, 0.5)):
        rows = probabilities(logits, sampling)
        assert rows[0].tolist() == [0.0, 1.0, 0.0]
        assert torch.allclose(rows[1], probabilities(logits[1], sampling))
    assert probabilities(logits, Sampling(1.0, 0.5))[1].tolist() == [0.5, 0.5, 0.0]
    assert probabilities(logits, Sampling())[1].tolist() == [1.0, 0.0, 0.0]
    assert choose(logits[1], Sampling(), 0) == 0


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_nan_logits_are_an_error(broken):
    logits = torch.tensor([[0.0, 1.0, 2.0], [0.0, broken, 2.0]])
    with pytest.raises(ModelError, match="NaN or inf"):
        probabilities(logits, Sampling(1.0))
    with pytest.raises(ModelError, match="NaN or inf"):
        judge_choices(logits, (2,), Sampling(1.0), 0)
    if broken != broken:
        with pytest.raises(ModelError, match="NaN or inf"):
            judge_choices(logits, (2,), Sampling(), 0)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=9).filter(any), st.sampled_from([16, 32]))
def test_a_gridded_distribution_is_exact_and_near(values, bits):
    probs = normalised(values)
    gridded = on_grid(probs, bits)
    assert int(counts_of(gridded, bits).sum()) == 1 << bits
    assert float((gridded - probs).abs().max()) < 2.0**-bits
    assert not bool(gridded[probs == 0.0].any())
    assert torch.equal(on_grid(gridded, bits), gridded)


def test_the_targets_grid_is_within_its_bound():
    logits = torch.randn(20_000, generator=torch.Generator().manual_seed(0)) * 4
    gridded = target_distribution(logits, Sampling(1.0))
    assert 0.0 < total_variation(gridded, probabilities(logits, Sampling(1.0))) <= 20_000 * 2.0**-33


def test_probabilities_below_the_grid_are_dropped():
    for row in ([0.5, 0.4], [1.5, -0.5], [2.0**-20, 1.0 - 2.0**-20]):
        with pytest.raises(ValueError, match="grid of 16 bits"):
            counts_of(torch.tensor(row, dtype=torch.float64), DRAFT_BITS)
    counts_of(torch.tensor([2.0**-20, 1.0 - 2.0**-20], dtype=torch.float64), TARGET_BITS)


@pytest.mark.parametrize("sampling", [Sampling(0.7, 1.0), Sampling(1.0, 0.8), Sampling(1.0, 0.9, top_k=3)])
def test_the_coupled_choice_is_distributed_as_the_target(sampling):
    logits = torch.tensor([1.0, 0.0, 2.0, -1.0, 0.5])
    chosen = [choose(logits, replace(sampling, seed=seed), 5) for seed in range(2000)]
    assert fits(chosen, dict(enumerate(probabilities(logits, sampling).tolist())))
    assert not fits(chosen, dict(enumerate(probabilities(logits, Sampling(1.3)).tolist())))


def test_coupled_choices_agree_as_often_as_theory_says():
    target, draft = torch.tensor([1.0, 0.0, 2.0, -1.0]), torch.tensor([0.0, 0.5, 1.5, 1.0])
    agreed = [
        choose(target, sampling, 7) == choose(draft, sampling, 7)
        for sampling in (Sampling(1.0, 1.0, seed) for seed in range(2000))
    ]
    rows = [probabilities(logits, Sampling(1.0)) for logits in (target, draft)]
    rate, bound = coupled_acceptance_rate(*rows), coupled_acceptance_bound(*rows)
    assert fits(agreed, {True: rate, False: 1.0 - rate})
    assert sum(agreed) / len(agreed) >= bound
    assert not fits(agreed, {True: rate - 0.1, False: 1.1 - rate})


@given(distributions, distributions)
def test_the_coupled_bound_holds(target, draft):
    rows = normalised(target), normalised(draft)
    assert total_variation(*rows) == pytest.approx(1.0 - rejection_acceptance_rate(*rows))
    rate = coupled_acceptance_rate(*rows)
    assert coupled_acceptance_bound(*rows) - 1e-12 <= rate <= rejection_acceptance_rate(*rows) + 1e-12


def test_closed_forms_by_hand():
    target, draft = normalised([1, 1, 0, 2]), normalised([0, 1, 1, 2])
    assert total_variation(target, draft) == 0.25
    assert coupled_acceptance_bound(target, draft) == pytest.approx(0.6)
    assert coupled_acceptance_rate(target, draft) == pytest.approx(1 / 5 + 1 / 2.5)
    assert coupled_acceptance_rate(target, target) == pytest.approx(1.0)


@pytest.mark.lengthy
@given(st.integers(0, 10**6), st.lists(st.integers(0, 5), max_size=6), samplings, st.integers(0, 100))
def test_the_coupled_text_does_not_depend_on_the_draft(model_seed, draft, sampling, position):
    logits = torch.randn(len(draft) + 1, 6, generator=torch.Generator().manual_seed(model_seed))
    own = [choose(row, sampling, position + offset) for offset, row in enumerate(logits)]
    outcome = judge_choices(logits, draft, sampling, position)
    assert [*draft[: outcome.accepted], outcome.next_token] == own[: outcome.accepted + 1]
    assert outcome.accepted == len(draft) or draft[outcome.accepted] != own[outcome.accepted]
    assert outcome.residue is None


@given(st.integers(0, 10**6), samplings)
def test_logits_that_move_by_less_than_half_the_margin_choose_alike(model_seed, sampling):
    generator = torch.Generator().manual_seed(model_seed)
    sampling = Sampling(sampling.temperature, 1.0, sampling.seed)
    logits = torch.randn(3, 6, generator=generator, dtype=torch.float64)
    own = [choose(row, sampling, offset) for offset, row in enumerate(logits)]
    margin = judge_choices(logits, own[:2], sampling, 0).margin
    moved = logits + (torch.rand(3, 6, generator=generator) - 0.5) * 0.99 * margin
    assert [choose(row, sampling, offset) for offset, row in enumerate(moved)] == own


def test_the_margin_by_hand():
    logits = torch.tensor([[0.0, 5.0], [3.0, 1.0], [0.0, 0.5]])
    assert judge_choices(logits, (1, 0), Sampling(), 0).margin == 0.5
    assert judge_choices(logits, (1, 1), Sampling(), 0).margin == 2.0
    sampling = Sampling(2.0, 1.0, 3)
    noisy = logits[0].double() / 2.0 + gumbel_noise(3, 9, 2)
    gap = float((noisy[0] - noisy[1]).abs()) * 2.0
    assert judge_choices(logits[:1], (), sampling, 9).margin == pytest.approx(gap)
    assert float(perturbed(logits[0], sampling, 9).argmax()) == float(noisy.argmax())
