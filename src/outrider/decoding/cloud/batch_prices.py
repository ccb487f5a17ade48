# SPDX-License-Identifier: Apache-2.0
"""What batches take, and what a second of the target's device is worth where robots share it.

What a place of a batch costs beside its time is `place_tokens` and `wait_tokens` of `decoding.tuning`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from outrider.decoding.cloud.batch_selection import Candidate, worth_drafting, worth_joining
from outrider.decoding.policy.estimators import BatchTime, SteadyAcceptance
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning


class Chosen(NamedTuple):
    """The indices of those that make the next batch, and of those of them that the cloud drafts for first."""

    joining: set[int]
    drafting: set[int]


class BatchPrices:
    """Of one verifier. Times in seconds."""

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        self.verify_time, self._draft_time = BatchTime(tuning), BatchTime(tuning, unseen_s=0.0)
        self._rate = 0.0
        """Tokens a second of the batch chosen last."""
        self.odds = SteadyAcceptance(tuning)
        """Those of the cloud's draft over the texts of all robots."""
        self.part_alone = 1.0
        """What part of the time of the last batch it would have taken with one text in it."""

    def on_batch(self, verified: int, drafted: int, used_s: float, whole: bool) -> None:
        """A batch of so many verifications or drafts took so long; not `whole`: it was left."""
        if whole and verified and used_s > 0.0:
            self.verify_time.add(verified, used_s)
        if drafted:
            self._draft_time.add(drafted, used_s)
        size = max(1, verified + drafted)
        self.part_alone = self.verify_time.seconds(1) / self.verify_time.seconds(size)

    def choose(self, candidates: Sequence[Candidate]) -> Chosen:
        """Returns the batch of most tokens a second, at what a second is worth."""
        verify_s, draft_s = self.verify_time.seconds, self._draft_time.seconds
        joining, self._rate = worth_joining(candidates, verify_s, self._tuning, draft_s, self._rate)
        taken: Mapping[int, Candidate] = {index: candidates[index] for index in joining}
        return Chosen(joining, worth_drafting(taken, self._rate, draft_s))
