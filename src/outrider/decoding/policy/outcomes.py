# SPDX-License-Identifier: Apache-2.0
"""What has come of a verification."""

from __future__ import annotations

from typing import Literal, NamedTuple

from outrider.decoding.jobs import Verify
from outrider.decoding.protocol.prefix_digest import Tokens

Ending = Literal["step", "whole", "fell"]
"""Of a verification: it had no draft, all of it stood, or not all."""


class VerificationOutcome(NamedTuple):
    """What has come of a verification.

    `new`: the tokens judged right and the target's own; `num_committed`: of these, those before the text's
    end. `accepted`: of the branch that counts; `num_drafted`: its tokens that the edge had drafted.
    `compute_s`: 0 where no forward was needed; `alone`: no other robot's work was in the forward. `offered`:
    the draft token that lay at the text's end, if any; `num_ready`: tokens of the draft that lies there now,
    None where the text is complete.
    """

    job: Verify
    new: Tokens
    num_committed: int
    accepted: int
    num_drafted: int
    compute_s: float
    alone: bool
    offered: int | None
    num_ready: int | None
    now_s: float


def ending_of(num_drafted: int, stood: int) -> Ending:
    """How the verification of so many tokens ended, of which so many stood."""
    if not num_drafted:
        return "step"
    return "whole" if stood >= num_drafted else "fell"
