# SPDX-License-Identifier: Apache-2.0
"""The cloud's state machine: a bounded table of sessions that share one model. No socket, no clock."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from outrider.core.errors import ConfigError, ModelError, ProtocolError
from outrider.core.frames import (
    MAX_SHORT_TEXT,
    Behind,
    Cancel,
    Close,
    CloudFrame,
    Draft,
    Drafted,
    EdgeFrame,
    Join,
    Open,
    Peer,
    Ping,
    Pong,
    PrefillAgain,
    Proposal,
    RefusalReason,
    Refused,
    Resume,
    Settled,
    StandBy,
)
from outrider.core.ports import Tokenizer
from outrider.core.token_bucket import TokenBucket
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.cloud.admission import (
    Presence,
    busy_message,
    drop_idle,
    is_busy,
    make_room,
    to_probe,
)
from outrider.decoding.cloud.batch_prices import BatchPrices
from outrider.decoding.cloud.batch_selection import Candidate, fitting
from outrider.decoding.cloud.fair_queue import StartTimeFairQueue
from outrider.decoding.cloud.target_sequence import TargetSequence
from outrider.decoding.jobs import (
    CloudDraft,
    CloudJob,
    ExitHint,
    Judgement,
    PrefillTarget,
    SessionKey,
    TargetJob,
    Verify,
)
from outrider.decoding.policy.session_estimates import SessionEstimates
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.protocol.refusals import check_served, check_tokenizer, reason_of
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

_NO_LIMIT = 1e12


class Reply(NamedTuple):
    """Send a frame to a peer; it may get lost."""

    peer: Peer
    frame: CloudFrame


@dataclass
class _Session:
    """A place in the table. `epoch` is the newest one seen; `text` is None once cancelled or refused.

    `asked_s`: since when a frame waits for the model; `verified`: how often since its last prompt;
    `left_out`: of how many batches in a row, though ready.
    """

    epoch: int
    presence: Presence
    estimates: SessionEstimates
    text: TargetSequence | None = None
    refusal: Refused | None = None
    asked_s: float | None = None
    prefilling: bool = False
    verified: int = 0
    left_out: int = 0

    @property
    def refused(self) -> bool:
        return self.text is None and self.refusal is not None

    @property
    def rests(self) -> bool:
        return self.text is None or self.text.finished

    def closing_words(self, epoch: int) -> list[CloudFrame]:
        """What a peer is told that still asks for a text that is no more."""
        return [self.refusal] if self.refusal is not None and self.refusal.epoch == epoch else []


class CloudMachine:
    """Frames and finished jobs in, replies out. Robots with work share the model fairly."""

    def __init__(
        self,
        name: str,
        tokenizer: Tokenizer,
        limits: CloudLimits,
        tuning: AdaptiveTuning = DEFAULT_TUNING,
        drafts: bool = False,
    ) -> None:
        """`drafts`: whether a draft model stands beside the target."""
        self._drafts = drafts
        self._name = name[:MAX_SHORT_TEXT]
        self._tokenizer = tokenizer
        self._limits = limits
        self._sessions: dict[SessionKey, _Session] = {}
        self._tuning = tuning
        self._shares = StartTimeFairQueue(tuning)
        self._buckets: dict[str | bytes, TokenBucket] = {}
        self._parts_run = 0
        self._alone = True
        """Whether the batch that runs has one job."""
        self._prices = BatchPrices(tuning, drafts)
        self.waited_s: list[float] = []
        """How long frames have waited for the jobs that were asked for last."""

    @property
    def keys(self) -> frozenset[SessionKey]:
        """The sessions that hold a place."""
        return frozenset(self._sessions)

    def receive(self, peer: Peer, frame: EdgeFrame, now_s: float) -> list[Reply]:
        """A frame, however late, doubled or out of order. Wrong ones are refused, to that peer only."""
        key = SessionKey(peer, frame.session)
        try:
            frames = self._dispatch(key, frame, now_s)
        except (ConfigError, ProtocolError, ModelError) as error:
            frames = self._refuse(key, frame.epoch, reason_of(error), str(error))
        probes = self._probes(now_s) if any(map(is_busy, frames)) else []
        return [*probes, *[Reply(peer, answer) for answer in frames]]

    def next_jobs(self, now_s: float) -> list[CloudJob]:
        """What the models should do now: all that is ready to verify, within a batch, or a part of a prompt,
        or a token of every text that the cloud's own draft should go on with.

        A prompt's turn comes when its robot has had little more than those that wait for a verification.
        Early exits help a robot to be ready when the model is: while other work waits they are not asked.
        """
        if self._drafts:
            self._note_sharing()
        ready = [job for text in self._texts() if (job := text.next_job()) is not None]
        self._shares.advance(job.key.peer.owner for job in ready)
        ready.sort(key=self._standing_s)
        prompts = [job for job in ready if isinstance(job, PrefillTarget)]
        waiting = [
            job for job in ready if not isinstance(job, PrefillTarget) and self._may_verify(job, now_s)
        ]
        prompt = self._prompt(prompts, waiting)
        jobs: list[CloudJob] = [*(prompt or self._next_batch(waiting))]
        if len(jobs) < len(prompts) + len(waiting):
            jobs = [_without_hints(job) for job in jobs]
        self._begin(jobs, now_s)
        return jobs

    def draft_ahead(self, running: CloudJob) -> list[CloudDraft]:
        """Where the draft model should go on, as one batch on a device of its own, while a verification of a
        robot runs that has the target to itself.
        """
        text = self._only_text()
        if not isinstance(running, Verify) or text is not self._text_of(running.key, running.epoch):
            return []
        return [] if text is None else text.draft_ahead(running.draft)

    def _only_text(self) -> TargetSequence | None:
        """What a robot writes that has the model to itself and may use all of its time."""
        unfinished = [text for text in self._texts() if not (text.finished or text.stands_by)]
        alone = len(unfinished) == 1 and self._limits.tokens_per_s == math.inf
        return unfinished[0] if alone else None

    def _note_sharing(self) -> None:
        """Tell every session whether it has the target to itself."""
        shared = len([session for session in self._sessions.values() if not session.rests]) > 1
        for session in self._sessions.values():
            session.estimates.cloud.share(self._prices.odds if shared else None)

    def _texts(self) -> list[TargetSequence]:
        return [session.text for session in self._sessions.values() if session.text is not None]

    def _standing_s(self, job: CloudJob) -> float:
        return self._shares.standing_s(job.key.peer.owner)

    def _may_verify(self, job: Verify | CloudDraft, now_s: float) -> bool:
        return self._bucket(job.key.peer, now_s).ready_s(now_s) <= now_s

    def _prompt(
        self, prompts: Sequence[PrefillTarget], drafts: Sequence[Verify | CloudDraft]
    ) -> tuple[PrefillTarget] | None:
        """The prompt whose turn it is; what is begun comes first.

        It may come first although its robot has had more of the model than those that wait to verify, where
        its last text took some verifications: it waits for its first line, and the others' batch grows.
        """
        tuning = self._tuning
        if not prompts or (drafts and self._parts_run >= tuning.prompt_parts):
            return None
        first = min(prompts, key=lambda job: not self._sessions[job.key].prefilling)
        mean_s = statistics.fmean(map(self._standing_s, drafts)) if drafts else math.inf
        earned = self._sessions[first.key].verified >= tuning.prompt_lead_after
        lead_s = tuning.prompt_lead_s if earned else 0.0
        return (first,) if self._standing_s(first) <= mean_s + lead_s else None

    def _next_batch(self, jobs: Sequence[Verify | CloudDraft]) -> Sequence[CloudJob]:
        """The verifications that are worth most together, or before that a token of the cloud's own draft for
        those of them that gain by it. One that is alone never waits, nor do first tokens, which take no time.
        """
        dear = [job for job in jobs if isinstance(job, CloudDraft) or job.needs_forward]
        if len(dear) < 2:
            return [job for job in jobs if isinstance(job, CloudDraft)] or self._verified(jobs)
        chosen = self._prices.choose([self._candidate(job) for job in dear])
        if chosen.drafting:
            return [job for index, job in enumerate(dear) if index in chosen.drafting]
        left_out = {job.key for index, job in enumerate(dear) if index not in chosen.joining}
        for key in left_out:
            self._sessions[key].left_out += 1
        return self._verified([job for job in jobs if job.key not in left_out])

    def _verified(self, jobs: Sequence[Verify | CloudDraft]) -> list[Verify]:
        """What lies ready of these texts, as far as it fits a batch."""
        ready = [job if isinstance(job, Verify) else self._undrafted(job) for job in jobs]
        return fitting([job for job in ready if job is not None], self._limits)

    def _undrafted(self, job: CloudDraft) -> Verify | None:
        """What the target verifies of a text that the cloud could draft for."""
        text = self._text_of(job.key, job.epoch)
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
        # A text's first line is what its robot waits for; and without drafts nobody comes while others wait.
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
        """Note how long the jobs have waited; among equals their sessions are the last to come again."""
        self.waited_s = []
        self._alone = len(jobs) == 1
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
            if session.asked_s is not None:
                self.waited_s.append(now_s - session.asked_s)
                session.asked_s = None

    def next_look_s(self, now_s: float) -> float | None:
        """When to ask for a job again although no frame has come; None where only a frame changes things."""
        looks = [self._allowed_s(key, session, now_s) for key, session in self._sessions.items()]
        return min((look_s for look_s in looks if look_s is not None), default=None)

    def _allowed_s(self, key: SessionKey, session: _Session, now_s: float) -> float | None:
        """When a text that has work may go on, where its robot has used up its allowance; else None."""
        allowed_s = self._bucket(key.peer, now_s).ready_s(now_s)
        waits = allowed_s > now_s and session.text is not None and session.text.next_job() is not None
        return allowed_s if waits else None

    def hint(self, job: Verify, hint: ExitHint, now_s: float) -> list[Reply]:
        """An early exit has spoken while its job still runs."""
        text = self._text_of(job.key, job.epoch)
        longest = self._limits.batch_tokens - 1
        frames = text.on_hint(job, hint, longest, now_s) if text is not None else []
        return [Reply(job.key.peer, frame) for frame in frames]

    def should_abort(self, job: Verify) -> bool:
        """Whether a running verification should be aborted."""
        text = self._text_of(job.key, job.epoch)
        return text is None or text.should_abort(job)

    def on_aborted(self, job: CloudJob, now_s: float) -> None:
        """A verification was aborted: its rows are the robot's to spend again."""
        bucket = self._buckets.get(job.key.peer.owner)
        if bucket is not None and isinstance(job, Verify):
            bucket.give_back(job.num_rows)
        text = self._text_of(job.key, job.epoch)
        if text is not None and isinstance(job, Verify):
            text.on_aborted(job, now_s)

    def complete(
        self, job: TargetJob, judgement: Judgement | None, compute_s: float, now_s: float
    ) -> list[Reply]:
        """The result of a job; that of a cancelled or replaced text is dropped."""
        text = self._text_of(job.key, job.epoch)
        if text is None:
            return []
        self._sessions[job.key].prefilling = False
        compute_us = min(int(compute_s * 1e6), (1 << 32) - 1)
        if isinstance(job, PrefillTarget):
            self._sessions[job.key].verified = 0
            frames = text.on_prefilled(job, compute_us)
        else:
            assert judgement is not None
            frames = text.on_judged(job, judgement, compute_us, now_s, self._alone, self._prices.part_alone)
        return [Reply(job.key.peer, frame) for frame in frames]

    def drafted(self, drafted: Sequence[tuple[CloudDraft, Choices | None]], compute_s: float) -> None:
        """The cloud's own draft has gone on at one or more places of a text, in a batch that took so long;
        None where it cannot draft that text.
        """
        job, _ = drafted[0]
        text = self._text_of(job.key, job.epoch)
        if text is not None:
            text.on_drafted(drafted, compute_s * self._prices.part_alone)

    def charge(self, jobs: Sequence[CloudJob], used_s: float, whole: bool = True) -> None:
        """So much of the model's time went into a batch, or a part of one; its robots have had it by their
        rows.
        """
        sizes = [job.num_rows if isinstance(job, Verify) else 1 for job in jobs]
        row_s = used_s / sum(sizes) if sizes else 0.0
        for job, size in zip(jobs, sizes, strict=True):
            self._shares.charge(job.key.peer.owner, size * row_s)
        drafted = sum([isinstance(job, CloudDraft) for job in jobs])
        forwarded = sum([isinstance(job, Verify) and job.needs_forward for job in jobs])
        self._prices.on_batch(forwarded, drafted, used_s, whole)

    def fail(self, job: CloudJob, error: Exception) -> list[Reply]:
        """A job could not be done: its text ends, nobody else's does."""
        reason = reason_of(error)
        if self._text_of(job.key, job.epoch) is None:
            return []
        return [Reply(job.key.peer, frame) for frame in self._refuse(job.key, job.epoch, reason, str(error))]

    def evict_idle(self, now_s: float) -> None:
        """Free the places of peers that were silent for too long, and forget what is kept of them beside."""
        drop_idle(self._sessions, self._limits.idle_s, now_s)
        owners = {key.peer.owner for key in self._sessions}
        self._shares.keep_only(owners)
        for owner in [owner for owner in self._buckets if owner not in owners]:
            del self._buckets[owner]

    def _dispatch(self, key: SessionKey, frame: EdgeFrame, now_s: float) -> list[CloudFrame]:
        session = self._sessions.get(key)
        if session is not None:
            session.presence.heard_s = now_s
        if isinstance(frame, Open):
            return self._on_open(key, frame, now_s)
        if isinstance(frame, Ping):
            return [self._pong(frame.session, frame.epoch)]
        if isinstance(frame, Cancel):
            return self._on_cancel(key, frame)
        if isinstance(frame, Close):
            self._sessions.pop(key, None)
            return []
        if isinstance(frame, (Join, Drafted, Settled, Behind)):
            raise ConfigError("this verifier answers no questions: start it with --corpus")
        return self._on_text_frame(key, frame, now_s)

    def _on_open(self, key: SessionKey, frame: Open, now_s: float) -> list[CloudFrame]:
        check_served(frame.model, self._name)
        check_tokenizer(frame.tokenizer, self._name, self._tokenizer)
        session = self._sessions.get(key)
        if session is None:
            self.evict_idle(now_s)
            if not make_room(self._sessions, self._limits, now_s):
                return [Refused(frame.session, frame.epoch, "busy", busy_message(self._limits))]
            session = self._sessions[key] = _Session(
                frame.epoch, Presence(now_s), SessionEstimates(self._tuning, self._drafts), asked_s=now_s
            )
        elif frame.epoch < session.epoch or (frame.epoch == session.epoch and session.text is None):
            return session.closing_words(frame.epoch)
        if session.text is not None and frame.epoch == session.epoch:
            before, frames = session.text.digest, session.text.on_open(frame)
            if session.text.digest != before:  # what was begun for it has no claim to come first any more
                session.prefilling = False
            return frames
        session.epoch, session.prefilling, session.asked_s = frame.epoch, False, now_s
        session.text = TargetSequence(key, frame, self._tokenizer, session.estimates, self._drafts)
        return []

    def _on_text_frame(
        self, key: SessionKey, frame: Resume | Draft | Proposal | StandBy, now_s: float
    ) -> list[CloudFrame]:
        session = self._sessions.get(key)
        if session is None or frame.epoch > session.epoch:
            return [PrefillAgain(frame.session, frame.epoch)]
        text = self._text_of(key, frame.epoch)
        if text is None:
            return session.closing_words(frame.epoch)
        if isinstance(frame, StandBy):
            text.stands_by, session.asked_s = True, None
            return []
        text.stands_by = False
        if isinstance(frame, Resume):
            return text.on_resume(frame)
        if session.asked_s is None and not text.finished:
            session.asked_s = now_s
        if isinstance(frame, Draft):
            text.on_draft(frame)
        else:
            text.on_proposal(frame)
        return []

    def _on_cancel(self, key: SessionKey, frame: Cancel) -> list[CloudFrame]:
        session = self._sessions.get(key)
        if session is not None and frame.epoch >= session.epoch:
            session.epoch, session.text = frame.epoch, None
        return []

    def _text_of(self, key: SessionKey, epoch: int) -> TargetSequence | None:
        session = self._sessions.get(key)
        return session.text if session is not None and session.epoch == epoch else None

    def _refuse(self, key: SessionKey, epoch: int, reason: RefusalReason, message: str) -> list[CloudFrame]:
        refusal = Refused(key.session, epoch, reason, message[:MAX_SHORT_TEXT])
        session = self._sessions.get(key)
        if session is not None and session.epoch == epoch:
            session.text, session.refusal = None, refusal
            if reason == "busy":  # for the time being, so that asked again it tries again
                del self._sessions[key]
        return [refusal]

    def _probes(self, now_s: float) -> list[Reply]:
        """A word to each silent one that holds a place: the server learns which peers it cannot reach."""
        silent = to_probe(self._sessions, now_s)
        return [Reply(key.peer, self._pong(key.session, session.epoch)) for key, session in silent]

    def _pong(self, session: int, epoch: int) -> Pong:
        name, vocab_size = self._name, self._tokenizer.vocab_size
        return Pong(session, epoch, name, vocab_size, len(self._sessions), self._limits.max_sessions)


def _without_hints(job: CloudJob) -> CloudJob:
    return job._replace(hints=False) if isinstance(job, Verify) and job.hints else job
