# SPDX-License-Identifier: Apache-2.0
"""The cloud's state machine: a bounded table of sessions that share one model. No socket, no clock."""

from __future__ import annotations

from collections.abc import Sequence
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
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.cloud.admission import (
    Presence,
    busy_message,
    drop_idle,
    is_busy,
    make_room,
    to_probe,
)
from outrider.decoding.cloud.scheduler import TargetScheduler
from outrider.decoding.cloud.session import Session, SessionTable
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


class Reply(NamedTuple):
    """Send a frame to a peer; it may get lost."""

    peer: Peer
    frame: CloudFrame


class HintedExit(NamedTuple):
    """The hints to send for an early exit, and whether to abort its verification after what it predicted."""

    replies: list[Reply]
    should_abort: bool


class CloudMachine:
    """Turns frames and finished jobs into replies. `scheduler` decides what runs in between."""

    def __init__(
        self,
        name: str,
        tokenizer: Tokenizer,
        limits: CloudLimits,
        tuning: AdaptiveTuning = DEFAULT_TUNING,
        drafts: bool = False,
    ) -> None:
        """`drafts`: whether the cloud has a draft model in addition to the target."""
        self._drafts = drafts
        self._name = name[:MAX_SHORT_TEXT]
        self._tokenizer = tokenizer
        self._limits = limits
        self._tuning = tuning
        self._sessions = SessionTable()
        self.scheduler = TargetScheduler(self._sessions, limits, tuning, drafts)
        """Decides which jobs run next."""

    @property
    def keys(self) -> frozenset[SessionKey]:
        """The keys of all sessions that are held."""
        return frozenset(self._sessions)

    def receive(self, peer: Peer, frame: EdgeFrame, now_s: float) -> list[Reply]:
        """Return the replies to a frame, however late, duplicated or out of order. An invalid frame is
        refused, to its sender only.
        """
        key = SessionKey(peer, frame.session)
        try:
            frames = self._dispatch(key, frame, now_s)
        except (ConfigError, ProtocolError, ModelError) as error:
            frames = self._refuse(key, frame.epoch, reason_of(error), str(error))
        probes = self._probes(now_s) if any(map(is_busy, frames)) else []
        return [*probes, *[Reply(peer, answer) for answer in frames]]

    def hint(self, job: Verify, hint: ExitHint, now_s: float) -> HintedExit:
        """Return what follows from an early exit's prediction while its job still runs. A verification whose
        text was cancelled or replaced should be aborted.
        """
        text = self._sessions.text_of(job.key, job.epoch)
        if text is None:
            return HintedExit([], True)
        frames = text.on_hint(job, hint, self._limits.batch_tokens - 1, now_s)
        return HintedExit([Reply(job.key.peer, frame) for frame in frames], text.should_abort(job))

    def on_aborted(self, job: CloudJob, now_s: float) -> None:
        """Note an abort. The rows of a verification count as unspent in the robot's allowance."""
        if not isinstance(job, Verify):
            return
        self.scheduler.refund(job)
        text = self._sessions.text_of(job.key, job.epoch)
        if text is not None:
            text.on_aborted(job, now_s)

    def complete(
        self, job: TargetJob, judgement: Judgement | None, compute_s: float, now_s: float
    ) -> list[Reply]:
        """Return the replies to the result of a job; none if its text was cancelled or replaced."""
        text = self._sessions.text_of(job.key, job.epoch)
        if text is None:
            return []
        self._sessions[job.key].prefilling = False
        compute_us = min(int(compute_s * 1e6), (1 << 32) - 1)
        if isinstance(job, PrefillTarget):
            self._sessions[job.key].verified = 0
            frames = text.on_prefilled(job, compute_us)
        else:
            assert judgement is not None
            shared = self.scheduler.alone, self.scheduler.part_alone
            frames = text.on_judged(job, judgement, compute_us, now_s, *shared)
        return [Reply(job.key.peer, frame) for frame in frames]

    def drafted(self, drafted: Sequence[tuple[CloudDraft, Choices | None]], compute_s: float) -> None:
        """Record a batch of the cloud's own draft at one or more positions of a text, and its time. Choices
        are None if the cloud cannot draft that text.
        """
        job, _ = drafted[0]
        text = self._sessions.text_of(job.key, job.epoch)
        if text is not None:
            text.on_drafted(drafted, compute_s * self.scheduler.part_alone)

    def fail(self, job: CloudJob, error: Exception) -> list[Reply]:
        """Return the refusal for a job that failed. Its text ends; no other does."""
        reason = reason_of(error)
        if self._sessions.text_of(job.key, job.epoch) is None:
            return []
        return [Reply(job.key.peer, frame) for frame in self._refuse(job.key, job.epoch, reason, str(error))]

    def evict_idle(self, now_s: float) -> None:
        """Close the sessions of silent peers, and forget the usage of owners who have no session left."""
        drop_idle(self._sessions, self._limits.idle_s, now_s)
        self.scheduler.keep_only({key.peer.owner for key in self._sessions})

    def _dispatch(self, key: SessionKey, frame: EdgeFrame, now_s: float) -> list[CloudFrame]:
        session = self._sessions.get(key)
        if session is not None:
            session.presence.last_frame_s = now_s
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
            session = self._sessions[key] = Session(
                frame.epoch,
                Presence(now_s),
                SessionEstimates(self._tuning, self._drafts),
                waiting_since_s=now_s,
            )
        elif frame.epoch < session.epoch or (frame.epoch == session.epoch and session.text is None):
            return session.refusal_of(frame.epoch)
        if session.text is not None and frame.epoch == session.epoch:
            before, frames = session.text.digest, session.text.on_open(frame)
            if session.text.digest != before:  # a prefill begun for the old text no longer goes first
                session.prefilling = False
            return frames
        session.epoch, session.prefilling, session.waiting_since_s = frame.epoch, False, now_s
        session.text = TargetSequence(
            key, frame, self._name, self._tokenizer, session.estimates, self._drafts
        )
        return []

    def _on_text_frame(
        self, key: SessionKey, frame: Resume | Draft | Proposal | StandBy, now_s: float
    ) -> list[CloudFrame]:
        session = self._sessions.get(key)
        if session is None or frame.epoch > session.epoch:
            return [PrefillAgain(frame.session, frame.epoch)]
        text = self._sessions.text_of(key, frame.epoch)
        if text is None:
            return session.refusal_of(frame.epoch)
        if isinstance(frame, StandBy):
            text.stand_by()
            session.waiting_since_s = None
            return []
        if isinstance(frame, Resume):
            return text.on_resume(frame)
        if session.waiting_since_s is None and not text.finished:
            session.waiting_since_s = now_s
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

    def _refuse(self, key: SessionKey, epoch: int, reason: RefusalReason, message: str) -> list[CloudFrame]:
        refusal = Refused(key.session, epoch, reason, message[:MAX_SHORT_TEXT])
        session = self._sessions.get(key)
        if session is not None and session.epoch == epoch:
            session.text, session.refusal = None, refusal
            if reason == "busy":  # this may pass: a repeated Open tries again
                del self._sessions[key]
        return [refusal]

    def _probes(self, now_s: float) -> list[Reply]:
        """Return a frame to each silent session: sending it shows the server which peers it cannot reach."""
        silent = to_probe(self._sessions, self._limits, now_s)
        return [Reply(key.peer, self._pong(key.session, session.epoch)) for key, session in silent]

    def _pong(self, session: int, epoch: int) -> Pong:
        name, vocab_size = self._name, self._tokenizer.vocab_size
        return Pong(session, epoch, name, vocab_size, len(self._sessions), self._limits.max_sessions)
