# SPDX-License-Identifier: Apache-2.0
"""Decides what the target runs next: whose turn it is, and which verifications share a batch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from outrider.core.frames import Peer
from outrider.core.token_bucket import TokenBucket
from outrider.decoding.cloud.batch_selection import Candidate, fitting, select_batch, select_drafting
from outrider.decoding.cloud.session import Session, SessionTable
from outrider.decoding.cloud.target_sequence import TargetSequence
from outrider.decoding.jobs import CloudDraft, CloudJob, PrefillTarget, SessionKey, Verify
from outrider.decoding.policy.estimators import BatchTime, SteadyAcceptance
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning


class StartTimeFairQueue:
    """Decides whose turn it is, by start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996).

    All owners weigh the same. An idle owner earns no credit: on return it starts level with the busy owner
    that has used the least time. An owner is held back for a lead of at most `max_lead_s` over the others.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._max_lead_s = tuning.max_lead_s
        self._finish_tags_s: dict[Hashable, float] = {}
        self._virtual_time_s = 0.0

    def start_tag_s(self, owner: Hashable) -> float:
        """Return an owner's used time in the queue's terms; the owner with the least has the next turn."""
        return max(self._virtual_time_s, self._finish_tags_s.get(owner, 0.0))

    def advance(self, owners: Iterable[Hashable]) -> None:
        """Advance the queue to the least used time among the owners that have work."""
        self._virtual_time_s = min(
            (self.start_tag_s(owner) for owner in owners), default=self._virtual_time_s
        )

    def charge(self, owner: Hashable, used_s: float) -> None:
        """Charge an owner for the time of its turn."""
        self._finish_tags_s[owner] = min(
            self.start_tag_s(owner) + used_s, self._virtual_time_s + self._max_lead_s
        )

    def keep_only(self, owners: Collection[Hashable]) -> None:
        """Forget all other owners."""
        for owner in [owner for owner in self._finish_tags_s if owner not in owners]:
            del self._finish_tags_s[owner]


class Chosen(NamedTuple):
    """The next batch: the indices of its members, and of those members that the cloud first drafts for."""

    joining: set[int]
    drafting: set[int]


class BatchPrices:
    """Times of one verifier's batches, and the worth of a second of its target's device if it is shared.

    Times are seconds. The cost of a slot in a batch beyond its time is `slot_tokens` and `wait_tokens` of
    `decoding.tuning`.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        self.verify_time, self._draft_time = BatchTime(tuning), BatchTime(tuning, unseen_s=0.0)
        self._num_chosen = 0
        self._rate = 0.0
        """Tokens per second of the batch that was chosen last."""
        self.acceptance = SteadyAcceptance(tuning)
        """Acceptance of the cloud's draft over the texts of all robots."""
        self.part_alone = 1.0
        """The time of a batch of one text, as a share of the time of the last batch."""

    def on_batch(self, verified: int, drafted: int, used_s: float, whole: bool) -> None:
        """Record the time of a batch of verifications or drafts; `whole`: it was not aborted."""
        if whole and verified and used_s > 0.0:
            self.verify_time.add(verified, used_s)
        if drafted:
            self._draft_time.add(drafted, used_s)
        size = max(1, verified + drafted)
        self.part_alone = self.verify_time.seconds(1) / self.verify_time.seconds(size)

    def choose(self, candidates: Sequence[Candidate]) -> Chosen:
        """Return the batch of most tokens per second. Every `size_trials_apart` choices, try a neighbouring
        size whose time is not known instead.
        """
        verify_s, draft_s = self.verify_time.seconds, self._draft_time.seconds
        self._num_chosen += 1
        tries = self._tuning.select_batch and self._num_chosen % self._tuning.size_trials_apart == 0
        neighbour = self.verify_time.untimed_neighbour if tries else None
        prices = self._tuning, draft_s, self._rate
        joining, self._rate = select_batch(candidates, verify_s, *prices, neighbour)
        batch: Mapping[int, Candidate] = {index: candidates[index] for index in joining}
        return Chosen(joining, select_drafting(batch, self._rate, draft_s))


_NO_LIMIT = 1e12


class TargetScheduler:
    """Schedules the sessions of one verifier. Robots with work share the model fairly. Times are seconds."""

    def __init__(
        self,
        sessions: SessionTable,
        limits: CloudLimits,
        tuning: AdaptiveTuning = DEFAULT_TUNING,
        drafts: bool = False,
    ) -> None:
        """`drafts`: whether the cloud has a draft model in addition to the target."""
        self._sessions, self._limits, self._tuning, self._drafts = sessions, limits, tuning, drafts
        self._shares = StartTimeFairQueue(tuning)
        self._buckets: dict[str | bytes, TokenBucket] = {}
        self._parts_run = 0
        self._prices = BatchPrices(tuning)
        self.alone = True
        """Whether the running batch has one job."""
        self.waited_s: list[float] = []
        """How long frames waited for the jobs that were returned last."""

    @property
    def part_alone(self) -> float:
        """The time of a batch of one text, as a share of the time of the last batch."""
        return self._prices.part_alone

    def next_jobs(self, now_s: float) -> list[CloudJob]:
        """Return the jobs to run now: the ready verifications that fit a batch, or a part of a prompt, or
        one token of the cloud's draft for each text that gains by it.

        A prompt's turn comes when its robot has used no more time than those that wait for a verification
        have used on average (see `_prompt`). Early exits help a robot to be ready when the model is: while
        other work waits, they are not read.
        """
        if self._drafts:
            self._note_sharing()
        ready = [job for text in self._sessions.texts if (job := text.next_job()) is not None]
        self._shares.advance(job.key.peer.owner for job in ready)
        ready.sort(key=self._start_tag_s)
        prompts = [job for job in ready if isinstance(job, PrefillTarget)]
        work = [job for job in ready if not isinstance(job, PrefillTarget)]
        waiting = [job for job in work if self._bucket(job.key.peer, now_s).ready_s(now_s) <= now_s]
        prompt = self._prompt(prompts, waiting)
        jobs: list[CloudJob] = [*(prompt or self._next_batch(waiting))]
        if len(jobs) < len(prompts) + len(waiting):
            jobs = [_without_hints(job) for job in jobs]
        self._begin(jobs, now_s)
        return jobs

    def draft_ahead(self, running: CloudJob) -> list[CloudDraft]:
        """Return where the draft model should continue, as one batch on a device of its own, while the
        target verifies for the only robot that uses it.
        """
        text = self._only_text()
        if not isinstance(running, Verify) or text is not self._sessions.text_of(running.key, running.epoch):
            return []
        return [] if text is None else text.draft_ahead(running.draft)

    def next_ready_s(self, now_s: float) -> float | None:
        """Return when to ask for a job again even without a new frame; None if only a frame can bring one."""
        times_s = [self._allowed_s(key, session, now_s) for key, session in self._sessions.items()]
        return min((time_s for time_s in times_s if time_s is not None), default=None)

    def charge(self, jobs: Sequence[CloudJob], used_s: float, whole: bool = True) -> None:
        """Charge the time of a batch, or of a part of one, to its robots by their rows."""
        sizes = [job.num_rows if isinstance(job, Verify) else 1 for job in jobs]
        row_s = used_s / sum(sizes) if sizes else 0.0
        for job, size in zip(jobs, sizes, strict=True):
            self._shares.charge(job.key.peer.owner, size * row_s)
        drafted = sum([isinstance(job, CloudDraft) for job in jobs])
        forwarded = sum([isinstance(job, Verify) and job.needs_forward for job in jobs])
        self._prices.on_batch(forwarded, drafted, used_s, whole)

    def refund(self, job: Verify) -> None:
        """Count the rows of an aborted verification as unspent in the robot's allowance."""
        bucket = self._buckets.get(job.key.peer.owner)
        if bucket is not None:
            bucket.give_back(job.num_rows)

    def keep_only(self, owners: Collection[str | bytes]) -> None:
        """Forget the usage of all other owners."""
        self._shares.keep_only(owners)
        for owner in [owner for owner in self._buckets if owner not in owners]:
            del self._buckets[owner]

    def _start_tag_s(self, job: CloudJob) -> float:
        return self._shares.start_tag_s(job.key.peer.owner)

    def _prompt(
        self, prompts: Sequence[PrefillTarget], drafts: Sequence[Verify | CloudDraft]
    ) -> tuple[PrefillTarget] | None:
        """Return the prompt whose turn it is; one that has begun comes first.

        While drafts wait, at most `prompt_parts` parts run in a row. A prompt may go first although its
        robot has used more time than those that wait to verify, by up to `prompt_lead_s`, if its last text
        took `prompt_lead_after` verifications: the robot waits for its first line, and the other robots'
        batch grows meanwhile.
        """
        tuning = self._tuning
        if not prompts or (drafts and self._parts_run >= tuning.prompt_parts):
            return None
        first = min(prompts, key=lambda job: not self._sessions[job.key].prefilling)
        mean_s = statistics.fmean(map(self._start_tag_s, drafts)) if drafts else math.inf
        earned = self._sessions[first.key].verified >= tuning.prompt_lead_after
        lead_s = tuning.prompt_lead_s if earned else 0.0
        return (first,) if self._start_tag_s(first) <= mean_s + lead_s else None

    def _next_batch(self, jobs: Sequence[Verify | CloudDraft]) -> Sequence[CloudJob]:
        """Return the verifications that are worth most together, or first a token of the cloud's draft for
        those that gain by it. A single job never waits, nor do first tokens, which take no time.
        """
        costly = [job for job in jobs if isinstance(job, CloudDraft) or job.needs_forward]
        if len(costly) < 2:
            return [job for job in jobs if isinstance(job, CloudDraft)] or self._verified(jobs)
        chosen = self._prices.choose([self._candidate(job) for job in costly])
        if chosen.drafting:
            return [job for index, job in enumerate(costly) if index in chosen.drafting]
        left_out = {job.key for index, job in enumerate(costly) if index not in chosen.joining}
        for key in left_out:
            self._sessions[key].left_out += 1
        return self._verified([job for job in jobs if job.key not in left_out])

    def _verified(self, jobs: Sequence[Verify | CloudDraft]) -> list[Verify]:
        """Return the verifications of these texts that are ready, as far as they fit a batch."""
        ready = [job if isinstance(job, Verify) else self._undrafted(job) for job in jobs]
        return fitting([job for job in ready if job is not None], self._limits)

    def _undrafted(self, job: CloudDraft) -> Verify | None:
        """Return the verification of a text without further drafting by the cloud."""
        text = self._sessions.text_of(job.key, job.epoch)
        return None if text is None else text.verification()

    def _candidate(self, job: Verify | CloudDraft) -> Candidate:
        session = self._sessions[job.key]
        assert session.text is not None
        longest = self._limits.shared_tokens - 1
        if isinstance(job, CloudDraft):
            begun, prospect = session.verified > 0, session.text.prospect(0, longest)
        else:
            ready = session.text.prospect(len(job.draft), longest)
            begun, prospect = bool(job.tokens), ready._replace(next_chance=0.0)
        # The robot waits for its text's first line, and a policy that never waits for drafts gains nothing
        # from waiting.
        can_wait = begun and not session.text.policy.never_waits
        can_wait = can_wait and session.left_out < self._limits.most_left_out
        tokens, *chances = prospect
        return Candidate(tokens, session.left_out, can_wait, *chances)

    def _bucket(self, peer: Peer, now_s: float) -> TokenBucket:
        owner = peer.owner
        if owner not in self._buckets:
            rate = min(self._limits.tokens_per_s, _NO_LIMIT)
            self._buckets[owner] = TokenBucket(rate, rate, now_s)
        return self._buckets[owner]

    def _begin(self, jobs: Sequence[CloudJob], now_s: float) -> None:
        """Note how long the jobs have waited, and move their sessions to the end, so that others go first."""
        self.waited_s = []
        self.alone = len(jobs) == 1
        self._parts_run = self._parts_run + 1 if jobs and isinstance(jobs[0], PrefillTarget) else 0
        for job in jobs:
            session = self._sessions[job.key] = self._sessions.pop(job.key)
            if isinstance(job, Verify):
                session.left_out = 0
                session.verified += 1
                self._bucket(job.key.peer, now_s).spend(job.num_rows, now_s)
                if session.text is not None:
                    session.text.on_begun(now_s)
            elif isinstance(job, PrefillTarget):
                session.prefilling = True
            if session.waiting_since_s is not None:
                self.waited_s.append(now_s - session.waiting_since_s)
                session.waiting_since_s = None

    def _allowed_s(self, key: SessionKey, session: Session, now_s: float) -> float | None:
        """Return when a text with work may continue if its robot has used up its allowance; else None."""
        allowed_s = self._bucket(key.peer, now_s).ready_s(now_s)
        waits = allowed_s > now_s and session.text is not None and session.text.next_job() is not None
        return allowed_s if waits else None

    def _only_text(self) -> TargetSequence | None:
        """Return the only unfinished text, if its robot may use all of the model's time; else None."""
        unfinished = [text for text in self._sessions.texts if not (text.finished or text.on_standby)]
        alone = len(unfinished) == 1 and self._limits.tokens_per_s == math.inf
        return unfinished[0] if alone else None

    def _note_sharing(self) -> None:
        """Note in every session whether it shares the target."""
        shared = len([session for session in self._sessions.values() if not session.is_idle]) > 1
        for session in self._sessions.values():
            session.estimates.cloud.share(self._prices.acceptance if shared else None)


def _without_hints(job: CloudJob) -> CloudJob:
    return job._replace(hints=False) if isinstance(job, Verify) and job.hints else job
