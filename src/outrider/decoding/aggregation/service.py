# SPDX-License-Identifier: Apache-2.0
"""The cloud's complete side: a bounded table of texts that share one model and one set of documents.

It runs alone or together with a verifier's sessions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from outrider.core.errors import ConfigError, ModelError, OutriderError, ProtocolError
from outrider.core.frames import (
    LOG_WEIGHT_UNIT,
    MAX_SHORT_TEXT,
    Behind,
    Cancel,
    Close,
    CloudFrame,
    Drafted,
    EdgeFrame,
    Join,
    Joined,
    Peer,
    Ping,
    Pong,
    PrefillAgain,
    Refused,
    Settled,
)
from outrider.core.pairs import checksum
from outrider.core.ports import Array, LanguageModel
from outrider.core.values import Prompt
from outrider.decoding.aggregation.config import document_sampling
from outrider.decoding.aggregation.peer import PeerText
from outrider.decoding.aggregation.rule import device_share
from outrider.decoding.aggregation.worker import DocumentWorker, Retrieve, log_weight
from outrider.decoding.cloud.admission import Presence, busy_message, drop_idle, is_busy, make_room, to_probe
from outrider.decoding.cloud.machine import Reply
from outrider.decoding.drivers.serving import FrameService
from outrider.decoding.drivers.verifier_service import ServiceStats, VerifierService
from outrider.decoding.jobs import SessionKey
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.protocol.prefix_digest import prompt_digest
from outrider.decoding.protocol.refusals import check_served, check_tokenizer, reason_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepare:
    """A job: find a text's documents and cache them."""

    key: SessionKey
    epoch: int


@dataclass(frozen=True)
class Predict:
    """A job: run the model to get the distribution after a prefix."""

    key: SessionKey
    epoch: int
    prefix: tuple[int, ...]


ServiceJob = Prepare | Predict
JobResult = int | Array | Exception
"""For `Prepare` the side's log weight; for `Predict` the distribution (V,)."""


@dataclass
class _Session:
    join: Join
    text: PeerText
    presence: Presence
    prepared: Joined | None = None
    refusal: Refused | None = None

    @property
    def refused(self) -> bool:
        return self.refusal is not None

    @property
    def is_idle(self) -> bool:
        return self.text.done


class AggregationService(FrameService):
    """The cloud peer of many devices. Not thread-safe. Sessions with work take turns.

    `clock` returns monotonic seconds. A complete text is kept for a while, because the device may ask for
    its end again.
    """

    def __init__(
        self,
        model: LanguageModel,
        retrieve: Retrieve,
        limits: CloudLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model, self._name = model, model.name[:MAX_SHORT_TEXT]
        self._retrieve = retrieve
        self._limits = limits or CloudLimits()
        self._clock = clock
        self._worker = DocumentWorker(model)
        self._sessions: dict[SessionKey, _Session] = {}

    def receive(self, peer: Peer, frame: EdgeFrame) -> list[Reply]:
        """Handle a frame, however late, repeated or out of order. Errors are answered to that peer only."""
        key = SessionKey(peer, frame.session)
        try:
            frames = self._dispatch(key, frame)
        except (ConfigError, ModelError, ProtocolError) as error:
            frames = self._refuse(key, frame.epoch, error)
        self._worker.keep_only(self._sessions)
        silent = to_probe(self._sessions, self._limits, self._clock()) if any(map(is_busy, frames)) else []
        probes = [Reply(key.peer, self._pong(key.session, session.join.epoch)) for key, session in silent]
        return [*probes, *[Reply(peer, answer) for answer in frames]]

    def next_job(self) -> ServiceJob | None:
        """Return the next job of the session whose turn it is; None if there is no work."""
        for key, session in list(self._sessions.items()):
            job = _job_of(key, session)
            if job is not None:
                self._sessions[key] = self._sessions.pop(key)
                return job
        return None

    def wants(self, job: ServiceJob) -> bool:
        """Return whether the result of a running job is still needed."""
        session = self._session_of(job)
        if session is None:
            return False
        return session.text.wants(job.prefix) if isinstance(job, Predict) else session.prepared is None

    def run(self, job: ServiceJob) -> JobResult:
        """Run a job on the model. Errors are returned, so that one session's input cannot end the others."""
        session = self._sessions[job.key]
        try:
            if isinstance(job, Predict):
                sampling = document_sampling(session.join.rules)
                return self._worker.distribution(job.key, job.prefix, sampling)
            contexts = self._retrieve(Prompt(session.join.text, session.join.jpeg))
            self._worker.prefill(job.key, contexts, session.join.max_new_tokens)
            return log_weight(contexts)
        except Exception as error:
            if not isinstance(error, OutriderError):
                _log.exception("a model job failed")
            return error

    def finish(self, job: ServiceJob, result: JobResult, compute_s: float) -> list[Reply]:
        """Pass a job's result to its text; ignore it if that text no longer exists."""
        session = self._session_of(job)
        if session is None:
            return []
        if isinstance(result, Exception):
            frames = self._refuse(job.key, job.epoch, result)
        elif isinstance(job, Predict):
            frames = list(session.text.on_drafted(job.prefix, result, compute_s, self._clock()))
        else:
            frames = self._on_prepared(session, int(result), compute_s)
        return [Reply(job.key.peer, frame) for frame in frames]

    def step(self, send: Callable[[Reply], None]) -> bool:
        job = self.next_job()
        if job is None:
            return False
        started_s = self._clock()
        result = self.run(job)
        for reply in self.finish(job, result, self._clock() - started_s):
            send(reply)
        return True

    def max_wait_s(self) -> float | None:
        """Return None: only frames bring new work."""
        return None

    def evict_idle(self) -> None:
        drop_idle(self._sessions, self._limits.idle_s, self._clock())
        self._worker.keep_only(self._sessions)

    def text_of(self, key: SessionKey) -> PeerText | None:
        """Return a session's text, for measurements."""
        session = self._sessions.get(key)
        return session.text if session is not None else None

    def _dispatch(self, key: SessionKey, frame: EdgeFrame) -> list[CloudFrame]:
        session = self._sessions.get(key)
        if session is not None:
            session.presence.last_frame_s = self._clock()
        if isinstance(frame, Join):
            return self._on_join(key, frame)
        if isinstance(frame, Ping):
            return [self._pong(frame.session, frame.epoch)]
        if isinstance(frame, (Cancel, Close)):
            if session is not None and (isinstance(frame, Close) or frame.epoch >= session.join.epoch):
                del self._sessions[key]
            return []
        if not isinstance(frame, (Drafted, Settled, Behind)):
            raise ConfigError("this verifier aggregates: it takes no drafts to verify; use another")
        if session is None or frame.epoch > session.join.epoch:
            return [PrefillAgain(frame.session, frame.epoch)]
        if session.refusal is not None:
            return [session.refusal]
        if frame.epoch < session.join.epoch:
            return []
        return list(session.text.on_frame(frame, self._clock()))

    def _on_join(self, key: SessionKey, join: Join) -> list[CloudFrame]:
        session = self._sessions.get(key)
        if session is not None and join.epoch <= session.join.epoch:
            if join.epoch < session.join.epoch:
                return []
            answer = session.refusal or session.prepared
            return [answer] if answer is not None else []
        if session is None:
            self.evict_idle()
            if not make_room(self._sessions, self._limits, self._clock()):
                return [Refused(join.session, join.epoch, "busy", busy_message(self._limits))]
        self._check(join)
        self._sessions[key] = _Session(join, self._new_text(join), Presence(self._clock()))
        return []

    def _check(self, join: Join) -> None:
        check_served(join.model, self._name)
        check_tokenizer(join.tokenizer, self._name, self._model.tokenizer)
        if prompt_digest(Prompt(join.text, join.jpeg)) != join.digest:
            raise ProtocolError("the question's digest is not that of the question")

    def _new_text(self, join: Join) -> PeerText:
        model = self._model
        return PeerText(
            "cloud",
            join.rules,
            join.session,
            join.epoch,
            join.digest,
            join.max_new_tokens,
            frozenset(join.end_ids),
            model.vocab_size,
        )

    def _on_prepared(self, session: _Session, weight: int, compute_s: float) -> list[CloudFrame]:
        join = session.join
        share = device_share(join.weight * LOG_WEIGHT_UNIT, weight * LOG_WEIGHT_UNIT)
        compute_us = min(int(compute_s * 1e6), (1 << 32) - 1)
        session.prepared = Joined(join.session, join.epoch, share, compute_us, checksum(self._name))
        return [session.prepared, *session.text.on_share(share, self._clock())]

    def _session_of(self, job: ServiceJob) -> _Session | None:
        session = self._sessions.get(job.key)
        same = session is not None and session.join.epoch == job.epoch and session.refusal is None
        return session if same else None

    def _refuse(self, key: SessionKey, epoch: int, error: Exception) -> list[CloudFrame]:
        refusal = Refused(key.session, epoch, reason_of(error), str(error)[:MAX_SHORT_TEXT])
        session = self._sessions.get(key)
        if session is not None and session.join.epoch == epoch:
            session.refusal = refusal
        return [refusal]

    def _pong(self, session: int, epoch: int) -> Pong:
        return Pong(
            session,
            epoch,
            self._name,
            self._model.vocab_size,
            len(self._sessions),
            self._limits.max_sessions,
        )


def _job_of(key: SessionKey, session: _Session) -> ServiceJob | None:
    if session.refusal is not None:
        return None
    if session.prepared is None:
        return Prepare(key, session.join.epoch)
    prefix = session.text.next_prefix()
    return None if prefix is None else Predict(key, session.join.epoch, prefix)


class JointService(FrameService):
    """A verifier and an aggregation service behind one socket. While both have work, their jobs alternate."""

    def __init__(self, verifier: VerifierService, peers: AggregationService) -> None:
        self._verifier, self._peers = verifier, peers
        self._peers_first = False

    def receive(self, peer: Peer, frame: EdgeFrame) -> list[Reply]:
        if isinstance(frame, (Join, Drafted, Settled, Behind)):
            return self._peers.receive(peer, frame)
        if isinstance(frame, (Cancel, Close)):
            return [*self._peers.receive(peer, frame), *self._verifier.receive(peer, frame)]
        return self._verifier.receive(peer, frame)

    def step(self, send: Callable[[Reply], None]) -> bool:
        """Run one job of the service whose turn it is, else of the other;
        return False if neither has work.
        """
        self._peers_first = not self._peers_first
        if self._peers_first:
            return self._peers.step(send) or self._verifier.step(send)
        return self._verifier.step(send) or self._peers.step(send)

    def set_poll(self, poll: Callable[[], None]) -> None:
        """Make the verifier call `poll` during its forward passes."""
        self._verifier.set_poll(poll)

    def max_wait_s(self) -> float | None:
        waits_s = [service.max_wait_s() for service in (self._verifier, self._peers)]
        return min((wait_s for wait_s in waits_s if wait_s is not None), default=None)

    def evict_idle(self) -> None:
        self._verifier.evict_idle()
        self._peers.evict_idle()

    @property
    def stats(self) -> ServiceStats:
        """The counts of the verifier alone."""
        return self._verifier.stats
