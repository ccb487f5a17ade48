# SPDX-License-Identifier: Apache-2.0
"""One verifier in virtual time, with the link to it."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from outrider.core.frames import CloudFrame, EdgeFrame, Frame, Hint, Peer
from outrider.core.link_profile import Channel, LinkProfile, Outage, is_up
from outrider.core.ports import DraftHead, LanguageModel
from outrider.decoding.cloud.machine import Reply
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.event_loop import EventLoop
from outrider.decoding.jobs import (
    Aborted,
    CloudDraft,
    CloudJob,
    CloudResult,
    ExitHint,
    PrefillTarget,
    Unfinished,
    Verify,
)
from outrider.decoding.simulation.compute import ComputeProfile, DeviceQueue, layer_fractions
from outrider.decoding.simulation.timeline import EventKind, Observer, TimelineEvent

_PEER = Peer("", b"virtual")
_Job = TypeVar("_Job")


class Outbox:
    """The cloud's frames while its sender is busy: verdicts first, then hints in order (FSD, alg. 2).

    `order` of hints: confidence (highest first), fifo or random. A new verdict discards the waiting hints.
    """

    def __init__(self, order: str, rng: random.Random) -> None:
        self._order = order
        self._rng = rng
        self._final: deque[CloudFrame] = deque()
        self._hints: list[Hint] = []

    def push(self, frame: CloudFrame) -> None:
        """Queue a frame; any frame but a hint discards the hints in the queue."""
        if isinstance(frame, Hint):
            self._hints.append(frame)
            return
        self._final.append(frame)
        self._hints.clear()

    def pop(self) -> CloudFrame | None:
        """Return the next frame to send, if any."""
        if self._final:
            return self._final.popleft()
        if not self._hints:
            return None
        index = 0
        if self._order == "confidence":
            index = max(range(len(self._hints)), key=lambda at: self._hints[at].confidence)
        elif self._order == "random":
            index = self._rng.randrange(len(self._hints))
        return self._hints.pop(index)


@dataclass(eq=False)
class Running(Generic[_Job]):
    """A job that a model runs; `aborted`: it ends before its time."""

    job: _Job
    started_s: float
    aborted: bool = False

    def free_s(self, now_s: float, queue: DeviceQueue, whole_s: float) -> float:
        """Return when the device is free if this job of `whole_s` is aborted now."""
        return self.started_s + queue.left_s(now_s - self.started_s, whole_s)


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
        """Return whether no outage overlaps the interval."""
        return is_up(self.outages, start_s, end_s)


class VirtualVerifier:
    """Takes the edge's frames, and passes the cloud's frames with their sizes to `deliver`."""

    def __init__(
        self,
        target: LanguageModel,
        config: DecodingConfig,
        world: VirtualWorld,
        agenda: EventLoop,
        rng: random.Random,
        deliver: Callable[[CloudFrame, int], None],
        observe: Observer,
        cloud_draft: LanguageModel | None = None,
        cloud_head: DraftHead | None = None,
    ) -> None:
        """`cloud_draft`: a draft model in the cloud; `cloud_head`: the target's draft head instead."""
        self._target, self._cloud_draft, self._cloud_head = target, cloud_draft, cloud_head
        self._tuning = config.tuning
        self._world = world
        self._agenda, self._rng = agenda, rng
        self._deliver, self._observe = deliver, observe
        self._exit_fractions = world.compute.exit_fractions or layer_fractions(target)
        self._service = self._new_service()
        self._uplink = Channel(world.uplink, rng)
        self._downlink = Channel(world.downlink, rng)
        self._outbox = Outbox(config.cloud_hint_order, rng)
        self._sender_free_s = 0.0
        self._running: Running[CloudJob] | None = None
        self._drafting: frozenset[tuple[int, ...]] | None = None
        """The prefixes that the cloud's draft model, on its own device, extends now."""
        self._may_draft = False
        """Whether anything has happened since the service was last asked for drafts ahead."""
        self._may_have_job = False
        """Whether anything has happened since the service was last asked for a job."""
        self.generation = 1
        for outage in world.outages:
            agenda.at(outage.end_s, self._reconnect, outage)

    @property
    def is_up(self) -> bool:
        """Whether the link is up now."""
        return self._world.is_up(self._now_s, self._now_s)

    def move_to(self, world: VirtualWorld) -> None:
        """Use the links and times of another world from now on."""
        self._world = replace(world, outages=self._world.outages)
        self._uplink, self._downlink = Channel(world.uplink, self._rng), Channel(world.downlink, self._rng)

    def send_up(self, frame: EdgeFrame) -> int:
        """Send a frame to the verifier. Return its size in bytes, 0 if the link is down."""
        if not self.is_up:
            return 0
        num_bytes = self._world.frame_bytes(frame)
        arrival_s = self._uplink.arrival_s(self._now_s, num_bytes)
        if arrival_s is not None and self._world.is_up(self._now_s, arrival_s):
            self._observe(TimelineEvent("up", self._now_s, arrival_s, type(frame).__name__))
            self._agenda.at(arrival_s, self._receive, frame)
        return num_bytes

    def start_job(self) -> None:
        """Start the target's next job if it is free, and drafts ahead on their own device."""
        if not self._running and self._may_have_job:
            self._start_target()
        if self._world.compute.cloud_draft_apart and self._running and self._may_draft:
            self._may_draft = False
            self._start_drafts(self._service.jobs_ahead(self._running.job))

    def _start_drafts(self, jobs: list[CloudDraft]) -> None:
        """Start drafts on their own device; they replace what it was doing."""
        if not jobs:
            return
        service, results = self._service, self._service.draft(jobs)
        duration_s = self._world.compute.cloud_draft_s(len(jobs))
        self._drafting = running = frozenset(job.prefix for job in jobs)

        def finish() -> None:
            if self._drafting is not running or service is not self._service:
                return
            self._drafting, self._may_have_job, self._may_draft = None, True, True
            service.finish_drafts(jobs, results, duration_s)

        self._observe(_event(jobs[0], self._now_s, duration_s))
        self._agenda.at(self._now_s + duration_s, finish)

    def _start_target(self) -> None:
        jobs = self._service.next_jobs()
        if not jobs:
            self._may_have_job = False
            self._schedule_check()
            return
        if self._world.compute.cloud_draft_apart and isinstance(jobs[0], CloudDraft):
            self._may_have_job = False
            drafts = [job for job in jobs if isinstance(job, CloudDraft)]
            if self._drafting is None or not {draft.prefix for draft in drafts} <= self._drafting:
                self._start_drafts(drafts)
            return
        [job] = jobs
        duration_s = self._target_s(job)
        self._running = running = Running(job, self._now_s)
        self._may_draft = self._drafting is None
        hints: list[ExitHint] = []

        def keep(_: Verify, hint: ExitHint) -> bool:
            hints.append(hint)
            return False

        result: CloudResult = Unfinished()
        while isinstance(result, Unfinished):
            [result] = self._service.run([job], keep)
        for hint in hints:
            at_s = self._now_s + duration_s * self._exit_fractions[hint.exit]
            self._agenda.at(at_s, self._send_hint, running, job, hint)
        self._agenda.at(self._now_s + duration_s, self._finish_job, running, result)

    @property
    def _now_s(self) -> float:
        return self._agenda.now_s

    def _new_service(self) -> VerifierService:
        return VerifierService(
            self._target,
            clock=lambda: self._now_s,
            tuning=self._tuning,
            draft=self._cloud_draft,
            head=self._cloud_head,
        )

    def _receive(self, frame: EdgeFrame) -> None:
        self._may_have_job = True
        self._reply(self._service.receive(_PEER, frame))

    def _reconnect(self, outage: Outage) -> None:
        self.generation += 1
        if outage.verifier_restarts:
            self._service = self._new_service()
            self._running = self._drafting = None

    def _target_s(self, job: CloudJob) -> float:
        return self._world.compute.target_s(job, len(self._exit_fractions))

    def _schedule_check(self) -> None:
        """Schedule the next look at the service, which waits for a draft only until then."""
        wait_s = self._service.max_wait_s()
        if wait_s is not None:
            self._agenda.at(self._now_s + max(wait_s, 1e-6), self._allow_job)

    def _allow_job(self) -> None:
        self._may_have_job = True

    def _send_hint(self, running: Running[CloudJob], job: Verify, hint: ExitHint) -> None:
        if running is not self._running or running.aborted:
            return
        replies, should_abort = self._service.hint(job, hint)
        self._may_draft = self._drafting is None
        if replies:
            tokens = hint.accepted + 1
            self._observe(TimelineEvent("exit", self._now_s, self._now_s, "", len(job.tokens), tokens))
        self._reply(replies)
        whole_s = self._target_s(job)
        free_s = running.free_s(self._now_s, self._world.compute.target_queue, whole_s)
        if should_abort and free_s < running.started_s + whole_s:
            running.aborted = True
            self._agenda.at(free_s, self._finish_job, running, Aborted())

    def _finish_job(self, running: Running[CloudJob], result: CloudResult) -> None:
        """Finish a job, unless it was aborted or its verifier has been restarted."""
        if running is not self._running or (running.aborted and not isinstance(result, Aborted)):
            return
        self._running, self._may_have_job = None, True
        duration_s = self._now_s - running.started_s
        self._observe(_event(running.job, running.started_s, duration_s))
        self._reply(self._service.finish([running.job], [result], duration_s))

    def _reply(self, replies: list[Reply]) -> None:
        """Send frames one by one; while the sender is busy, hints wait, and a verdict discards them."""
        for reply in replies:
            self._outbox.push(reply.frame)
        self._send_down()

    def _send_down(self) -> None:
        if self._now_s < self._sender_free_s:
            return
        frame = self._outbox.pop()
        if frame is None:
            return
        num_bytes = self._world.frame_bytes(frame)
        busy_s = num_bytes / self._world.downlink.bytes_per_s
        self._sender_free_s = self._now_s + busy_s
        arrival_s = self._downlink.arrival_s(self._now_s, num_bytes)
        if arrival_s is not None and self._world.is_up(self._now_s, arrival_s):
            self._observe(TimelineEvent("down", self._now_s, arrival_s, type(frame).__name__))
            self._agenda.at(arrival_s, self._deliver, frame, num_bytes)
        if busy_s > 0.0:
            self._agenda.at(self._sender_free_s, self._send_down)
        else:
            self._send_down()


def _event(job: CloudJob, now_s: float, duration_s: float) -> TimelineEvent:
    if isinstance(job, CloudDraft):
        return TimelineEvent("draft_cloud", now_s, now_s + duration_s, "", len(job.prefix), 1)
    if isinstance(job, PrefillTarget):
        return TimelineEvent("prefill_cloud", now_s, now_s + duration_s)
    kind: EventKind = "verify" if job.draft else "step"
    return TimelineEvent(kind, now_s, now_s + duration_s, "", len(job.tokens), len(job.draft))
