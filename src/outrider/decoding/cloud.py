"""The cloud's state machine: a bounded table of sessions that share one model. No socket, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from outrider.core.errors import ConfigError, ModelError, ProtocolError
from outrider.core.frames import (
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
)
from outrider.core.ports import Tokenizer
from outrider.decoding.jobs import CloudJob, ExitHint, Judgement, SessionKey, Verify
from outrider.decoding.pace import Pace
from outrider.decoding.refusals import reason_of
from outrider.decoding.session import TargetText


@dataclass(frozen=True)
class CloudLimits:
    """How many sessions one model serves, and how long an idle one keeps its place, in seconds."""

    max_sessions: int = 8
    idle_s: float = 120.0

    def __post_init__(self) -> None:
        if self.max_sessions < 1:
            raise ConfigError(f"max_sessions={self.max_sessions} must be at least 1")
        if not self.idle_s > 0:
            raise ConfigError(f"idle_s={self.idle_s} must be positive")


@dataclass(frozen=True)
class Reply:
    """Send a frame to a peer; it may get lost."""

    peer: Peer
    frame: CloudFrame


@dataclass
class _Session:
    """A place in the table. `epoch` is the newest one seen; `text` is None once cancelled or refused."""

    epoch: int
    last_heard_s: float
    pace: Pace = field(default_factory=Pace)
    text: TargetText | None = None
    refusal: Refused | None = None

    def closing_words(self, epoch: int) -> list[CloudFrame]:
        """What a peer is told that still asks for a text that is no more."""
        return [self.refusal] if self.refusal is not None and self.refusal.epoch == epoch else []


class CloudMachine:
    """Frames and finished jobs in, replies out. Sessions with work take turns."""

    def __init__(self, name: str, tokenizer: Tokenizer, limits: CloudLimits) -> None:
        self._name = name[:500]
        self._tokenizer = tokenizer
        self._limits = limits
        self._sessions: dict[SessionKey, _Session] = {}

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
        return [Reply(peer, answer) for answer in frames]

    def next_job(self, now_s: float) -> CloudJob | None:
        """The next work for the model; the session it belongs to goes to the end of the queue."""
        for key, session in list(self._sessions.items()):
            job = session.text.next_job(now_s) if session.text else None
            if job is not None:
                self._sessions[key] = self._sessions.pop(key)
                return job
        return None

    def next_look_s(self, now_s: float) -> float | None:
        """When to ask for a job again although no frame has come; None where only a frame changes things."""
        texts = [session.text for session in self._sessions.values() if session.text]
        return min((at for text in texts if (at := text.wait_until_s(now_s)) is not None), default=None)

    def hint(self, job: Verify, hint: ExitHint, now_s: float) -> list[Reply]:
        """An early exit has spoken while its job still runs."""
        text = self._text_of(job.key, job.epoch)
        frames = text.on_hint(job, hint, now_s) if text is not None else []
        return [Reply(job.key.peer, frame) for frame in frames]

    def complete(
        self, job: CloudJob, judgement: Judgement | None, compute_s: float, now_s: float
    ) -> list[Reply]:
        """The result of a job; that of a cancelled or replaced text is dropped."""
        text = self._text_of(job.key, job.epoch)
        if text is None:
            return []
        compute_us = min(int(compute_s * 1e6), (1 << 32) - 1)
        if isinstance(job, Verify) and judgement is not None:
            frames = text.on_judged(job, judgement, compute_us, now_s)
        else:
            frames = text.on_prefilled(compute_us)
        return [Reply(job.key.peer, frame) for frame in frames]

    def fail(self, job: CloudJob, error: Exception) -> list[Reply]:
        """A job could not be done: its text ends, nobody else's does."""
        reason = reason_of(error)
        if self._text_of(job.key, job.epoch) is None:
            return []
        return [Reply(job.key.peer, frame) for frame in self._refuse(job.key, job.epoch, reason, str(error))]

    def evict_idle(self, now_s: float) -> None:
        """Free the places of peers that were silent for too long. Should they return, they prefill again."""
        for key, session in list(self._sessions.items()):
            if now_s - session.last_heard_s > self._limits.idle_s:
                del self._sessions[key]

    def _evict_refused(self) -> None:
        """Free the places of texts that were refused; until they are needed the refusal is repeated there."""
        for key, session in list(self._sessions.items()):
            if session.text is None and session.refusal is not None:
                del self._sessions[key]

    def _dispatch(self, key: SessionKey, frame: EdgeFrame, now_s: float) -> list[CloudFrame]:
        session = self._sessions.get(key)
        if session is not None:
            session.last_heard_s = now_s
        if isinstance(frame, Open):
            return self._on_open(key, frame, now_s)
        if isinstance(frame, Ping):
            return [self._pong(frame)]
        if isinstance(frame, Cancel):
            return self._on_cancel(key, frame)
        if isinstance(frame, Close):
            self._sessions.pop(key, None)
            return []
        if isinstance(frame, (Join, Drafted, Settled, Behind)):
            raise ConfigError("this verifier does not aggregate: start one that has documents")
        return self._on_text_frame(key, frame, now_s)

    def _on_open(self, key: SessionKey, frame: Open, now_s: float) -> list[CloudFrame]:
        session = self._sessions.get(key)
        if session is None:
            self.evict_idle(now_s)
            if len(self._sessions) >= self._limits.max_sessions:
                self._evict_refused()
            if len(self._sessions) >= self._limits.max_sessions:
                return [self._busy(frame)]
            session = self._sessions[key] = _Session(frame.epoch, now_s)
        elif frame.epoch < session.epoch or (frame.epoch == session.epoch and session.text is None):
            return session.closing_words(frame.epoch)
        if session.text is not None and frame.epoch == session.epoch:
            return session.text.on_open(frame)
        session.epoch = frame.epoch
        session.text = TargetText(key, frame, self._tokenizer, session.pace)
        return []

    def _on_text_frame(
        self, key: SessionKey, frame: Resume | Draft | Proposal, now_s: float
    ) -> list[CloudFrame]:
        session = self._sessions.get(key)
        if session is None or frame.epoch > session.epoch:
            return [PrefillAgain(frame.session, frame.epoch)]
        text = self._text_of(key, frame.epoch)
        if text is None:
            return session.closing_words(frame.epoch)
        if isinstance(frame, Resume):
            return text.on_resume(frame)
        if isinstance(frame, Draft):
            text.on_draft(frame, now_s)
        else:
            text.on_proposal(frame, now_s)
        return []

    def _on_cancel(self, key: SessionKey, frame: Cancel) -> list[CloudFrame]:
        session = self._sessions.get(key)
        if session is not None and frame.epoch >= session.epoch:
            session.epoch, session.text = frame.epoch, None
        return []

    def _text_of(self, key: SessionKey, epoch: int) -> TargetText | None:
        session = self._sessions.get(key)
        return session.text if session is not None and session.epoch == epoch else None

    def _refuse(self, key: SessionKey, epoch: int, reason: RefusalReason, message: str) -> list[CloudFrame]:
        refusal = Refused(key.session, epoch, reason, message[:500])
        session = self._sessions.get(key)
        if session is not None and session.epoch == epoch:
            session.text, session.refusal = None, refusal
        return [refusal]

    def _busy(self, frame: Open) -> Refused:
        message = f"all {self._limits.max_sessions} sessions are taken; try later or raise max_sessions"
        return Refused(frame.session, frame.epoch, "busy", message)

    def _pong(self, frame: Ping) -> Pong:
        return Pong(
            frame.session,
            frame.epoch,
            self._name,
            self._tokenizer.vocab_size,
            len(self._sessions),
            self._limits.max_sessions,
        )
