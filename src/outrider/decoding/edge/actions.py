# SPDX-License-Identifier: Apache-2.0
"""What the edge's machine asks its driver to do."""

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
    """Tokens that are final now; without a `verdict` the edge is alone. Of what the edge had `drafted` for it
    those tokens stood that are marked in `stood`, one mark a token.

    `foreseen`: whether what follows them was being drafted already; `exit`: the first early exit that had
    hinted at them. For observers: on its main branch the draft had the first `followed` of them, `rejected`
    in place of the others, and has `ahead` after them now.
    """

    tokens: tuple[int, ...]
    drafted: int
    stood: tuple[bool, ...]
    verdict: Verdict | Unsettled | None
    foreseen: bool = False
    exit: int | None = None
    followed: int = field(default=0, compare=False)
    rejected: tuple[int, ...] = field(default=(), compare=False)
    ahead: tuple[int, ...] = field(default=(), compare=False)

    @property
    def accepted(self) -> int:
        """How many drafts stood."""
        return sum(self.stood)


@dataclass(frozen=True)
class Fail:
    """The text cannot be finished."""

    error: OutriderError


EdgeAction = Send | Commit | Fail
