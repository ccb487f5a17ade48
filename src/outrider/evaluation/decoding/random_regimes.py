# SPDX-License-Identifier: Apache-2.0
"""Conditions drawn at random, which nothing was tuned on: `outrider bench decoding --random-regimes`."""

from __future__ import annotations

import math
import random

from outrider.core.errors import ConfigError
from outrider.evaluation.decoding.regimes import Exits, Layers, Models, Regime

STEP_MS = 100.0
"""Fixed: speeds over `ar` depend only on times as shares of a step."""
NUM_DRAFT_TOKENS = 4
RANGES: dict[str, tuple[float, float]] = {
    "round_trip_ms": (1.0, 600.0),
    "draft_share": (0.02, 1.0),
    "acceptance": (0.4, 0.95),
    "second_choice": (0.2, 0.7),
    "miss_rate": (0.3, 0.8),
    "row_share": (0.001, 0.2),
}
"""Each is drawn log-uniformly. `draft_share`: the time of a draft token, in steps.

`miss_rate`: the share of rounds that no exit predicts. `row_share`: what a row adds to a verification, in
steps; a row of 0.1 % is almost free.
"""
MAX_REGIMES = 1000


def random_regimes(number: int, seed: int) -> dict[str, Regime]:
    """Return `number` regimes by name. A larger number with the same seed begins with the same regimes.

    Raises ConfigError for a number outside 1 to MAX_REGIMES.
    """
    if not 1 <= number <= MAX_REGIMES:
        raise ConfigError(f"random_regimes={number} must be a number from 1 to {MAX_REGIMES}")
    rng = random.Random(f"regimes/{seed}")
    regimes = [_regime({name: _draw(rng, *limits) for name, limits in RANGES.items()}) for _ in range(number)]
    return {f"random-{seed}-{index}": regime for index, regime in enumerate(regimes)}


def _draw(rng: random.Random, low: float, high: float) -> float:
    """Draw log-uniformly, rounded to three digits so that the value can be printed in full."""
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.3g}")


def _regime(drawn: dict[str, float]) -> Regime:
    row_ms = drawn["row_share"] * STEP_MS
    one_way_ms = drawn["round_trip_ms"] / 2.0
    return Regime(
        source="drawn: " + ", ".join(f"{name} {value:g}" for name, value in drawn.items()),
        draft_token_ms=drawn["draft_share"] * STEP_MS,
        step_ms=STEP_MS,
        verify_ms=STEP_MS + NUM_DRAFT_TOKENS * row_ms,
        verify_token_ms=row_ms,
        one_way_up_ms=one_way_ms,
        one_way_down_ms=one_way_ms,
        num_draft_tokens=NUM_DRAFT_TOKENS,
        temperature=0.0,
        acceptance_rate=drawn["acceptance"],
        second_choice=drawn["second_choice"],
        exits=Exits(number=7, miss_rate=drawn["miss_rate"], average=2.0, workers=6),
        layers=Layers(draft=28, target=28),
        models=Models(draft="qwen2-vl-2b", target="qwen2-vl-7b"),
        vocab_size=151657,
        measured={},
    )
