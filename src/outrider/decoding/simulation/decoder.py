# SPDX-License-Identifier: Apache-2.0
"""The same machines and models on a virtual clock: a seeded discrete-event loop over a modelled link.

Nothing sleeps. Models really run, but their time is what `ComputeProfile` says, so hardware and networks that
are not at hand can be studied, and any schedule can be replayed from its seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from outrider.core.errors import Cancelled, LinkError
from outrider.core.frames import CloudFrame, EdgeFrame, Frame, Peer
from outrider.core.link_profile import Channel, LinkProfile, Outage, is_up
from outrider.core.ports import LanguageModel
from outrider.core.values import Decoded, DecodeRequest, LinkState, Verified
from outrider.decoding.cloud.machine import Reply
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.decode_stats import DecodeRecorder
from outrider.decoding.drivers.linked_decoder import ignore_verified, never_cancelled
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.edge.actions import Commit, EdgeAction, Fail, Send
from outrider.decoding.edge.machine import EdgeMachine
from outrider.decoding.event_loop import EventLoop
from outrider.decoding.execution.workers import DraftWorker
from outrider.decoding.jobs import (
    CloudDraft,
    CloudJob,
    CloudResult,
    DraftTokens,
    EdgeJob,
    EdgeResult,
    ExitHint,
    GivenUp,
    PrefillTarget,
    Unfinished,
    Verify,
)
from outrider.decoding.protocol.retry_timer import RetryTimer
from outrider.decoding.simulation.compute import ComputeProfile, layer_fractions
from outrider.decoding.simulation.device_queue import DeviceQueue
from outrider.decoding.simulation.hint_outbox import Outbox
from outrider.decoding.simulation.timeline import EventKind, Observer, TimelineEvent

_PEER = Peer("", b"virtual")
_TICK_S = 0.05
_Job = TypeVar("_Job")


@dataclass(eq=False)
class _Running(Generic[_Job]):
    """A job that a model does, and whether it has been told to leave it."""

    job: _Job
    started_s: float
    left: bool = False


@dataclass(frozen=True)
class VirtualWorld:
    """Everything outside the machines. `frame_bytes` is the size of a frame on the wire."""

    frame_bytes: Callable[[Frame], int]
    compute: ComputeProfile = field(default_factory=ComputeProfile)
    uplink: LinkProfile = field(default_factory=LinkProfile)
    downlink: LinkProfile = field(default_factory=LinkProfile)
    outages: tuple[Outage, ...] = ()
    seed: int = 0

    def is_up(self, start_s: float, end_s: float) -> bool:
        """Whether no outage touches the interval."""
        return is_up(self.outages, start_s, end_s)


class VirtualDecoder:
    """A TextDecoder whose seconds are virtual; its clock `now_s` runs on from text to text."""

    def __init__(
        self,
        target: LanguageModel,
        draft: LanguageModel | None,
        config: DecodingConfig,
        world: VirtualWorld,
        observer: Observer | None = None,
        cloud_draft: LanguageModel | None = None,
    ) -> None:
        """`cloud_draft`: a draft model beside the target."""
        self._observer = observer
        self._world = world
        self._config = config
        self._target = target
        self._cloud_draft = cloud_draft
        self._exit_fractions = world.compute.exit_fractions or layer_fractions(target)
        self._worker = DraftWorker(draft) if draft is not None and config.needs_model else None
        self._machine = EdgeMachine(1, config, target.tokenizer)
        self._service = self._new_service()
        self._rng = rng = random.Random(world.seed)
        self._uplink = Channel(world.uplink, rng)
        self._downlink = Channel(world.downlink, rng)
        self._agenda = EventLoop()
        self._outbox = Outbox(config.cloud_hint_order, rng)
        self._sender_free_s = 0.0
        self._look_s = 0.0
        self._drafting: _Running[EdgeJob] | None = None
        self._running: _Running[CloudJob] | None = None
        self._generation = 1
        for outage in world.outages:
            self._agenda.at(outage.end_s, self._reconnect, outage)

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = ignore_verified,
        cancelled: Callable[[], bool] = never_cancelled,
    ) -> Decoded:
        """See `core.ports.TextDecoder`; `cancelled` is asked after every event."""
        self._start_s = self.now_s
        self._transcript = DecodeRecorder(self._target.tokenizer, on_verified)
        config = self._config
        self._patience = RetryTimer(config.silence_s, self._generation, self.now_s, config.link_grace_s)
        try:
            self._perform(self._machine.begin(request.prompt, request.max_new_tokens, self.now_s))
            self._agenda.at(self.now_s, self._tick, request, self._transcript)
            while not self._machine.done:
                if cancelled():
                    raise Cancelled(f"cancelled after {len(self._machine.tokens)} verified tokens")
                self._next_event()
        except BaseException:
            self._perform(self._machine.cancel())
            raise
        link = LinkState.CONNECTED if self._world.is_up(self.now_s, self.now_s) else LinkState.LOST
        return self._transcript.decoded(self._machine, self.now_s - self._start_s, link)

    def move_to(self, world: VirtualWorld) -> None:
        """Decode the next texts under the links and times of another world; the session goes on."""
        self._world = replace(world, outages=self._world.outages)
        self._uplink, self._downlink = Channel(world.uplink, self._rng), Channel(world.downlink, self._rng)

    def close(self) -> None:
        """Drops all pending events."""
        self._agenda.clear()

    def _new_service(self) -> VerifierService:
        return VerifierService(
            self._target, clock=lambda: self.now_s, tuning=self._config.tuning, draft=self._cloud_draft
        )

    @property
    def now_s(self) -> float:
        """Seconds on the clock of the simulation."""
        return self._agenda.now_s

    def _next_event(self) -> None:
        self._start_edge_job()
        self._start_cloud_job()
        self._agenda.step()

    def _tick(self, request: DecodeRequest, transcript: DecodeRecorder) -> None:
        """Watches deadline and link while this request's text is decoded."""
        if self._machine.done or transcript is not self._transcript:
            return
        if self.now_s - self._start_s > request.deadline_s:
            raise LinkError(f"no full text within {request.deadline_s:g} virtual s")
        up = self._world.is_up(self.now_s, self.now_s)
        advice = self._patience.verdict(up, self._generation, self.now_s)
        if advice is not None:
            react = self._machine.ask_again if advice == "ask again" else self._machine.go_alone
            self._perform(react(self.now_s))
        self._agenda.at(self.now_s + _TICK_S, self._tick, request, transcript)

    def _reconnect(self, outage: Outage) -> None:
        self._generation += 1
        if outage.verifier_restarts:
            self._service = self._new_service()
            self._running = None

    def _start_edge_job(self) -> None:
        job = None if self._drafting is not None else self._machine.next_job()
        if job is None or self._worker is None:
            return
        result = self._worker.run(job)
        self._drafting = running = _Running(job, self.now_s)
        self._agenda.at(self.now_s + self._world.compute.draft_s(job), self._finish_edge_job, running, result)

    def _finish_edge_job(self, running: _Running[EdgeJob], result: EdgeResult) -> None:
        """Nothing comes of a job that was left."""
        if running.left:
            return
        self._end_edge_job(running)
        compute_s = self.now_s - running.started_s
        self._perform(self._machine.complete(running.job, result, self.now_s, compute_s))

    def _leave_edge_job(self) -> None:
        """After news, if something else is worth more now."""
        running, compute = self._drafting, self._world.compute
        if running is None or running.left:
            return
        whole_s = compute.draft_s(running.job)
        free_s = self._free_s(running, compute.draft_queue, whole_s)
        if free_s < running.started_s + whole_s and self._machine.gives_up(running.job):
            running.left = True
            self._agenda.at(free_s, self._end_edge_job, running)

    def _end_edge_job(self, running: _Running[EdgeJob]) -> None:
        job, duration_s = running.job, self.now_s - running.started_s
        self._drafting = None
        self._observe(_edge_event(job, running.started_s, duration_s))
        if isinstance(job, DraftTokens):
            num_tokens = 0 if running.left else len(job.prefixes)
            self._transcript.on_drafted(num_tokens, duration_s, self.now_s - self._start_s)

    def _free_s(self, running: _Running[Any], queue: DeviceQueue, whole_s: float) -> float:
        """When a device is free that is told now to leave a job, which would take so long."""
        return running.started_s + queue.left_s(self.now_s - running.started_s, whole_s)

    def _start_cloud_job(self) -> None:
        jobs = [] if self._running else self._service.next_jobs()
        if not jobs:
            self._look_again()
            return
        [job] = jobs
        duration_s = self._target_s(job)
        self._running = running = _Running(job, self.now_s)
        hints: list[ExitHint] = []

        def keep(_: Verify, hint: ExitHint) -> bool:
            hints.append(hint)
            return False

        result: CloudResult = Unfinished()
        while isinstance(result, Unfinished):
            [result] = self._service.run([job], keep)
        for hint in hints:
            at_s = self.now_s + duration_s * self._exit_fractions[hint.exit]
            self._agenda.at(at_s, self._send_hint, running, job, hint)
        self._agenda.at(self.now_s + duration_s, self._finish_cloud_job, running, result)

    def _target_s(self, job: CloudJob) -> float:
        return self._world.compute.target_s(job, len(self._exit_fractions))

    def _look_again(self) -> None:
        """The cloud waits for a draft, but not for ever."""
        wait_s = None if self._running else self._service.next_look_s()
        if wait_s is not None and self._look_s <= self.now_s:
            self._look_s = self.now_s + max(wait_s, 1e-6)
            self._agenda.at(self._look_s, lambda: None)

    def _send_hint(self, running: _Running[CloudJob], job: Verify, hint: ExitHint) -> None:
        if running is not self._running or running.left:
            return
        replies = self._service.hint(job, hint)
        if replies:
            tokens = hint.accepted + 1
            self._observe(TimelineEvent("exit", self.now_s, self.now_s, "", len(job.tokens), tokens))
        self._reply(replies)
        whole_s = self._target_s(job)
        free_s = self._free_s(running, self._world.compute.target_queue, whole_s)
        if free_s < running.started_s + whole_s and self._service.gives_up(job):
            running.left = True
            self._agenda.at(free_s, self._finish_cloud_job, running, GivenUp())

    def _finish_cloud_job(self, running: _Running[CloudJob], result: CloudResult) -> None:
        """Nothing else comes of a job that was given up, or of a verifier that is no more."""
        if running is not self._running or (running.left and not isinstance(result, GivenUp)):
            return
        self._running = None
        duration_s = self.now_s - running.started_s
        self._observe(_cloud_event(running.job, running.started_s, duration_s))
        self._reply(self._service.finish(running.job, result, duration_s))

    def _perform(self, actions: list[EdgeAction]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self._send_up(action.frame)
            elif isinstance(action, Commit):
                self._observe_commit(action)
                self._transcript.on_commit(action, self._machine.done, self.now_s - self._start_s)
            elif isinstance(action, Fail):
                raise action.error

    def _send_up(self, frame: EdgeFrame) -> None:
        if not self._world.is_up(self.now_s, self.now_s):
            return
        num_bytes = self._world.frame_bytes(frame)
        self._transcript.on_sent(frame, num_bytes, self.now_s - self._start_s)
        arrival_s = self._uplink.arrival_s(self.now_s, num_bytes)
        if arrival_s is not None and self._world.is_up(self.now_s, arrival_s):
            self._observe(TimelineEvent("up", self.now_s, arrival_s, type(frame).__name__))
            self._agenda.at(arrival_s, lambda: self._reply(self._service.receive(_PEER, frame)))

    def _reply(self, replies: list[Reply]) -> None:
        """Frames go down one by one; while the sender is busy, hints queue and a verdict clears them."""
        for reply in replies:
            self._outbox.push(reply.frame)
        self._send_down()

    def _send_down(self) -> None:
        if self.now_s < self._sender_free_s:
            return
        frame = self._outbox.pop()
        if frame is None:
            return
        num_bytes = self._world.frame_bytes(frame)
        busy_s = num_bytes / self._world.downlink.bytes_per_s
        self._sender_free_s = self.now_s + busy_s
        arrival_s = self._downlink.arrival_s(self.now_s, num_bytes)
        if arrival_s is not None and self._world.is_up(self.now_s, arrival_s):
            self._observe(TimelineEvent("down", self.now_s, arrival_s, type(frame).__name__))
            self._agenda.at(arrival_s, self._receive_down, frame, num_bytes)
        if busy_s > 0.0:
            self._agenda.at(self._sender_free_s, self._send_down)
        else:
            self._send_down()

    def _receive_down(self, frame: CloudFrame, num_bytes: int) -> None:
        self._transcript.on_received(frame, num_bytes)
        self._patience.on_heard(frame, self.now_s)
        self._perform(self._machine.receive(frame, self.now_s))
        self._leave_edge_job()

    def _observe(self, event: TimelineEvent) -> None:
        if self._observer is not None:
            self._observer(event)

    def _observe_commit(self, commit: Commit) -> None:
        at = len(self._machine.tokens) - len(commit.tokens)
        self._observe(TimelineEvent("commit", self.now_s, self.now_s, "", at, len(commit.tokens)))


def _edge_event(job: EdgeJob, now_s: float, duration_s: float) -> TimelineEvent:
    if not isinstance(job, DraftTokens):
        return TimelineEvent("prefill_edge", now_s, now_s + duration_s)
    return TimelineEvent("draft", now_s, now_s + duration_s, "", len(job.prefixes[0]), len(job.prefixes))


def _cloud_event(job: CloudJob, now_s: float, duration_s: float) -> TimelineEvent:
    if isinstance(job, CloudDraft):
        return TimelineEvent("draft_cloud", now_s, now_s + duration_s, "", len(job.prefix), 1)
    if isinstance(job, PrefillTarget):
        return TimelineEvent("prefill_cloud", now_s, now_s + duration_s)
    kind: EventKind = "verify" if job.draft else "step"
    return TimelineEvent(kind, now_s, now_s + duration_s, "", len(job.tokens), len(job.draft))
