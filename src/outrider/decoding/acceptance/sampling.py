# SPDX-License-Identifier: Apache-2.0
"""From logits to distributions and to the coupled choice. `greedy` is the coupled choice at temperature 0.

Temperature, top-k and top-p are applied here and nowhere else, in this order.
"""

from __future__ import annotations

import math

import torch

from outrider.core.errors import ModelError
from outrider.core.ports import Array
from outrider.decoding.acceptance.counter_rng import gumbel_noise
from outrider.decoding.protocol.sampling_rules import Sampling

_MASS = 2.0**50
_SORTED_WHOLE = 4096
"""Rows of up to this many tokens are sorted whole; in longer ones only the likeliest tokens are sorted."""


def scores(logits: Array, sampling: Sampling) -> Array:
    """Return unnormalised log-probabilities, float64 (..., V): 0 at the likeliest token,
    -inf for dropped ones.

    Kept are the `top_k` likeliest tokens (ties go to the lowest ids), and of these the nucleus: the
    smallest set of likeliest tokens that holds `top_p` of their mass (Holtzman et al. 2020).
    Temperature must be above 0. Raises ModelError for logits that hold NaN, +inf or nothing but -inf.
    """
    wide, best = _widened(logits)
    if not math.isfinite(float(best.sum())):
        raise broken_logits()
    return _tempered(wide, best, sampling)


def broken_logits() -> ModelError:
    """Return the error for logits that are not finite."""
    return ModelError("the model's logits hold NaN or inf: its weights or its input are broken")


def unchecked_scores(logits: Array, sampling: Sampling) -> Array:
    """Return `scores` without checking: broken logits yield NaN.

    Rows as short as an exit's wait for no device.
    """
    return _tempered(*_widened(logits), sampling)


def _widened(logits: Array) -> tuple[Array, Array]:
    """Return a float64 copy (..., V) and the maximum of each row (..., 1)."""
    wide = logits.to(torch.float64, copy=True, memory_format=torch.contiguous_format)
    return wide, wide.amax(-1, keepdim=True)


def _tempered(wide: Array, best: Array, sampling: Sampling) -> Array:
    """Apply temperature, top-k and top-p in place."""
    scaled = wide.sub_(best).div_(sampling.temperature)
    if 0 < sampling.top_k < scaled.shape[-1]:
        scaled.masked_fill_(_outside_likeliest(scaled, sampling.top_k), -math.inf)
    if sampling.top_p == 1.0:
        return scaled
    if scaled.shape[-1] <= _SORTED_WHOLE:
        return scaled.masked_fill_(_outside_nucleus(scaled.softmax(-1), sampling.top_p), -math.inf)
    for row in scaled.view(-1, scaled.shape[-1]):
        probs = row.softmax(0)
        # Tokens below this threshold add up to less than 1 - top_p, so only those above it need sorting.
        few = (probs >= (1.0 - sampling.top_p) / len(probs)).nonzero()[:, 0]
        outside = torch.ones_like(probs, dtype=torch.bool)
        outside[few] = _outside_nucleus(probs[few], sampling.top_p)
        row.masked_fill_(outside, -math.inf)
    return scaled


def probabilities(logits: Array, sampling: Sampling) -> Array:
    """Return float64 (..., V) from logits (..., V).

    Temperature 0 puts all mass on the likeliest token; ties go to the first. Above 0, raises ModelError for
    logits that are not numbers.
    """
    if sampling.temperature > 0.0:
        weights = scores(logits, sampling).exp_()  # torch's softmax wakes all threads even for short rows
        return weights.div_(weights.sum(-1, keepdim=True))
    one_hot = torch.zeros(logits.shape, dtype=torch.float64, device=logits.device)
    return one_hot.scatter_(-1, logits.argmax(-1, keepdim=True), 1.0)


def perturbed(logits: Array, sampling: Sampling, position: int) -> Array:
    """Return float64 (V,) on the CPU: log P plus the noise of a position, up to a constant.

    Temperature above 0.
    Its argmax is the coupled choice, distributed as P. Target and draft share the noise of (seed,
    position), so their choices agree with probability at least (1 - TV) / (1 + TV) (Daliri, Musco, Suresh,
    arXiv 2408.07978).
    """
    row = scores(logits, sampling).cpu()
    return row.add_(gumbel_noise(sampling.seed, position, len(row)))


def _outside_likeliest(scaled: Array, top_k: int) -> Array:
    """Return bool (..., V): the tokens that top-k drops; none for a row of NaN."""
    last = scaled.topk(top_k, dim=-1).values[..., -1:]
    equal = scaled == last
    room = top_k - (scaled > last).sum(-1, keepdim=True)
    return (scaled < last) | (equal & (equal.cumsum(-1) > room))


def _outside_nucleus(probs: Array, top_p: float) -> Array:
    """Return bool (..., V): the tokens that top-p drops."""
    ordered, order = probs.sort(dim=-1, descending=True, stable=True)
    # Integer sums do not depend on the order in which a device adds.
    mass = (ordered * _MASS).long()
    outside = mass.cumsum(-1) - mass >= math.ceil(top_p * _MASS)
    return torch.empty_like(outside).scatter_(-1, order, outside)
