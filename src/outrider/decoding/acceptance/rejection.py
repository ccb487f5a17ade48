# SPDX-License-Identifier: Apache-2.0
"""Acceptance schemes as pure functions: which draft tokens are accepted, and which token comes next.

Positions are absolute: `position` is that of the first draft token. Distributions are gridded
(`quantized`).

- Deterministic (`greedy`, `coupled`): a draft token is accepted if it equals the target's own choice.
- `rejection` (Leviathan et al. 2023, Chen et al. 2023): x is accepted with probability min(1, P(x) / Q(x));
  otherwise the next token is drawn from norm((P - Q)+).
- `split` (DSSD): the same decision from the scalars Q(x) alone; the edge, which has all of Q, resamples.
  The printed Algorithm 2 of DSSD has the ratio inverted; this is the correct one.
- `sparse` (PicoSpec): as `split`, but only a few numbers of the residue cross the link; see `sparse`.

The last three are exact under one condition: whether a position is drafted may depend on Q, on time and on
the link, but not on the token drawn there. Dropping a drawn token for its low probability would bias the
text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from outrider.core.errors import ProtocolError
from outrider.core.ports import Array
from outrider.decoding.acceptance.counter_rng import Chance, Purpose
from outrider.decoding.acceptance.sampling import broken_logits


class Outcome(NamedTuple):
    """`accepted` draft tokens, and what follows them.

    `next_token` follows if the cloud has decided it. After a rejection that it leaves to the edge,
    `residue` is the target's distribution (V,) from which the edge resamples. With neither, all draft
    tokens are accepted and the next token is still open.

    `margin`, for deterministic schemes: the smallest gap in logits between the best and the second choice
    among the decisions made. If it is near 0, rounding could have changed the text.
    """

    accepted: int
    next_token: int | None = None
    residue: Array | None = None
    margin: float = math.inf


def judge_decided(
    decided: Sequence[Sequence[float]], draft: Sequence[int], with_bonus: bool = True
) -> Outcome:
    """Judge by `coupled` (`greedy` at temperature 0): accept while the draft equals the target's choice.

    `decided` (`coupled.decide`): the choice and its margin per row. Row i predicts draft[i]; the last row,
    used if `with_bonus`, predicts what follows a wholly accepted draft. Raises ModelError for NaN logits.
    """
    accepted = 0
    while accepted < len(draft) and draft[accepted] == decided[accepted][0]:
        accepted += 1
    margins = [margin for _, margin in decided[: accepted + 1]]
    if any(map(math.isnan, margins)):
        raise broken_logits()
    follows = accepted < len(draft) or with_bonus
    return Outcome(accepted, int(decided[accepted][0]) if follows else None, margin=min(margins))


def judge_rejection(
    target_probs: Array,
    draft_probs: Array,
    draft: Sequence[int],
    position: int,
    chance: Chance,
    with_bonus: bool,
) -> Outcome:
    """Judge by `rejection`, with the resampling included.

    target_probs: (len(draft) + 1, V); the last row is used only for the bonus. draft_probs: (len(draft),
    V). Raises ProtocolError for a draft token that its distribution gives probability 0.
    """
    drawn_with = [float(row[token]) for row, token in zip(draft_probs, draft, strict=True)]
    outcome = judge_split(target_probs, drawn_with, draft, position, chance, with_bonus)
    accepted = outcome.accepted
    if outcome.residue is None:
        return outcome
    return Outcome(accepted, resample(outcome.residue, draft_probs[accepted], position + accepted, chance))


def judge_split(
    target_probs: Array,
    draft_token_probs: Sequence[float],
    draft: Sequence[int],
    position: int,
    chance: Chance,
    with_bonus: bool,
) -> Outcome:
    """Judge by `split` or `sparse`, the cloud's half. After a rejection `residue` is the target's row
    there, for `resample` or `sparse.sparse_residue`.

    target_probs: as for `judge_rejection`. draft_token_probs: Q(x) with which each draft token was drawn.
    """
    accepted = count_accepted(target_probs, draft_token_probs, draft, position, chance)
    if accepted < len(draft):
        return Outcome(accepted, residue=target_probs[accepted])
    if not with_bonus:
        return Outcome(accepted)
    return Outcome(accepted, chance.pick(target_probs[accepted], Purpose.TARGET, position + accepted))


def count_accepted(
    target_probs: Array,
    draft_token_probs: Sequence[float],
    draft: Sequence[int],
    position: int,
    chance: Chance,
) -> int:
    """Return how many draft tokens are accepted. Raises ProtocolError for one drawn with probability 0."""
    for offset, (token, draft_prob) in enumerate(zip(draft, draft_token_probs, strict=True)):
        if not draft_prob > 0.0:
            raise ProtocolError(f"draft token {token} at position {position + offset} has probability 0")
        ratio = float(target_probs[offset, token]) / draft_prob
        if not chance.happens(min(1.0, ratio), Purpose.ACCEPT, position + offset):
            return offset
    return len(draft)


def resample(target_row: Array, draft_row: Array, position: int, chance: Chance) -> int:
    """Return the token after a rejection, drawn from norm((P - Q)+) of rows (V,);
    for `split` the edge calls it.

    Raises ProtocolError if P equals Q, because then nothing can have been rejected.
    """
    excess = (target_row - draft_row).clamp_min_(0.0)
    if not bool(excess.any()):
        raise ProtocolError(f"a rejection at position {position} where target and draft are the same")
    return chance.pick(excess, Purpose.RESIDUAL, position)
