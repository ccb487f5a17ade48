# SPDX-License-Identifier: Apache-2.0
"""Which verifications make up the next batch, where robots share one verifier: what is worth it and fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from outrider.decoding.jobs import Verify
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning


class Candidate(NamedTuple):
    """A verification that is ready: the `tokens` that it is expected to yield, how many batches in a row have
    begun without it, and whether another one may.
    """

    tokens: float
    left_out: int
    can_wait: bool

    def worth(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> float:
        """In tokens. A place is worth something beside its time: a pass that is spared leaves the next one
        more to verify.
        """
        return self.tokens - tuning.place_tokens + tuning.wait_tokens * self.left_out


def worth_joining(
    candidates: Sequence[Candidate],
    batch_s: Callable[[int], float],
    tuning: AdaptiveTuning = DEFAULT_TUNING,
) -> set[int]:
    """The places of those that make the batch of the most worth a second; never none.

    `batch_s`: the time of a batch of so many. Where that is mostly what the first one takes, all join; where
    every further one takes time of its own, steps and short drafts wait until they have grown; where it
    takes more than in a batch of fewer, the last of equals wait for the next one.
    """
    if not tuning.select_batch:
        return set(range(len(candidates)))
    worths = [candidate.worth(tuning) for candidate in candidates]
    order = sorted(range(len(candidates)), key=lambda place: (candidates[place].can_wait, -worths[place]))
    least = sum(not candidate.can_wait for candidate in candidates)
    worth, best, size = 0.0, 0.0, len(order)
    for count, place in enumerate(order, 1):
        worth += worths[place]
        rate = worth / batch_s(count)
        if count >= least and rate >= best:
            best, size = rate, count
    return set(order[:size])


def fitting(jobs: Sequence[Verify], limits: CloudLimits) -> list[Verify]:
    """As many of the first as one batch holds. Beside others a robot has its share of the rows, to which a
    longer draft is cut.
    """
    owners = {job.key.peer.owner for job in jobs}
    share = limits.batch_tokens if len(owners) == 1 else limits.shared_tokens
    room = dict.fromkeys(owners, share)
    total, batch = max(share, limits.batch_tokens), []
    for job in jobs:
        length = min(len(job.draft) + 1, room[job.key.peer.owner], total)
        if length > min(1, len(job.draft)):
            room[job.key.peer.owner] -= length
            total -= length
            batch.append(job if length > len(job.draft) else _cut(job, length - 1))
    return batch


def _cut(job: Verify, length: int) -> Verify:
    return job._replace(draft=job.draft[:length], evidence=job.evidence[:length])
