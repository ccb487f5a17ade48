# SPDX-License-Identifier: Apache-2.0
"""Speculative decoding on one screen, as the papers print it: the oracle of the lossless tests.

Leviathan et al. 2023 (arXiv 2211.17192, algorithm 1) and Chen et al. 2023 (arXiv 2302.01318, algorithm 2).
The engine imports nothing from here. `sd` with `acceptance=rejection` writes the same text, token by token,
whatever the link does. So do `dssd` and `fsd`, which differ in what crosses the link, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal, Protocol

from outrider.core.ports import Array

Tokens = tuple[int, ...]
DraftModel = Callable[[Tokens], Array]
"""Returns the distribution (V,) of the token after a text."""
TargetModel = Callable[[Tokens, Tokens], Array]
"""Returns the distributions (n + 1, V) after a text and after each of n draft tokens: one forward."""


class Draws(Protocol):
    """The random decisions, each a function of the position at which it is made."""

    def accepts(self, probability: float, position: int) -> bool:
        """Return True with this probability."""

    def pick(self, weights: Array, kind: Literal["draft", "recovered", "bonus"], position: int) -> int:
        """Return a token with probability proportional to its weight in (V,)."""


def speculative_decode(
    target: TargetModel,
    draft: DraftModel,
    draws: Draws,
    num_draft_tokens: int,
    max_new_tokens: int,
    end_ids: Collection[int],
) -> Tokens:
    """Return a text that is distributed as the target's own, up to and with its first end token."""
    text: Tokens = ()
    while len(text) < max_new_tokens and not (text and text[-1] in end_ids):
        room = max_new_tokens - len(text) - 1  # the verification itself adds a token
        drafted, draft_probs = propose(draft, draws, text, min(num_draft_tokens, room), end_ids)
        target_probs = target(text, drafted)
        text += until_end(verify(target_probs, draft_probs, drafted, draws, len(text)), end_ids)
    return text


def propose(
    draft: DraftModel, draws: Draws, text: Tokens, count: int, end_ids: Collection[int]
) -> tuple[Tokens, list[Array]]:
    """Return at most `count` draft tokens and the distribution of each. None follows an end token."""
    drafted: Tokens = ()
    probs: list[Array] = []
    while len(drafted) < count and not (drafted and drafted[-1] in end_ids):
        probs.append(draft(text + drafted))
        drafted += (draws.pick(probs[-1], "draft", len(text) + len(drafted)),)
    return drafted, probs


def verify(
    target_probs: Array, draft_probs: list[Array], drafted: Tokens, draws: Draws, position: int
) -> Tokens:
    """Return the accepted draft tokens and the recovered or bonus token after them."""
    for i, (token, q) in enumerate(zip(drafted, draft_probs, strict=True)):
        p = target_probs[i]
        if not draws.accepts(min(1.0, float(p[token]) / float(q[token])), position + i):
            recovered = draws.pick((p - q).clamp(min=0.0), "recovered", position + i)
            return (*drafted[:i], recovered)
    return (*drafted, draws.pick(target_probs[len(drafted)], "bonus", position + len(drafted)))


def until_end(tokens: Tokens, end_ids: Collection[int]) -> Tokens:
    """Return the tokens up to and with the first end token."""
    ends = [i for i, token in enumerate(tokens) if token in end_ids]
    return tokens[: ends[0] + 1] if ends else tokens
