"""What theory predicts of the acceptance schemes, from the distributions: what the tests measure against."""

from __future__ import annotations

from typing import Literal

import torch

from outrider.core.ports import Array
from outrider.decoding.aggregation.rule import Rows, mixture, shares


def total_variation(target_probs: Array, draft_probs: Array) -> float:
    """TV(P, Q) = sum (P - Q)+ of two distributions (V,)."""
    return float((target_probs - draft_probs).clamp_min(0.0).sum())


def rejection_acceptance_rate(target_probs: Array, draft_probs: Array) -> float:
    """How often `rejection`, `split`, `sparse` accept: sum min(P, Q) = 1 - TV (Leviathan et al. 2023)."""
    return float(target_probs.minimum(draft_probs).sum())


def coupled_acceptance_bound(target_probs: Array, draft_probs: Array) -> float:
    """(1 - TV) / (1 + TV): `coupled` accepts at least so often (Daliri, Musco, Suresh, arXiv 2408.07978)."""
    distance = total_variation(target_probs, draft_probs)
    return (1.0 - distance) / (1.0 + distance)


def coupled_acceptance_rate(target_probs: Array, draft_probs: Array) -> float:
    """Probability that `coupled` accepts: sum over v of 1 / sum over w of max(P_w / P_v, Q_w / Q_v).

    With the noise written as exponential clocks E_w, v wins on both sides where E_w >= E_v times that maximum
    for every w. Sorted by P / Q the inner maximum is P_w / P_v up to v and Q_w / Q_v after it: O(V log V).
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
    """delta = 1 - sum of minima: the total variation distance of the two distributions."""
    return 1.0 - float(torch.minimum(*rows).sum())


def acceptance_rates(rows: Rows, share: int) -> tuple[float, float]:
    """The chance that `rejection` keeps the device's draft, and the cloud's: eq. 5 with gamma = 1/2."""
    delta, mixed = divergence(rows), mixture(rows, share)
    device_part, cloud_part = shares(share)
    return (
        0.5 * (1.0 - cloud_part * delta) + 0.5 * float(rows[0] @ mixed),
        0.5 * (1.0 - device_part * delta) + 0.5 * float(rows[1] @ mixed),
    )


def coupled_acceptance_bounds(rows: Rows, share: int, side: Literal[0, 1]) -> tuple[float, float]:
    """The least and the greatest chance that `coupled` keeps a side's draft.

    It is 1 - eta_other (1 - c), c the chance of equal drafts: at least (1 - delta) / (1 + delta) (Daliri,
    Musco, Suresh, arXiv 2408.07978) and at most 1 - delta. No rule at all keeps more than the greatest.
    """
    delta, other_part = divergence(rows), shares(share)[1 - side]
    return 1.0 - other_part * 2.0 * delta / (1.0 + delta), 1.0 - other_part * delta


def round_sd_s(draft_s: float, verify_s: float, one_way_s: float) -> float:
    """Vanilla speculative decoding: FSD Table 4. `draft_s` is the time of a round's drafts."""
    return 2.0 * one_way_s + draft_s + verify_s
