# SPDX-License-Identifier: Apache-2.0
"""The tokens per second that the papers' formulas predict in a regime."""

from __future__ import annotations

from outrider.decoding.config import STRATEGIES
from outrider.decoding.theory import (
    fast_verified_tokens_per_s,
    limit_tokens_per_s,
    round_dsd_s,
    round_dssd_s,
    round_fsd_s,
    round_picospec_s,
    unfinished_drafts_s,
)
from outrider.evaluation.decoding.regimes import Regime


def formula_round_s(regime: Regime, strategy: str, sync_s: float = 0.0) -> float | None:
    """Return the seconds of a round by the formula of the strategy's own paper; None if there is none."""
    draft_s, verify_s, round_trip_s = regime.draft_s, _verify_s(regime, strategy), regime.round_trip_s
    rate, drafts = regime.rate, regime.num_draft_tokens
    uplink_s = regime.distribution_up_s()
    if strategy == "sd":
        return round_dsd_s(draft_s, verify_s, round_trip_s, uplink_s)
    if strategy == "fsd":
        one_way_s = (round_trip_s + uplink_s) / 2.0
        return round_fsd_s(draft_s, verify_s, one_way_s, regime.exits.miss_rate, sync_s)
    if strategy == "dssd":
        return round_dssd_s(draft_s, verify_s, round_trip_s, regime.distribution_down_s(), rate, drafts)
    if strategy == "picospec":
        return round_picospec_s(draft_s, verify_s, round_trip_s, rate, drafts)
    return None


def formula_tokens_per_s(regime: Regime, strategy: str) -> float | None:
    """Return tokens per second by the paper's formula as printed; for `ar` one token per step."""
    if strategy == "ar":
        return 1.0 / regime.step_s
    round_s = formula_round_s(regime, strategy)
    return None if round_s is None else regime.expected_tokens / round_s


def completed_formula_tokens_per_s(regime: Regime, strategy: str) -> float | None:
    """Return tokens per second by the paper's formula, completed by what it leaves out.

    FSD's hits wait for unfinished drafts. PicoSpec verifies parts of a batch, and has no token of the
    target's own after a fully accepted batch.
    """
    if strategy == "fsd":
        share = regime.exits.average / (regime.exits.number + 1)
        sync_s = unfinished_drafts_s(regime.draft_s, _verify_s(regime, strategy), share)
        return regime.expected_tokens / (formula_round_s(regime, strategy, sync_s) or 1.0)
    if strategy == "picospec":
        token_s, drafts = regime.draft_token_ms / 1e3, regime.num_draft_tokens
        return fast_verified_tokens_per_s(
            token_s, _verify_s(regime, strategy), regime.round_trip_s, regime.rate, drafts
        )
    return formula_tokens_per_s(regime, strategy)


def _verify_s(regime: Regime, strategy: str) -> float:
    """Return the seconds of a verification, with early exits if the strategy always reads them."""
    return regime.verify_s(reads_exits=STRATEGIES[strategy].hints == "all")


def limit_of(regime: Regime, strategy: str, tokens_per_round: float) -> float:
    """Return tokens per second of the slower machine alone, if a round yields `tokens_per_round`."""
    if strategy == "ar":
        return 1.0 / regime.step_s
    return limit_tokens_per_s(tokens_per_round, regime.draft_s, _verify_s(regime, strategy))
