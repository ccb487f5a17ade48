# SPDX-License-Identifier: Apache-2.0
"""Both peers on a virtual clock: real machines and models, simulated computers and link. Nothing sleeps."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from outrider.core.errors import Cancelled, LinkError
from outrider.core.frames import CloudFrame, EdgeFrame, Frame, Peer, PeerSide
from outrider.core.link_profile import Channel, LinkProfile
from outrider.core.ports import LanguageModel, TextDecoder
from outrider.core.values import Decoded, DecodeRequest, LinkState, Verified
from outrider.decoding.aggregation.config import AggregationConfig, document_sampling
from outrider.decoding.aggregation.device import Account, DeviceMachine
from outrider.decoding.aggregation.peer import PeerText
from outrider.decoding.aggregation.service import AggregationService, Predict, ServiceJob
from outrider.decoding.aggregation.worker import DocumentWorker, Retrieve, log_weight, plain_context
from outrider.decoding.cloud.machine import Reply
from outrider.decoding.drivers.linked_decoder import ignore_verified, never_cancelled
from outrider.decoding.event_loop import EventLoop
from outrider.decoding.jobs import SessionKey
from outrider.decoding.protocol.prefix_digest import common_length

_PEER = Peer("", b"virtual")
_SESSION = 1
_KEY = SessionKey(_PEER, _SESSION)


@dataclass(frozen=True)
class PeerCompute:
    """The compute times of one side, in seconds.

    A forward pass takes `token_s`, plus `further_share` of that for each token beyond the first.
    `prefill_s` includes the search for documents and yields the first token of a text.
    """

    prefill_s: float = 0.0
    token_s: float = 0.01
    further_share: float = 0.0

    def forward_s(self, num_new: int) -> float:
        """Return the seconds of a forward pass over `num_new` tokens."""
        return self.token_s * (1.0 + self.further_share * (num_new - 1)) if num_new else 0.0


@dataclass(frozen=True)
class PeerWorld:
    """Everything outside the machines. `frame_bytes` returns the size of a frame on the wire.

    `interruptible`: a rejection aborts a forward pass whose result is no longer needed, as in DRAGON's eq.
    7; otherwise the computer stays busy until it ends.
    """

    frame_bytes: Callable[[Frame], int]
    device: PeerCompute = PeerCompute()
    cloud: PeerCompute = PeerCompute()
    uplink: LinkProfile = field(default_factory=LinkProfile)
    downlink: LinkProfile = field(default_factory=LinkProfile)
    interruptible: bool = True
    extra_delay_s: Callable[[Frame, int, float], float] = lambda frame, num_bytes, now_s: 0.0
    seed: int = 0


@dataclass(frozen=True)
class AggregationStats:
    """The outcomes of the drafts. `switches`: how often the aggregator changed; `share`: the device's eta."""

    accepted: dict[PeerSide, int]
    rejected: dict[PeerSide, int]
    drafted: dict[PeerSide, int]
    switches: int
    share: int


_Job = TypeVar("_Job")


@dataclass
class _Computer(Generic[_Job]):
    """One side's computer: its current job, and the prefix in its cache."""

    compute: PeerCompute
    cached: tuple[int, ...] = ()
    number: int = 0
    job: _Job | None = None

    def forward_s(self, prefix: tuple[int, ...]) -> float:
        """Return the seconds of a forward pass to the end of `prefix`;
        an empty prefix comes with the prefill.
        """
        known = min(common_length(self.cached, prefix), max(0, len(prefix) - 1))
        return self.compute.forward_s(len(prefix) - known)


class VirtualPeers(TextDecoder):
    """A TextDecoder in virtual time; its clock `now_s` continues from text to text."""

    def __init__(
        self,
        device_model: LanguageModel,
        cloud_model: LanguageModel,
        config: AggregationConfig,
        world: PeerWorld,
        device_documents: Retrieve = plain_context,
        cloud_documents: Retrieve = plain_context,
    ) -> None:
        self._world = world
        self._config = config
        self._tokenizer = device_model.tokenizer
        self._documents = device_documents
        self._machine = DeviceMachine(_SESSION, config, device_model.tokenizer)
        self._worker = DocumentWorker(device_model)
        self._service = AggregationService(cloud_model, cloud_documents, clock=lambda: self.now_s)
        rng = random.Random(world.seed)
        self._uplink = Channel(world.uplink, rng)
        self._downlink = Channel(world.downlink, rng)
        self._agenda = EventLoop()
        self._device: _Computer[tuple[int, ...]] = _Computer(world.device)
        self._cloud: _Computer[ServiceJob] = _Computer(world.cloud)
        self._prefilled = False
        self._last_frame_s = 0.0

    @property
    def now_s(self) -> float:
        """The simulated time in seconds."""
        return self._agenda.now_s

    @property
    def stats(self) -> AggregationStats:
        """The outcomes of the last text's drafts."""
        texts = [text for text in self.texts if text is not None]
        return AggregationStats(
            accepted={text.side: sum(text.outcomes) for text in texts},
            rejected={text.side: len(text.outcomes) - sum(text.outcomes) for text in texts},
            drafted={text.side: text.num_drafted for text in texts},
            switches=sum(text.num_switches for text in texts),
            share=texts[0].share or 0,
        )

    @property
    def texts(self) -> tuple[PeerText, PeerText | None]:
        """Both sides' views of the last text."""
        return self._machine.text, self._service.text_of(_KEY)

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = ignore_verified,
        cancelled: Callable[[], bool] = never_cancelled,
    ) -> Decoded:
        """Decode as `core.ports.TextDecoder`; `cancelled` is asked after every event."""
        self._begin(request, on_verified)
        while not self._machine.text.done:
            if cancelled():
                raise Cancelled(f"cancelled after {len(self._machine.text.tokens)} final tokens")
            if not self.now_s - self._start_s <= request.deadline_s:
                raise LinkError(f"no full text within {request.deadline_s:g} virtual s")
            self._next_event()
        other = self._service.text_of(_KEY)
        passes = other.num_drafted if other is not None else 0
        return self._account.decoded(self.now_s - self._start_s, LinkState.CONNECTED, passes)

    def close(self) -> None:
        """Drop all pending events."""
        self._agenda.clear()

    def _begin(self, request: DecodeRequest, on_verified: Callable[[Verified], None]) -> None:
        self._agenda.clear()
        self._start_s = self._last_frame_s = self.now_s
        self._account = Account(self._machine, self._tokenizer, on_verified)
        self._device = _Computer(self._world.device, number=self._device.number + 1)
        self._cloud = _Computer(self._world.cloud, number=self._cloud.number + 1)
        contexts = self._documents(request.prompt)
        self._worker.prefill(_KEY, contexts, request.max_new_tokens)
        self._prefilled = False
        self._at(self._world.device.prefill_s, self._end_prefill)
        frames = self._machine.begin(request.prompt, request.max_new_tokens, log_weight(contexts), self.now_s)
        self._send_up(frames)
        self._at(self._config.silence_s, self._watch)

    def _end_prefill(self) -> None:
        self._prefilled = True

    def _watch(self) -> None:
        """Let both sides repeat requests after a long silence."""
        if self.now_s - self._last_frame_s >= self._config.silence_s:
            self._last_frame_s = self.now_s
            self._send_up(self._machine.retry(self.now_s))
            text = self._service.text_of(_KEY)
            self._send_down(list(text.retry()) if text is not None else [])
        self._at(self._config.silence_s, self._watch)

    def _at(self, delay_s: float, action: Callable[[], None]) -> None:
        self._agenda.at(self.now_s + delay_s, action)

    def _next_event(self) -> None:
        self._start_device()
        self._start_cloud()
        self._agenda.step()
        self._account.report(self.now_s - self._start_s)

    def _start_device(self) -> None:
        prefix, text = self._machine.text.next_prefix(), self._machine.text
        if self._device.job is not None and not text.wants(self._device.job) and self._world.interruptible:
            self._device.job = None
        if not self._prefilled or self._device.job is not None or prefix is None:
            return
        self._device.job, self._device.number = prefix, self._device.number + 1
        number, duration_s = self._device.number, self._device.forward_s(prefix)
        self._at(duration_s, lambda: self._end_device(number, prefix, duration_s))

    def _end_device(self, number: int, prefix: tuple[int, ...], duration_s: float) -> None:
        if number != self._device.number or self._device.job is None:
            return
        self._device.job, self._device.cached = None, prefix
        probs = self._worker.distribution(_KEY, prefix, document_sampling(self._machine.rules))
        self._send_up(self._machine.on_drafted(prefix, probs, duration_s, self.now_s))

    def _start_cloud(self) -> None:
        running = self._cloud.job
        if isinstance(running, Predict) and not self._service.wants(running) and self._world.interruptible:
            self._cloud.job = None
        job = None if self._cloud.job is not None else self._service.next_job()
        if job is None:
            return
        self._cloud.job, self._cloud.number = job, self._cloud.number + 1
        number = self._cloud.number
        duration_s = (
            self._cloud.forward_s(job.prefix) if isinstance(job, Predict) else self._world.cloud.prefill_s
        )
        self._at(duration_s, lambda: self._end_cloud(number, job, duration_s))

    def _end_cloud(self, number: int, job: ServiceJob, duration_s: float) -> None:
        if number != self._cloud.number or self._cloud.job is None:
            return
        self._cloud.job = None
        self._cloud.cached = job.prefix if isinstance(job, Predict) else ()
        result = self._service.run(job)
        self._reply(self._service.finish(job, result, duration_s))

    def _send_up(self, frames: list[EdgeFrame]) -> None:
        for frame in frames:
            num_bytes = self._world.frame_bytes(frame)
            self._account.on_sent(frame, num_bytes)
            arrival_s = self._arrival_s(self._uplink, frame, num_bytes)
            if arrival_s is not None:
                self._at(arrival_s - self.now_s, partial(self._receive_up, frame))

    def _receive_up(self, frame: EdgeFrame) -> None:
        self._reply(self._service.receive(_PEER, frame))

    def _reply(self, replies: list[Reply]) -> None:
        self._send_down([reply.frame for reply in replies])

    def _send_down(self, frames: list[CloudFrame]) -> None:
        for frame in frames:
            num_bytes = self._world.frame_bytes(frame)
            self._account.on_received(frame, num_bytes)
            arrival_s = self._arrival_s(self._downlink, frame, num_bytes)
            if arrival_s is not None:
                self._at(arrival_s - self.now_s, partial(self._receive_down, frame))

    def _arrival_s(self, channel: Channel, frame: Frame, num_bytes: int) -> float | None:
        arrival_s = channel.arrival_s(self.now_s, num_bytes)
        if arrival_s is None:
            return None
        return arrival_s + self._world.extra_delay_s(frame, num_bytes, self.now_s)

    def _receive_down(self, frame: CloudFrame) -> None:
        self._last_frame_s = self.now_s
        self._send_up(self._machine.receive(frame, self.now_s))
        if self._machine.failure is not None:
            raise self._machine.failure
