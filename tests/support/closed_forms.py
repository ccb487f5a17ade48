"""What theory predicts of the acceptance schemes, from the distributions: what the tests measure against."""

from __future__ import annotations

from outrider.core.ports import Array


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
