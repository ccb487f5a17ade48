"""Acceptance schemes as pure functions of logits; torch serves as array type only."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.core.ports import Array
from outrider.decoding.jobs import Judgement


def greedy_token(logits: Array) -> int:
    """The likeliest token of logits (V,)."""
    return int(logits.argmax())


def judge_greedy(logits: Array, draft: Sequence[int]) -> Judgement:
    """Accept draft tokens while each is the target's likeliest; then the target's own next token.

    logits: (len(draft) + 1, V), row i predicting draft[i], the last row what follows a wholly accepted draft.
    """
    best_values, best_ids = logits.topk(2, dim=-1)
    choices: list[int] = best_ids[:, 0].tolist()
    accepted = 0
    while accepted < len(draft) and draft[accepted] == choices[accepted]:
        accepted += 1
    margins = best_values[: accepted + 1, 0] - best_values[: accepted + 1, 1]
    return Judgement(accepted, choices[accepted], float(margins.min()))
