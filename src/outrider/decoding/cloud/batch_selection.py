# SPDX-License-Identifier: Apache-2.0
"""Which verifications make up the next batch, where robots share one verifier: what is worth it and fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from outrider.decoding.jobs import Verify
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

MOST_DRAFTED = 12
"""Tokens of the cloud's draft for one verification that are weighed."""


class Candidate(NamedTuple):
    """A verification that is ready: the `tokens` that it is expected to yield, how many batches in a row have
    begun without it, and whether another one may.

    `next_chance`: that one more token counts, which the cloud drafts before, 0 where it drafts none;
    `later_chance`: that of each further one, where those before it count.
    """

    tokens: float
    left_out: int
    can_wait: bool
    next_chance: float = 0.0
    later_chance: float = 0.0

    def worth(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> float:
        """In tokens. A place is worth something beside its time: a pass that is spared leaves the next one
        more to verify.
        """
        return self.tokens - tuning.place_tokens + tuning.wait_tokens * self.left_out

    def drafted_gain(self, token_price: float) -> float:
        """Returns the tokens gained by as many of the cloud's drafts as are worth a price in tokens each."""
        gain, chance = 0.0, self.next_chance
        for _ in range(MOST_DRAFTED):
            gain += max(0.0, chance - token_price)
            chance *= self.later_chance
        return gain


class BatchSum:
    """Verifications that make one batch: what they are worth together, and the cloud's drafts before it."""

    def __init__(self, tuning: AdaptiveTuning) -> None:
        self._tuning = tuning
        self._worth = self._next = self._later = 0.0
        self._size = self._drafting = 0

    def add(self, one: Candidate) -> None:
        """Another one joins."""
        self._size += 1
        self._worth += one.worth(self._tuning)
        if one.next_chance > 0.0:
            self._drafting += 1
            self._next += one.next_chance
            self._later += one.later_chance

    def rate(self, batch_s: Callable[[int], float], draft_s: Callable[[int], float]) -> float:
        """Returns the most tokens a second: with as many drafts of the cloud as raise it, all at once."""
        worth, time_s = self._worth, batch_s(self._size)
        if not self._drafting:
            return worth / time_s
        gain, token_s, later = self._next, draft_s(self._drafting), self._later / self._drafting
        for _ in range(MOST_DRAFTED):
            if gain * time_s <= worth * token_s:
                break
            worth, time_s, gain = worth + gain, time_s + token_s, gain * later
        return worth / time_s


def worth_joining(
    candidates: Sequence[Candidate],
    batch_s: Callable[[int], float],
    tuning: AdaptiveTuning = DEFAULT_TUNING,
    draft_s: Callable[[int], float] = lambda size: 0.0,
    price: float = 0.0,
    beside: Callable[[int], int] | None = None,
) -> tuple[set[int], float]:
    """The indices of those that make the batch of the most worth a second, never none; and that worth.

    `batch_s`: the time of a batch of so many; `draft_s`: of a token that the cloud drafts for so many;
    `price`: what a second was worth lately, in tokens; `beside`: the size to try in place of the
    best, where that leaves some out.

    Where the time is mostly what the first one takes, all join; where every further one takes time of its
    own, steps and short drafts wait until they have grown; where it takes more than in a batch of fewer, the
    last of equals wait for the next one.
    """
    wanting = sum(one.next_chance > 0.0 for one in candidates)
    token_price = price * draft_s(wanting) / wanting if wanting else 0.0
    values = [one.worth(tuning) + one.drafted_gain(token_price) for one in candidates]
    order = sorted(range(len(candidates)), key=lambda index: (candidates[index].can_wait, -values[index]))
    least = sum(not candidate.can_wait for candidate in candidates)
    batch, best, size = BatchSum(tuning), 0.0, len(order)
    for count, index in enumerate(order, 1):
        batch.add(candidates[index])
        rate = batch.rate(batch_s, draft_s)
        if count >= least and (rate >= best if tuning.select_batch else count == len(order)):
            best, size = rate, count
    if beside is not None and size < len(order) and least <= beside(size) <= len(order):
        size = beside(size)
    return set(order[:size]), best


def worth_drafting(
    candidates: Mapping[int, Candidate], price: float, draft_s: Callable[[int], float]
) -> set[int]:
    """The indices of those in a batch for which the cloud should draft a token before, in everyone's time."""
    wanting = sorted(candidates, key=lambda index: -candidates[index].next_chance)
    best, size, gain = 0.0, 0, 0.0
    for count, index in enumerate(wanting, 1):
        if candidates[index].next_chance <= 0.0:
            break
        gain += candidates[index].next_chance
        if gain - price * draft_s(count) > best:
            best, size = gain - price * draft_s(count), count
    return set(wanting[:size])


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
            batch.append(job._replace(draft=job.draft[: length - 1], evidence=job.evidence[: length - 1]))
    return batch
