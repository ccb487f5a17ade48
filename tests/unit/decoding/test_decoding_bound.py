"""The bound on all schedules: against closed forms, and against a simulated policy."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from outrider.decoding.theory import expected_tokens
from outrider.evaluation.decoding.schedule_bound import Conditions, best_tokens_per_s

BASE = Conditions(
    draft_token_s=0.07,
    step_s=0.35,
    verify_s=0.4,
    round_trip_s=0.24,
    acceptance_rate=0.73,
    second_choice=0.5,
    predicted=(0.3, 0.3),
    exit_fractions=(0.3, 0.6),
)


def test_a_useless_draft_leaves_one_token_a_step() -> None:
    useless = replace(BASE, acceptance_rate=0.0, second_choice=0.0, predicted=(), exit_fractions=())
    assert best_tokens_per_s(useless, 4) == pytest.approx(1.0 / BASE.step_s)


def test_a_perfect_and_instant_draft_fills_every_verification() -> None:
    perfect = replace(BASE, acceptance_rate=1.0, draft_token_s=1e-3, round_trip_s=0.0)
    assert best_tokens_per_s(perfect, 4) == pytest.approx(5.0 / BASE.verify_s, rel=1e-3)


def test_a_perfect_draft_is_as_quick_as_its_own_tokens_at_most() -> None:
    slow = replace(BASE, acceptance_rate=1.0, draft_token_s=0.2)
    assert 0.999 / slow.draft_token_s < best_tokens_per_s(slow, 8) < 1.02 / slow.draft_token_s


def test_without_delays_each_draft_token_adds_its_acceptance_rate() -> None:
    instant = replace(BASE, draft_token_s=1e-4, round_trip_s=0.0, predicted=(), exit_fractions=())
    right = instant.acceptance_rate + (1.0 - instant.acceptance_rate) * instant.second_choice
    gains = max(1.0 / instant.step_s, (1.0 + right) / instant.verify_s)
    assert best_tokens_per_s(instant, 1) == pytest.approx(gains, rel=1e-3)


@pytest.mark.parametrize(
    "kinder",
    [
        replace(BASE, round_trip_s=0.1),
        replace(BASE, acceptance_rate=0.8),
        replace(BASE, second_choice=0.9),
        replace(BASE, predicted=(0.5, 0.3)),
        replace(BASE, exit_fractions=(0.1, 0.3)),
        replace(BASE, draft_token_s=0.05),
        replace(BASE, verify_s=0.36),
    ],
)
def test_better_conditions_raise_the_bound(kinder: Conditions) -> None:
    assert best_tokens_per_s(kinder, 6) > best_tokens_per_s(BASE, 6)


def test_the_bound_is_at_least_that_of_waiting_for_every_chunk() -> None:
    far = replace(BASE, draft_token_s=1.0, step_s=100.0, verify_s=1.0, round_trip_s=12.0)
    far = replace(far, acceptance_rate=0.9, second_choice=0.0, predicted=(), exit_fractions=())
    assert best_tokens_per_s(far, 8) > expected_tokens(0.9, 8) / (12.0 + 8.0 + 1.0)


def test_rounding_makes_no_wait_longer() -> None:
    near = replace(BASE, draft_token_s=1.0, step_s=1e6, verify_s=0.5, round_trip_s=0.001)
    near = replace(near, acceptance_rate=0.5, second_choice=0.0, predicted=(), exit_fractions=())
    assert best_tokens_per_s(near, 1) >= 1.5 / 1.501


def test_a_sure_hint_is_never_worth_less_than_what_was_foreseen() -> None:
    """A draft that is always right but slow does not keep a schedule from using an exit that is right."""
    hinted = replace(BASE, draft_token_s=0.3, round_trip_s=0.0, predicted=(1.0,), exit_fractions=(0.0,))
    foreseen = replace(hinted, acceptance_rate=1.0)
    assert best_tokens_per_s(foreseen, 1) >= best_tokens_per_s(replace(hinted, second_choice=0.0), 1)


def test_no_simulated_policy_exceeds_the_bound() -> None:
    for least in (1, 2, 3):
        assert _played_out(BASE, least, random.Random(least)) < best_tokens_per_s(BASE, 8) * 1.01


def test_a_simple_policy_comes_near_the_bound() -> None:
    """So the bound is not far above what a schedule can reach."""
    best = max(_played_out(BASE, least, random.Random(least)) for least in (1, 2, 3))
    assert best > 0.9 * best_tokens_per_s(BASE, 8)


def _played_out(given: Conditions, least: int, rng: random.Random) -> float:
    """Return the simulated tokens per second of a simple policy.

    If at least `least` draft tokens have arrived, verify them; otherwise step. Hints are used.
    """
    now_s = tokens = known_s = 0.0
    used = 0
    for _ in range(20_000):
        arrived = int((now_s - known_s - given.round_trip_s) / given.draft_token_s + 1e-9) - used
        drafted = min(8, arrived) if arrived >= least else 0
        duration_s = given.verify_s if drafted else given.step_s
        accepted = 0
        while accepted < drafted and _foreseen(given, rng):
            accepted += 1
        covered = accepted == drafted and _foreseen(given, rng)
        now_s += duration_s
        tokens += accepted + 1
        used += accepted + 1
        if not covered:
            used, known_s = 0, now_s - _foreknown_s(given, duration_s, rng)
    return tokens / now_s


def _foreseen(given: Conditions, rng: random.Random) -> bool:
    """Return whether the next token is the draft's first or second choice, at random."""
    return rng.random() < given.acceptance_rate or rng.random() < given.second_choice


def _foreknown_s(given: Conditions, duration_s: float, rng: random.Random) -> float:
    luck = rng.random()
    for chance, fraction in zip(given.predicted, given.exit_fractions, strict=True):
        if luck < chance:
            return duration_s * (1.0 - fraction)
        luck -= chance
    return 0.0
