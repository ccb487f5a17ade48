# SPDX-License-Identifier: Apache-2.0
"""The mathematics of output aggregation: the next token is drawn from eta_d p_d + eta_c p_c.

p_d is the distribution of the device's model given the device's documents, p_c that of the cloud's model
given the cloud's documents; eta comes from the documents' relevance. DRAGON (Liu et al., MobiHoc 2025)
section 4.1. Each side drafts from its own distribution; a rule makes one token of the two drafts. There are
three rules:

- `rejection` is the paper's Algorithm 1, with the choice of the side drawn first, because the other side's
  sample would be discarded. It needs both distributions.
- `coupled` is ours: a position belongs to the device with probability eta_d, else to the cloud, and the
  draft of its owner is accepted. Each draft follows its side's distribution, so the token follows their
  mixture, whatever the joint distribution of the two drafts. Both sides use the same random choice of
  owners and the same noise (`sampling.perturbed`). So neither distribution crosses the wire, each side
  knows the owners in advance, and the drafts are equal with probability at least (1 - delta) / (1 + delta),
  where delta is the total variation distance of the two distributions (Daliri, Musco, Suresh, arXiv
  2408.07978).
- `greedy` takes the likeliest token of the mixture.

All three decide by counter-based randomness: the text is a function of the two models, their prompts and
the seed. It does not depend on what was drafted ahead, rolled back or lost, or on which side aggregates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.core.errors import ConfigError
from outrider.core.frames import FULL_SHARE, AggregationRule, PeerSide
from outrider.core.ports import Array
from outrider.decoding.acceptance.counter_rng import Chance, CounterChance, Purpose, gumbel_noise, uniform
from outrider.decoding.acceptance.quantized import PEER_BITS, on_grid, unbiased_grid

SIDES: tuple[PeerSide, PeerSide] = ("device", "cloud")
Rows = tuple[Array, Array]
"""The gridded distributions (V,) of the device and the cloud."""


@dataclass(frozen=True, eq=False)
class PeerDraft:
    """A token that a side proposes, and the distribution (V,) it was drawn from if the rule needs it."""

    token: int
    row: Array | None = None


def other_side(side: PeerSide) -> PeerSide:
    """Return the peer of a side."""
    return "cloud" if side == "device" else "device"


def log_sum_exp(values: Sequence[float]) -> float:
    """Return the log of the sum of exponentials, without overflow; -inf for no values."""
    best = max(values, default=-math.inf)
    if best == -math.inf:
        return best
    return best + math.log(sum(math.exp(value - best) for value in values))


def document_weights(log_relevances: Sequence[float]) -> tuple[float, ...]:
    """Return the weight of each of a side's documents in its distribution: eq. 2 within one side."""
    total = log_sum_exp(log_relevances)
    if not math.isfinite(total):
        raise ConfigError("a side needs at least one document or a plain prompt, of finite relevance")
    return tuple(math.exp(value - total) for value in log_relevances)


def device_share(device_log_weight: float, cloud_log_weight: float) -> int:
    """Return the device's eta in units of 2^-16, from each side's log-sum-exp of relevances."""
    excess = cloud_log_weight - device_log_weight
    if excess > 60.0:
        return 0
    return round(FULL_SHARE / (1.0 + math.exp(excess)))


def shares(share: int) -> tuple[float, float]:
    """Return eta of the device and the cloud; both are exact and sum to exactly 1."""
    return share / FULL_SHARE, 1.0 - share / FULL_SHARE


def mixture(rows: Rows, share: int) -> Array:
    """Return the target distribution, eq. 4."""
    device_part, cloud_part = shares(share)
    return device_part * rows[0] + cloud_part * rows[1]


def make_draft(probs: Array, rule: AggregationRule, seed: int, side: PeerSide, position: int) -> PeerDraft:
    """Return a side's draft at a position from its distribution (V,), which need not be gridded.

    A distribution that crosses the wire is first put on a coarse grid: without bias if tokens are drawn, to
    the nearest point if the likeliest token is taken. Both sides round with the same offset, so equal
    distributions stay equal.
    """
    if rule == "coupled":
        noisy = probs.double().cpu().log().add_(gumbel_noise(seed, position, len(probs)))
        return PeerDraft(int(noisy.argmax()))
    if rule == "greedy":
        row = on_grid(probs.cpu(), PEER_BITS)
        return PeerDraft(int(row.argmax()), row)
    row = unbiased_grid(probs.cpu(), PEER_BITS, uniform(seed, Purpose.ROUNDING, position))
    token = CounterChance(seed).pick(row, Purpose.DRAFT, position, SIDES.index(side))
    return PeerDraft(token, row)


def owner(share: int, position: int, chance: Chance) -> PeerSide:
    """Return whose draft is accepted under `coupled`, or whose text under sequence-wise aggregation."""
    return "device" if chance.happens(shares(share)[0], Purpose.TARGET, position) else "cloud"


def aggregate(drafts: tuple[PeerDraft, PeerDraft], share: int, position: int, chance: Chance) -> int:
    """Return the token made of two drafts by Algorithm 1; it is distributed as `mixture` of their rows."""
    chosen = 0 if chance.happens(0.5, Purpose.TARGET, position) else 1
    other = 1 - chosen
    token, own_row, other_row = drafts[chosen].token, drafts[chosen].row, drafts[other].row
    assert own_row is not None and other_row is not None
    own_prob, other_prob = float(own_row[token]), float(other_row[token])
    if own_prob <= other_prob:
        return token
    doubt = shares(share)[other] * (1.0 - other_prob / own_prob)
    if not chance.happens(doubt, Purpose.ACCEPT, position, chosen):
        return token
    return chance.pick((other_row - own_row).clamp_min_(0.0), Purpose.RESIDUAL, position, chosen)


def likeliest(rows: Rows, share: int) -> int:
    """Return the likeliest token of the mixture, the lowest id on a tie, for `greedy`."""
    return int(mixture(rows, share).argmax())
