# SPDX-License-Identifier: Apache-2.0
"""The complete edge side: the state machine with its draft model, driven over any FrameLink."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from outrider.core.errors import Cancelled, ConfigError, LinkError, OutriderError
from outrider.core.frames import Close
from outrider.core.ports import FrameLink, LanguageModel, Pause, TextDecoder, Tokenizer
from outrider.core.values import Decoded, DecodeRequest, LinkState, Verified
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.decode_stats import DecodeRecorder
from outrider.decoding.edge.actions import Commit, EdgeAction, Fail, Send
from outrider.decoding.edge.machine import EdgeMachine
from outrider.decoding.execution.workers import DraftWorker
from outrider.decoding.jobs import Aborted, DraftTokens, EdgeJob
from outrider.decoding.protocol.refusals import with_own_model
from outrider.decoding.protocol.retry_timer import RetryTimer

_POLL_S = 0.02
"""Longest time between checks for cancellation, and shortest between checks of the link."""
MIN_POLL_S = 0.002
"""Shortest time between checks for frames during a draft; a check takes a few hundredths of it."""
BUSY = "this decoder decodes another text: let each thread have a decoder of its own"
CLOSED = "this decoder is closed: open another one"


def ignore_verified(_: Verified) -> None:
    """The default observer: does nothing."""


def never_cancelled() -> bool:
    """The default for `cancelled`: the text is never cancelled."""
    return False


class LinkedDecoder(TextDecoder):
    """A TextDecoder over a link. `where` names the verifier in messages.

    For one thread, except `link_state`, `wrote_alone`, `strategy`, `use` and `close`. `decode` and `forget`
    raise OutriderError while another text is being decoded, and after `close`.
    """

    def __init__(
        self,
        link: FrameLink,
        draft: LanguageModel | None,
        tokenizer: Tokenizer,
        config: DecodingConfig,
        session: int,
        where: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._worker = DraftWorker(draft) if draft is not None else None
        self._draft_name = "" if draft is None else draft.name
        self._tokenizer = tokenizer
        self._config = self._next_config = config
        self._session = session
        self._machine = EdgeMachine(session, config, tokenizer)
        self._where = where
        self._clock = clock
        self._busy, self._is_closed = threading.Lock(), False
        self._transcript = DecodeRecorder(tokenizer, ignore_verified)
        self._retry = RetryTimer(config.silence_s, 0, 0.0, config.link_grace_s)
        self._cancelled: Callable[[], bool] = never_cancelled
        self._start_s = self._deadline_s = self._next_check_s = 0.0

    @property
    def wrote_alone(self) -> bool:
        """Whether part of the text being decoded, or of the last one, was not verified."""
        return self._transcript.wrote_alone

    @property
    def link_state(self) -> LinkState:
        """The state of the link to the verifier."""
        return self._link.state

    @property
    def strategy(self) -> str:
        """The strategy of the text being decoded, or of the last one."""
        return self._config.strategy

    def use(self, config: DecodingConfig) -> None:
        """Use another configuration from the next text on.

        Raises ConfigError if it needs a draft model and there is none.
        """
        if config.needs_model and self._worker is None:
            raise ConfigError(
                f"strategy={config.strategy} needs a draft model, and none was loaded: start with a strategy "
                "that drafts"
            )
        self._next_config = config

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = ignore_verified,
        cancelled: Callable[[], bool] = never_cancelled,
    ) -> Decoded:
        with self._exclusive():
            return self._decode(request, on_verified, cancelled)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Raises OutriderError where a text is being decoded, and once it is closed."""
        if not self._busy.acquire(blocking=False):
            raise OutriderError(CLOSED if self._is_closed else BUSY)
        try:
            yield
        finally:
            self._busy.release()
            if self._is_closed:
                self._close_if_idle()

    def _decode(
        self, request: DecodeRequest, on_verified: Callable[[Verified], None], cancelled: Callable[[], bool]
    ) -> Decoded:
        self._start_s = self._clock()
        self._cancelled = cancelled
        self._deadline_s = request.deadline_s
        self._transcript = DecodeRecorder(self._tokenizer, on_verified)
        config = self._apply_config()
        self._retry = RetryTimer(config.silence_s, self._link.generation, 0.0, config.link_grace_s)
        self._next_check_s = 0.0
        try:
            self._perform(self._machine.begin(request.prompt, request.max_new_tokens, self._clock()))
            while not self._machine.done:
                self._check_cancel_and_deadline(self._now())
                self._advance()
        except BaseException:
            self._cancel_text()
            raise
        return self._transcript.decoded(self._machine, self._now(), self._link.state)

    def _apply_config(self) -> DecodingConfig:
        """Return the configuration for the next text; the verifier receives it with the text."""
        config = self._next_config
        if config is not self._config:
            epoch, self._config = self._machine.epoch, config
            self._machine = EdgeMachine(self._session, config, self._tokenizer, epoch)
        return config

    def forget(self) -> None:
        """Forget the texts so far: their drafts and caches, also at the verifier."""
        with self._exclusive():
            self._machine.forget()
            if self._worker is not None:
                self._worker.forget()
            self._link.send(Close(self._session, 0))

    def close(self) -> None:
        """Close the decoder, from any thread, repeatedly too. A running text ends with Cancelled first."""
        self._is_closed = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._busy.acquire(blocking=False):  # never released: the decoder is closed
            self._link.send(Close(self._session, 0))
            self._link.close()

    def _advance(self) -> None:
        """Handle a received frame; else run one small job; else wait for a frame."""
        now_s = self._now()
        if now_s >= self._next_check_s:
            self._watch_link(now_s)
        job = self._machine.next_job()
        if self._receive_frame(0.0 if job is not None else min(_POLL_S, self._deadline_s - now_s)):
            return
        if job is not None:
            self._run_job(job)

    def _check_cancel_and_deadline(self, now_s: float) -> None:
        """Raise Cancelled if the text is no longer wanted, or the deadline's error if it is late."""
        if self._is_closed:
            raise Cancelled(CLOSED)
        if self._cancelled():
            raise Cancelled(f"cancelled after {len(self._machine.tokens)} verified tokens")
        if not now_s <= self._deadline_s:  # also where that is NaN
            raise self._deadline_error()

    def _receive_frame(self, timeout_s: float) -> bool:
        """Handle a frame if one arrives in time. Return whether one did."""
        received = self._link.receive(timeout_s)
        if received is None:
            return False
        frame, num_bytes = received
        self._transcript.on_received(frame, num_bytes)
        self._retry.on_frame(frame, self._now())
        self._perform(self._machine.receive(frame, self._clock()))
        return True

    def _now(self) -> float:
        """Return the seconds since the request."""
        return self._clock() - self._start_s

    def _run_job(self, job: EdgeJob) -> None:
        """Run a job. A draft that a received frame makes useless is aborted."""
        assert self._worker is not None
        started_s = self._now()
        try:
            choices = self._worker.run(job, self._abort_check(job, started_s))
        except Aborted:
            self._record_job(job, started_s, finished=False)
            return
        compute_s = self._record_job(job, started_s)
        self._perform(self._machine.complete(job, choices, self._clock(), compute_s))

    def _record_job(self, job: EdgeJob, started_s: float, finished: bool = True) -> float:
        """Record a finished or aborted job. Return the seconds that it took."""
        now_s = self._now()
        if isinstance(job, DraftTokens):
            self._transcript.on_drafted(len(job.prefixes) if finished else 0, now_s - started_s, now_s)
        return now_s - started_s

    def _abort_check(self, job: EdgeJob, started_s: float) -> Pause:
        """Return a callback that receives frames, not too often, and raises Aborted if the job should end."""
        due_s = started_s + MIN_POLL_S

        def check() -> None:
            nonlocal due_s
            now_s = self._now()
            if now_s < due_s:
                return
            due_s = now_s + MIN_POLL_S
            self._check_cancel_and_deadline(now_s)
            if self._receive_frame(0.0) and self._machine.should_abort(job):
                raise Aborted

        return check

    def _watch_link(self, now_s: float) -> None:
        self._next_check_s = now_s + _POLL_S
        advice = self._retry.advice(self._link_is_up(), self._link.generation, now_s)
        if advice == "retry":
            self._perform(self._machine.retry(self._clock()))
        elif advice == "continue alone":
            self._perform(self._machine.continue_alone(self._clock()))

    def _link_is_up(self) -> bool:
        return self._link.state in (LinkState.CONNECTED, LinkState.LOCAL)

    def _perform(self, actions: list[EdgeAction]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self._transcript.on_sent(action.frame, self._link.send(action.frame), self._now())
            elif isinstance(action, Commit):
                self._transcript.on_commit(action, self._machine.done, self._now())
            elif isinstance(action, Fail):
                raise with_own_model(action.error, self._draft_name) if self._draft_name else action.error

    def _cancel_text(self) -> None:
        for action in self._machine.cancel():
            if isinstance(action, Send):
                self._link.send(action.frame)

    def _deadline_error(self) -> OutriderError:
        if self._machine.text.busy_error is not None:
            return self._machine.text.busy_error
        limit = f"within {self._deadline_s:g} s ({len(self._machine.tokens)} tokens verified)"
        if self._link_is_up():
            return LinkError(f"{self._where} did not finish the text {limit}: raise the deadline")
        if self._link.state is LinkState.REFUSED:
            return LinkError(f"{self._where} refuses this robot's key: check both key files ({limit})")
        if self._link.state is LinkState.MISMATCHED:
            return LinkError(
                f"{self._where} has other keys than this robot, or is no verifier ({limit}): "
                "give both the keys of one verifier, or none to both"
            )
        return LinkError(
            f"{self._where} cannot be reached: no full text {limit}. "
            "Start it with `outrider verifier`, or correct the endpoint"
        )
