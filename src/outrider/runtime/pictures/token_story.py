# SPDX-License-Identifier: Apache-2.0
"""The tokens of a step over time (drafted, verified, final), from its rounds and each token's fate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.core.values import RoundStats, TokenFate

Token = tuple[str, TokenFate]
KEPT = (TokenFate.ACCEPTED, TokenFate.WRITTEN)


@dataclass(frozen=True)
class Tokens:
    """The state at an instant: the text with the drafts after it, and the last rejected tokens."""

    text: tuple[Token, ...] = ()
    rejected: str = ""


@dataclass(frozen=True)
class _Round:
    """The tokens of one round: those that became final, and the verified draft tokens, in text order."""

    stats: RoundStats
    kept: tuple[Token, ...]
    drafted: tuple[str, ...]
    rejected: str


class TokenStory:
    """The tokens of a text at every instant, in seconds since its request."""

    def __init__(self, tokens: Sequence[Token], rounds: Sequence[RoundStats]) -> None:
        """`tokens` are all of this text's tokens with their fates, in order.

        Unverified ones (AHEAD) are ignored.
        """
        self._rounds = list(_split([token for token in tokens if token[1] is not TokenFate.AHEAD], rounds))

    def at(self, time_s: float) -> Tokens:
        """Returns the tokens that are final by then, and the draft tokens of the round in progress."""
        text: list[Token] = []
        rejected = ""
        for each in self._rounds:
            if each.stats.finished_s > time_s:
                text += [(piece, TokenFate.AHEAD) for piece in _drafted_by(each, time_s)]
                break
            text += each.kept
            rejected = each.rejected
        return Tokens(tuple(text), rejected)


def _split(tokens: Sequence[Token], rounds: Sequence[RoundStats]) -> list[_Round]:
    """Returns the tokens round by round. Tokens beyond the rounds' counts belong to the last one."""
    parts: list[list[Token]] = [[] for _ in rounds]
    index, kept = 0, 0
    for token in tokens:
        while index < len(rounds) - 1 and kept >= rounds[index].emitted:
            index, kept = index + 1, 0
        if parts:
            parts[index].append(token)
        kept += token[1] in KEPT
    return [_round(stats, part) for stats, part in zip(rounds, parts, strict=True)]


def _round(stats: RoundStats, tokens: Sequence[Token]) -> _Round:
    return _Round(
        stats,
        tuple(token for token in tokens if token[1] in KEPT),
        tuple(piece for piece, fate in tokens if fate is not TokenFate.WRITTEN),
        "".join(piece for piece, fate in tokens if fate is TokenFate.REJECTED),
    )


def _drafted_by(each: _Round, time_s: float) -> tuple[str, ...]:
    """Returns the round's draft tokens at an instant; they come evenly over its drafting time."""
    since_s = time_s - each.stats.started_s
    if since_s < 0.0:
        return ()
    share = min(1.0, since_s / each.stats.draft_s) if each.stats.draft_s > 0.0 else 1.0
    return each.drafted[: round(share * len(each.drafted))]
