"""Theoretical acceptance rates of distributions, with which the tests compare measured rates."""

from __future__ import annotations

from typing import Literal

import torch

from outrider.core.ports import Array
from outrider.decoding.aggregation.rule import Rows, mixture, shares


def total_variation(target_probs: Array, draft_probs: Array) -> float:
    """Returns TV(P, Q) = sum (P - Q)+ of two distributions (V,)."""
    return float((target_probs - draft_probs).clamp_min(0.0).sum())


def rejection_acceptance_rate(target_probs: Array, draft_probs: Array) -> float:
    """Returns the acceptance rate of `rejection`, `split`, `sparse`.

    It is sum min(P, Q) = 1 - TV (Leviathan et al. 2023).
    """
    return float(target_probs.minimum(draft_probs).sum())


def coupled_acceptance_bound(target_probs: Array, draft_probs: Array) -> float:
    """Returns the least acceptance rate of `coupled`.

    It is (1 - TV) / (1 + TV) (Daliri, Musco, Suresh, arXiv 2408.07978).
    """
    distance = total_variation(target_probs, draft_probs)
    return (1.0 - distance) / (1.0 + distance)


def coupled_acceptance_rate(target_probs: Array, draft_probs: Array) -> float:
    """Returns the acceptance rate of `coupled`: sum over v of 1 / sum over w of max(P_w / P_v, Q_w / Q_v).

    Write the noise as exponential clocks E_w. Then v wins on both sides if E_w >= E_v times that maximum for
    every w. Sorted by P / Q, the maximum is P_w / P_v up to v and Q_w / Q_v after it: O(V log V).
    """
    shared = (target_probs > 0) & (draft_probs > 0)
    target, draft = target_probs[shared], draft_probs[shared]
    order = (target / draft).argsort(descending=True)
    target, draft = target[order], draft[order]
    only_target = target_probs[draft_probs == 0].sum()
    only_draft = draft_probs[target_probs == 0].sum()
    target_mass = (only_target + target.cumsum(0)) / target
    draft_mass = (only_draft + draft.flip(0).cumsum(0).flip(0) - draft) / draft
    return float((1.0 / (target_mass + draft_mass)).sum())


def divergence(rows: Rows) -> float:
    """Returns delta = 1 - sum of minima: the total variation distance of the two distributions."""
    return 1.0 - float(torch.minimum(*rows).sum())


def acceptance_rates(rows: Rows, share: int) -> tuple[float, float]:
    """Returns the probabilities that `rejection` keeps the device's and the cloud's draft.

    This is eq. 5 with gamma = 1/2.
    """
    delta, mixed = divergence(rows), mixture(rows, share)
    device_part, cloud_part = shares(share)
    return (
        0.5 * (1.0 - cloud_part * delta) + 0.5 * float(rows[0] @ mixed),
        0.5 * (1.0 - device_part * delta) + 0.5 * float(rows[1] @ mixed),
    )


def coupled_acceptance_bounds(rows: Rows, share: int, side: Literal[0, 1]) -> tuple[float, float]:
    """Returns the least and the greatest probability that `coupled` keeps a side's draft.

    The probability is 1 - eta_other (1 - c). The probability c of equal drafts is at least
    (1 - delta) / (1 + delta) (Daliri, Musco, Suresh, arXiv 2408.07978) and at most 1 - delta. No rule keeps
    more drafts than the greatest.
    """
    delta, other_part = divergence(rows), shares(share)[1 - side]
    return 1.0 - other_part * 2.0 * delta / (1.0 + delta), 1.0 - other_part * delta


def round_sd_s(draft_s: float, verify_s: float, one_way_s: float) -> float:
    """Returns the seconds of a round of vanilla speculative decoding (FSD Table 4).

    `draft_s` is the time of all drafts of the round.
    """
    return 2.0 * one_way_s + draft_s + verify_s
