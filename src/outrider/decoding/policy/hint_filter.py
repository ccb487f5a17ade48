# SPDX-License-Identifier: Apache-2.0
"""Which outcomes of a running verification the edge is told, within an allowance of bytes down."""

from __future__ import annotations

from outrider.decoding.policy.estimators import ByteBudget
from outrider.decoding.protocol.branch_codec import token_bytes
from outrider.decoding.protocol.prefix_digest import Tokens
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

ROUNDING = 1e-9
"""Chances that differ by less are equal: exponentials and logarithms differ that much between processors."""


class HintFilter:
    """Of one text."""

    def __init__(self, vocab_size: int, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        self._token_bytes = token_bytes(vocab_size)
        self._purse = ByteBudget(tuning.bytes_down_per_token, tuning)
        self._chances: dict[Tokens, float] = {}

    def tells(self, tokens: Tokens, chance: float) -> bool:
        """Whether an outcome of that chance is worth its bytes, which are then spent."""
        if not self._is_useful(tokens, chance):
            return False
        self._chances[tokens] = chance
        self._purse.spend(self._size(tokens))
        return True

    def on_verdict(self, num_tokens: int) -> None:
        """A verdict of so many tokens is told."""
        self._purse.earn(num_tokens)
        self._purse.spend(self._tuning.verdict_bytes + self._token_bytes * num_tokens)

    def forget(self) -> None:
        """The verification has ended: what was said of it is no news of the next."""
        self._chances = {}

    def _is_useful(self, tokens: Tokens, chance: float) -> bool:
        """Whether a hint is news that is likely enough to be true, and can be paid for."""
        surer_by = self._tuning.hint_repeat_gain - ROUNDING
        if not self._tuning.send_hints or chance < self._chances.get(tokens, -surer_by) + surer_by:
            return False
        return chance >= self._purse.price and self._purse.holds(self._size(tokens))

    def _size(self, tokens: Tokens) -> float:
        return self._tuning.hint_bytes + self._token_bytes * len(tokens)
