"""The bound on all schedules: against closed forms, and against a policy played out."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace

import pytest

from outrider.decoding.bound import BESIDE, Conditions, best_tokens_per_s, tree_foresight, tree_tokens
from outrider.decoding.theory import expected_tokens

BASE = Conditions(
    draft_token_s=0.07,
    step_s=0.35,
    verify_s=0.4,
    round_trip_s=0.24,
    acceptance_rate=0.73,
    second_choice=0.5,
    foretold=(0.3, 0.3),
    exit_fractions=(0.3, 0.6),
    branch_cost=0.1,
)
FREE = replace(BASE, branch_cost=0.0)


def test_a_useless_draft_leaves_one_token_a_step() -> None:
    useless = replace(BASE, acceptance_rate=0.0, second_choice=0.0, foretold=(), exit_fractions=())
    assert best_tokens_per_s(useless, 4) == pytest.approx(1.0 / BASE.step_s)


def test_a_perfect_and_instant_draft_fills_every_verification() -> None:
    perfect = replace(BASE, acceptance_rate=1.0, draft_token_s=1e-3, round_trip_s=0.0)
    assert best_tokens_per_s(perfect, 4) == pytest.approx(5.0 / BASE.verify_s, rel=1e-3)


def test_a_perfect_draft_is_as_quick_as_its_own_tokens_at_most() -> None:
    slow = replace(BASE, acceptance_rate=1.0, draft_token_s=0.2)
    assert 0.999 / slow.draft_token_s < best_tokens_per_s(slow, 8) < 1.02 / slow.draft_token_s


def test_where_everything_is_there_at_once_a_token_at_a_time_gains_its_chance() -> None:
    instant = replace(BASE, draft_token_s=1e-4, round_trip_s=0.0, foretold=(), exit_fractions=())
    right = instant.acceptance_rate + (1.0 - instant.acceptance_rate) * instant.second_choice
    gains = max(1.0 / instant.step_s, (1.0 + right) / instant.verify_s)
    assert best_tokens_per_s(instant, 1) == pytest.approx(gains, rel=1e-3)


@pytest.mark.parametrize(
    "kinder",
    [
        replace(BASE, round_trip_s=0.1),
        replace(BASE, acceptance_rate=0.8),
        replace(BASE, second_choice=0.9),
        replace(BASE, foretold=(0.5, 0.3)),
        replace(BASE, exit_fractions=(0.1, 0.3)),
        replace(BASE, draft_token_s=0.05),
        replace(BASE, verify_s=0.36),
        replace(BASE, branch_cost=0.0),
    ],
)
def test_kinder_conditions_raise_it(kinder: Conditions) -> None:
    assert best_tokens_per_s(kinder, 6) > best_tokens_per_s(BASE, 6)


def test_no_policy_played_out_exceeds_it() -> None:
    for least in (1, 2, 3):
        assert _played_out(FREE, least, random.Random(least)) < best_tokens_per_s(FREE, 8) * 1.01


def test_a_simple_policy_comes_near_it() -> None:
    """So the bound is no empty one."""
    best = max(_played_out(FREE, least, random.Random(least)) for least in (1, 2, 3))
    assert best > 0.9 * best_tokens_per_s(FREE, 8)


@pytest.mark.parametrize("rate", [0.73, 0.3])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_no_tree_yields_or_foresees_more_than_the_best_of_its_size(depth: int, rate: float) -> None:
    given = replace(BASE, acceptance_rate=rate, second_choice=0.6)
    tokens, foresight = tree_tokens(given, depth), tree_foresight(given, depth)
    for drafted_on in _trees(depth, given):
        levels = [drafted_on[at] for at in range(depth + 1)]
        right = rate + (1.0 - rate) * given.second_choice
        verified, whole = sum(map(len, levels[:depth])) - depth, sum(map(len, levels)) - depth - 1
        assert 1.0 + right * sum(map(sum, levels[:depth])) <= tokens[_size(verified)] + 1e-12
        assert right * sum(levels[depth]) <= foresight[_size(whole)] + 1e-12


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_the_smallest_tree_is_a_chain_and_the_largest_has_every_choice(depth: int) -> None:
    rate = BASE.acceptance_rate
    right = rate + (1.0 - rate) * BASE.second_choice
    chain = 1.0 + right * (expected_tokens(rate, depth - 1) if depth else 0.0)
    assert tree_tokens(BASE, depth)[0] == pytest.approx(chain)
    assert tree_foresight(BASE, depth)[0] == pytest.approx(right * rate**depth)
    assert tree_tokens(BASE, depth)[-1] == pytest.approx(expected_tokens(right, depth))
    assert tree_foresight(BASE, depth)[-1] == pytest.approx(right ** (depth + 1))


def test_where_further_prefixes_cost_all_of_a_forward_little_is_drafted_beside_the_first_choices() -> None:
    alone = replace(FREE, second_choice=0.0)
    dear = replace(BASE, branch_cost=1.0)
    assert best_tokens_per_s(alone, 6) < best_tokens_per_s(dear, 6) < best_tokens_per_s(FREE, 6)


def _size(beside: int) -> int:
    return bisect_right(BESIDE, beside) - 1


def _trees(depth: int, given: Conditions, chance: float = 1.0) -> Iterator[list[list[float]]]:
    """All sets of nodes that can be drafted on and go so deep: of each level the chances of its nodes."""
    for levels in _any_trees(depth, given, chance):
        if all(levels):
            yield levels


def _any_trees(depth: int, given: Conditions, chance: float) -> Iterator[list[list[float]]]:
    if depth == 0:
        yield [[chance]]
        return
    rate = given.acceptance_rate
    choices = chance * rate, chance * (1.0 - rate) * given.second_choice
    below = [[[[]] * depth, *_any_trees(depth - 1, given, choice)] for choice in choices]
    for first, second in itertools.product(*below):
        yield [[chance], *([*ours, *theirs] for ours, theirs in zip(first, second, strict=True))]


def _played_out(given: Conditions, least: int, rng: random.Random) -> float:
    """Tokens per second of: verify what lies there if it is `least` tokens, else step; hints are heeded."""
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
    """Whether the next token is a first or a second choice."""
    return rng.random() < given.acceptance_rate or rng.random() < given.second_choice


def _foreknown_s(given: Conditions, duration_s: float, rng: random.Random) -> float:
    luck = rng.random()
    for chance, fraction in zip(given.foretold, given.exit_fractions, strict=True):
        if luck < chance:
            return duration_s * (1.0 - fraction)
        luck -= chance
    return 0.0
