# SPDX-License-Identifier: Apache-2.0
"""How sure an early exit is of its hint: what the priority queues on both sides sort by."""

from __future__ import annotations

from outrider.core.ports import Array

CONFIDENCE_DIGITS = 4
"""Decimals kept of an exit's confidence. From the seventh on processors disagree about exponentials; rounded,
the same texts have the same schedule on all of them."""


def token_confidence(logits: Array) -> Array:
    """The largest softmax probability of each row, (E,), of logits (E, S).

    Venkatesha et al. (FSD), eq. 4. Where tokens are drawn with Gumbel noise, give the logits with the noise
    added: what is asked is how clearly this choice was made. Not by `softmax`, which torch gives to all its
    threads for as little as two rows: to wait for them takes longer than all the rest.
    """
    return (logits - logits.amax(-1, keepdim=True)).exp_().sum(-1).reciprocal_()


def hint_confidence(logits: Array) -> float:
    """The chance that a hint stands whole, as its exit sees it, from the logits (E, S) of its E tokens.

    The product over the tokens, since one wrong token makes the hint worthless. (FSD's algorithm 2 takes the
    largest over them, which a hint of many sure tokens and one guess would lead.)
    """
    return float(token_confidence(logits).prod())
