# SPDX-License-Identifier: Apache-2.0
"""Selects the verifications of the next batch, where robots share one verifier, by their worth and size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from outrider.decoding.jobs import Verify
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

MAX_DRAFTED = 12
"""Most tokens of the cloud's draft that are considered for one verification."""


class Candidate(NamedTuple):
    """A verification that is ready. `tokens`: its expected yield; `left_out`: how many batches in a row
    have begun without it; `can_wait`: whether another one may.

    `next_chance`: that one more token, drafted by the cloud first, is accepted; 0 if it drafts none.
    `later_chance`: that of each further token, given that all before it are accepted.
    """

    tokens: float
    left_out: int
    can_wait: bool
    next_chance: float = 0.0
    later_chance: float = 0.0

    def worth(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> float:
        """Return the worth in tokens, less the fixed cost of a slot in a batch: a verification that waits
        has more to verify in its next forward. Each batch that began without it adds to its worth.
        """
        return self.tokens - tuning.slot_tokens + tuning.wait_tokens * self.left_out

    def drafted_gain(self, token_price: float) -> float:
        """Return the tokens gained by all cloud drafts that are worth `token_price` tokens each."""
        gain, chance = 0.0, self.next_chance
        for _ in range(MAX_DRAFTED):
            gain += max(0.0, chance - token_price)
            chance *= self.later_chance
        return gain


class BatchSum:
    """The verifications of one batch: their total worth, and that of the cloud's drafts before it."""

    def __init__(self, tuning: AdaptiveTuning) -> None:
        self._tuning = tuning
        self._worth = self._next = self._later = 0.0
        self._size = self._drafting = 0

    def add(self, candidate: Candidate) -> None:
        """Add a verification."""
        self._size += 1
        self._worth += candidate.worth(self._tuning)
        if candidate.next_chance > 0.0:
            self._drafting += 1
            self._next += candidate.next_chance
            self._later += candidate.later_chance

    def rate(self, batch_s: Callable[[int], float], draft_s: Callable[[int], float]) -> float:
        """Return the highest tokens per second, with as many rounds of drafting by the cloud as raise it."""
        worth, time_s = self._worth, batch_s(self._size)
        if not self._drafting:
            return worth / time_s
        gain, token_s, later = self._next, draft_s(self._drafting), self._later / self._drafting
        for _ in range(MAX_DRAFTED):
            if gain * time_s <= worth * token_s:
                break
            worth, time_s, gain = worth + gain, time_s + token_s, gain * later
        return worth / time_s


def select_batch(
    candidates: Sequence[Candidate],
    batch_s: Callable[[int], float],
    tuning: AdaptiveTuning = DEFAULT_TUNING,
    draft_s: Callable[[int], float] = lambda size: 0.0,
    price: float = 0.0,
    neighbour: Callable[[int], int] | None = None,
) -> tuple[set[int], float]:
    """Return the indices of the candidates that form the batch of most worth per second, and that worth.

    At least one candidate is chosen. `batch_s`: time of a batch by its size; `draft_s`: time of one cloud
    draft token by the number of texts; `price`: recent worth of a second, in tokens; `neighbour`: gives a
    size to try instead of the best one, if that leaves some out.

    If most of the time is a fixed cost, all join. If each further one adds time, those with the lowest yield
    wait; their robots may draft more meanwhile. If the added time grows with the batch, some wait even among
    equals: the last in order.
    """
    num_drafting = sum(candidate.next_chance > 0.0 for candidate in candidates)
    token_price = price * draft_s(num_drafting) / num_drafting if num_drafting else 0.0
    values = [candidate.worth(tuning) + candidate.drafted_gain(token_price) for candidate in candidates]
    order = sorted(range(len(candidates)), key=lambda index: (candidates[index].can_wait, -values[index]))
    least = sum(not candidate.can_wait for candidate in candidates)
    batch, best, size = BatchSum(tuning), 0.0, len(order)
    for count, index in enumerate(order, 1):
        batch.add(candidates[index])
        rate = batch.rate(batch_s, draft_s)
        if count >= least and (rate >= best if tuning.select_batch else count == len(order)):
            best, size = rate, count
    if neighbour is not None and size < len(order) and least <= neighbour(size) <= len(order):
        size = neighbour(size)
    return set(order[:size]), best


def select_drafting(
    candidates: Mapping[int, Candidate], price: float, draft_s: Callable[[int], float]
) -> set[int]:
    """Return the indices of the candidates for which the cloud should first draft, at a cost to all."""
    by_chance = sorted(candidates, key=lambda index: -candidates[index].next_chance)
    best, size, gain = 0.0, 0, 0.0
    for count, index in enumerate(by_chance, 1):
        if candidates[index].next_chance <= 0.0:
            break
        gain += candidates[index].next_chance
        if gain - price * draft_s(count) > best:
            best, size = gain - price * draft_s(count), count
    return set(by_chance[:size])


def fitting(jobs: Sequence[Verify], limits: CloudLimits) -> list[Verify]:
    """Return the first jobs that fit one batch. If robots share it, each may use at most `shared_tokens`
    rows, to which a longer draft is cut.
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
