# SPDX-License-Identifier: Apache-2.0
"""The papers' own formulas for one draft-verify round, in seconds. Pure functions; no engine runs here.

FSD: arXiv 2505.21594, Table 4 and eq. 9. PicoSpec: arXiv 2603.19133, section 3.4. DSSD: Ning et al.,
ICML 2025 workshop ML4Wireless, eq. 7, 9 and 13. Each token is accepted with the chance `acceptance_rate`,
independently of the others, as in Leviathan et al. 2023.
"""

from __future__ import annotations

import math

from outrider.core.errors import ConfigError


def expected_tokens(acceptance_rate: float, num_draft_tokens: float) -> float:
    """Return the mean tokens per round, including the target's own: PicoSpec eq. 5, Leviathan eq. 1.

    `num_draft_tokens` may itself be an average.
    """
    if acceptance_rate in (0.0, 1.0):
        return 1.0 + acceptance_rate * num_draft_tokens
    # 1 - rate^(n + 1), without the rounding that matters if the rate is nearly 1.
    return -math.expm1((num_draft_tokens + 1.0) * math.log(acceptance_rate)) / (1.0 - acceptance_rate)


def acceptance_rate(tokens_per_round: float, num_draft_tokens: int) -> float:
    """Return the acceptance rate of a round that yields these tokens: the inverse of `expected_tokens`.

    Raises ConfigError outside 1 to num_draft_tokens + 1.
    """
    if not 1.0 <= tokens_per_round <= num_draft_tokens + 1:
        raise ConfigError(
            f"tokens_per_round={tokens_per_round} is not within 1 and num_draft_tokens + 1 = "
            f"{num_draft_tokens + 1}"
        )
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        too_few = expected_tokens(middle, num_draft_tokens) < tokens_per_round
        low, high = (middle, high) if too_few else (low, middle)
    return (low + high) / 2.0


def round_fsd_s(draft_s: float, verify_s: float, one_way_s: float, miss_rate: float, sync_s: float) -> float:
    """Return the round time with early exits and pre-drafting: FSD Table 4.

    On a hit, `sync_s` replaces `draft_s`.
    """
    return 2.0 * one_way_s + miss_rate * draft_s + (1.0 - miss_rate) * sync_s + verify_s


def distribution_s(
    num_rows: float, vocab_size: int, bytes_per_probability: float, bytes_per_s: float
) -> float:
    """Return the air time of full distributions: the transmission terms of DSSD eq. 4, 8 and 9."""
    return num_rows * vocab_size * bytes_per_probability / bytes_per_s


def round_dsd_s(draft_s: float, verify_s: float, round_trip_s: float, uplink_s: float) -> float:
    """Return the round time of distributed speculative decoding: DSSD eq. 7. `uplink_s` is the air time of
    a round's distributions.
    """
    return draft_s + verify_s + uplink_s + round_trip_s


def round_dssd_s(
    draft_s: float,
    verify_s: float,
    round_trip_s: float,
    downlink_s: float,
    acceptance_rate: float,
    num_draft_tokens: int,
) -> float:
    """Return the round time of split verification: DSSD eq. 13. `downlink_s`: air time of one rejection."""
    return draft_s + verify_s + (1.0 - acceptance_rate**num_draft_tokens) * downlink_s + round_trip_s


def round_picospec_s(
    draft_s: float, verify_s: float, round_trip_s: float, acceptance_rate: float, num_draft_tokens: int
) -> float:
    """Return the round time of the pipeline: PicoSpec eq. 8. A fully accepted round hides the shorter of
    its two halves; any other round is serial.
    """
    full_hit = acceptance_rate**num_draft_tokens
    remote_s = verify_s + round_trip_s
    return full_hit * max(draft_s, remote_s) + (1.0 - full_hit) * (draft_s + remote_s)


def unfinished_drafts_s(draft_s: float, verify_s: float, exit_share: float) -> float:
    """Return how long a cache hit still waits for drafts begun when the early exit at `exit_share` of the
    verification was read.

    FSD's Table 4 calls the cost of a hit T_r and gives no number for it.
    """
    return max(0.0, draft_s - (1.0 - exit_share) * verify_s)


def fast_verified_tokens_per_s(
    draft_token_s: float, verify_s: float, round_trip_s: float, acceptance_rate: float, num_draft_tokens: int
) -> float:
    """Return the tokens per second of PicoSpec with Fast Verification (described in eq. 3, not in eq. 8).

    Eq. 8 counts whole batches. To a fully accepted one it adds a token of the target's own, though the next
    batch's first draft token has that position. Here, whenever the cloud is free, it takes what has been
    drafted meanwhile. Between two rejections lie 1 / (1 - rate) tokens, including the correction. They cost
    the drafts of a first segment, as short as pays (latency-aware truncation), a round trip, and one
    verification after another while everything before is accepted.
    """
    step_s = max(draft_token_s, verify_s)
    chunk = min(num_draft_tokens, step_s / draft_token_s)
    if acceptance_rate >= 1.0:
        return chunk / step_s
    ends = 1.0 - acceptance_rate

    def seconds_per_token(first: int) -> float:
        further = math.pow(acceptance_rate, first) / (1.0 - math.pow(acceptance_rate, chunk))
        return ends * (first * draft_token_s + round_trip_s + verify_s + further * step_s)

    return 1.0 / min(seconds_per_token(first) for first in range(1, num_draft_tokens + 1))


def limit_tokens_per_s(tokens_per_round: float, draft_s: float, verify_s: float) -> float:
    """Return the upper bound on tokens per second for whole rounds: that of the slower machine."""
    return tokens_per_round / max(draft_s, verify_s)
