# SPDX-License-Identifier: Apache-2.0
"""The actions that the edge's machine requests from its driver."""

from __future__ import annotations

from dataclasses import dataclass, field

from outrider.core.errors import OutriderError
from outrider.core.frames import EdgeFrame, Unsettled, Verdict


@dataclass(frozen=True)
class Send:
    """Put a frame on the wire; it may get lost."""

    frame: EdgeFrame


@dataclass(frozen=True)
class Commit:
    """Tokens that are final now. Without a `verdict`, the edge wrote them alone. `drafted`: how many draft
    tokens were verified; `is_accepted`: for each token, whether it is an accepted draft token.

    `foreseen`: whether the text after them was being drafted already; `exit`: the first early exit that
    hinted at them. For observers, on the draft's main branch: `followed`: how many of the tokens it had;
    `rejected`: what it had in place of the others; `ahead`: what it has after them now.
    """

    tokens: tuple[int, ...]
    drafted: int
    is_accepted: tuple[bool, ...]
    verdict: Verdict | Unsettled | None
    foreseen: bool = False
    exit: int | None = None
    followed: int = field(default=0, compare=False)
    rejected: tuple[int, ...] = field(default=(), compare=False)
    ahead: tuple[int, ...] = field(default=(), compare=False)

    @property
    def accepted(self) -> int:
        """The number of accepted draft tokens."""
        return sum(self.is_accepted)


@dataclass(frozen=True)
class Fail:
    """The text cannot be finished."""

    error: OutriderError


EdgeAction = Send | Commit | Fail
