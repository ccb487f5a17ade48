# SPDX-License-Identifier: Apache-2.0
"""The device's complete side: its machine with a model and documents, over any FrameLink."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from outrider.core.errors import Cancelled, LinkError
from outrider.core.frames import Close, EdgeFrame
from outrider.core.ports import Array, FrameLink, LanguageModel, TextDecoder
from outrider.core.values import Decoded, DecodeRequest, LinkState, Verified
from outrider.decoding.aggregation.config import AggregationConfig, document_sampling
from outrider.decoding.aggregation.device import Account, DeviceMachine
from outrider.decoding.aggregation.peer import PeerText
from outrider.decoding.aggregation.worker import DocumentWorker, Retrieve, log_weight
from outrider.decoding.drivers.linked_decoder import ignore_verified, never_cancelled
from outrider.decoding.protocol.refusals import with_own_model
from outrider.decoding.protocol.retry_timer import RetryTimer

_POLL_S = 0.02
_TEXT = "text"


@dataclass(frozen=True, eq=False)
class _Answer:
    """The model's distribution after a prefix; the machine gets it no sooner than `ready_s`."""

    prefix: tuple[int, ...]
    probs: Array
    started_s: float
    ready_s: float


class PeerDecoder(TextDecoder):
    """A TextDecoder that writes with a cloud peer. `documents` are the device's own and are not sent.

    `where` names the cloud in messages. Use it from one thread; only `link_state` is thread-safe.
    """

    def __init__(
        self,
        link: FrameLink,
        model: LanguageModel,
        config: AggregationConfig,
        documents: Retrieve,
        session: int,
        where: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._tokenizer, self._model_name = model.tokenizer, model.name
        self._worker = DocumentWorker(model)
        self._config = config
        self._documents = documents
        self._session = session
        self._machine = DeviceMachine(session, config, model.tokenizer)
        self._where = where
        self._clock = clock

    @property
    def link_state(self) -> LinkState:
        """The state of the link to the cloud peer."""
        return self._link.state

    @property
    def text(self) -> PeerText:
        """The last text, with the outcomes of its drafts."""
        return self._machine.text

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = ignore_verified,
        cancelled: Callable[[], bool] = never_cancelled,
    ) -> Decoded:
        self._begin(request, on_verified)
        try:
            while not self.text.done:
                if cancelled():
                    raise Cancelled(f"cancelled after {len(self.text.tokens)} final tokens")
                self._advance(request.deadline_s)
        finally:
            self._send(self._machine.cancel())
        return self._account.decoded(self._clock() - self._start_s, self._link.state, target_passes=0)

    def close(self) -> None:
        self._link.send(Close(self._session, 0))
        self._link.close()

    def _begin(self, request: DecodeRequest, on_verified: Callable[[Verified], None]) -> None:
        self._start_s = self._clock()
        self._retry = RetryTimer(self._config.silence_s, self._link.generation, self._start_s)
        self._account = Account(self._machine, self._tokenizer, on_verified)
        self._answer: _Answer | None = None
        contexts = self._documents(request.prompt)
        weight = log_weight(contexts)
        self._send(self._machine.begin(request.prompt, request.max_new_tokens, weight, self._clock()))
        self._worker.prefill(_TEXT, contexts, request.max_new_tokens)

    def _advance(self, deadline_s: float) -> None:
        """Run one step: use or start a forward pass, then take a frame, waiting for it only if idle."""
        now_s = self._clock()
        if not now_s - self._start_s <= deadline_s:  # also if that is NaN
            raise LinkError(
                f"{self._where} did not finish the text with this device within {deadline_s:g} s "
                f"({len(self.text.tokens)} tokens final): see that it runs, or raise the deadline"
            )
        self._watch_link(now_s)
        self._work(now_s)
        received = self._link.receive(self._wait_s())
        if received is not None:
            frame, num_bytes = received
            self._account.on_received(frame, num_bytes)
            self._retry.on_frame(frame, self._clock())
            self._send(self._machine.receive(frame, self._clock()))
        if self._machine.failure is not None:
            raise with_own_model(self._machine.failure, self._model_name)
        self._account.report(self._clock() - self._start_s)

    def _work(self, now_s: float) -> None:
        answer = self._answer
        if answer is not None and not self.text.wants(answer.prefix):
            answer = self._answer = None
        if answer is None:
            prefix = self.text.next_prefix()
            if prefix is not None:
                self._answer = self._run(prefix)
        elif now_s >= answer.ready_s:
            self._answer = None
            decode_s = now_s - answer.started_s
            self._send(self._machine.on_drafted(answer.prefix, answer.probs, decode_s, now_s))
            self._account.report(self._clock() - self._start_s)

    def _run(self, prefix: tuple[int, ...]) -> _Answer:
        started_s = self._clock()
        probs = self._worker.distribution(_TEXT, prefix, document_sampling(self._machine.rules))
        return _Answer(prefix, probs, started_s, self._ready_s(prefix, started_s))

    def _ready_s(self, prefix: tuple[int, ...], started_s: float) -> float:
        """Return when the result of a forward pass may be used: at once. An evaluation overrides this."""
        return started_s

    def _wait_s(self) -> float:
        if self._answer is not None:
            return max(0.0, min(_POLL_S, self._answer.ready_s - self._clock()))
        return 0.0 if self.text.next_prefix() is not None or self.text.done else _POLL_S

    def _watch_link(self, now_s: float) -> None:
        """Repeat requests after a reconnect or a long silence."""
        if self._retry.advice(True, self._link.generation, now_s) == "retry":
            self._send(self._machine.retry(now_s))

    def _send(self, frames: list[EdgeFrame]) -> None:
        for frame in frames:
            self._account.on_sent(frame, self._link.send(frame))
