# SPDX-License-Identifier: Apache-2.0
"""The confidence of an early exit in its hint, by which the robot weighs hints."""

from __future__ import annotations

from outrider.core.ports import Array

CONFIDENCE_DIGITS = 4
"""Decimals kept of an exit's confidence. Processors compute exponentials alike to about six decimals;
rounded, the same texts have the same schedule on all of them.
"""


def token_confidence(logits: Array) -> Array:
    """Return the largest softmax probability of each row, (E,), from logits (E, S).

    Venkatesha et al. (FSD), eq. 4. If tokens are drawn with Gumbel noise, pass the logits with the noise
    added: the result is then how clear that choice was. Does not call `softmax`, which torch spreads over
    all its threads even for two rows; waiting for them would take longer than the computation.
    """
    return (logits - logits.amax(-1, keepdim=True)).exp_().sum(-1).reciprocal_()


def hint_confidence(logits: Array) -> float:
    """Return the probability, by the exit's own estimate, that all E tokens of a hint are right;
    logits (E, S).

    This is the product over the tokens, because one wrong token makes the hint worthless. FSD's algorithm 2
    takes the maximum, which would favour a hint of many sure tokens and one guess.
    """
    return float(token_confidence(logits).prod())
