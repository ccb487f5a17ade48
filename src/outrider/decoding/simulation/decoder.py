# SPDX-License-Identifier: Apache-2.0
"""The real machines and models on a virtual clock: a seeded discrete-event loop over a simulated link.

Nothing sleeps. The models really run, but their time is taken from `ComputeProfile`. So hardware and
networks that are not available can be studied, and any schedule can be replayed from its seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

from outrider.core.errors import Cancelled, LinkError
from outrider.core.frames import CloudFrame, EdgeFrame
from outrider.core.ports import DraftHead, LanguageModel, TextDecoder
from outrider.core.values import Decoded, DecodeRequest, LinkState, Verified
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.decode_stats import DecodeRecorder
from outrider.decoding.drivers.linked_decoder import ignore_verified, never_cancelled
from outrider.decoding.edge.actions import Commit, EdgeAction, Fail, Send
from outrider.decoding.edge.hedging import Directed, Hedge
from outrider.decoding.edge.machine import EdgeMachine
from outrider.decoding.event_loop import EventLoop
from outrider.decoding.execution.workers import DraftWorker
from outrider.decoding.jobs import DraftTokens, EdgeJob, EdgeResult
from outrider.decoding.protocol.retry_timer import RetryTimer
from outrider.decoding.simulation.timeline import Observer, TimelineEvent
from outrider.decoding.simulation.virtual_verifier import Running, VirtualVerifier, VirtualWorld

_TICK_S = 0.05


class VirtualDecoder(TextDecoder):
    """A TextDecoder in virtual time; its clock `now_s` continues from text to text."""

    def __init__(
        self,
        target: LanguageModel,
        draft: LanguageModel | None,
        config: DecodingConfig,
        world: VirtualWorld,
        observer: Observer | None = None,
        cloud_draft: LanguageModel | None = None,
        second: VirtualWorld | None = None,
        cloud_head: DraftHead | None = None,
    ) -> None:
        """`cloud_draft`: a draft model in the cloud; `cloud_head`: the target's draft head instead.

        `second`: the world of a second verifier with its own link; its draft model's times and its seed are
        unused.
        """
        self._observer = observer
        self._compute = world.compute
        self._config = config
        self._tokenizer = target.tokenizer
        self._worker = DraftWorker(draft) if draft is not None and config.needs_model else None
        self._machine = EdgeMachine(1, config, target.tokenizer)
        self._agenda = EventLoop()
        self._drafting: Running[EdgeJob] | None = None
        self._hedge = Hedge() if second is not None else None
        self._next_watch_s = 0.0
        rng = random.Random(world.seed)
        self._verifiers = [
            VirtualVerifier(
                target,
                config,
                verifier_world,
                self._agenda,
                rng,
                partial(self._receive_down, number),
                self._observe,
                cloud_draft,
                cloud_head,
            )
            for number, verifier_world in enumerate([world] if second is None else [world, second])
        ]

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = ignore_verified,
        cancelled: Callable[[], bool] = never_cancelled,
    ) -> Decoded:
        """Decode as `core.ports.TextDecoder`; `cancelled` is asked after every event."""
        self._start_s = self.now_s
        self._transcript = DecodeRecorder(self._tokenizer, on_verified)
        config = self._config
        self._retry = RetryTimer(config.silence_s, self._generation, self.now_s, config.link_grace_s)
        try:
            self._watch()
            self._perform(self._machine.begin(request.prompt, request.max_new_tokens, self.now_s))
            self._agenda.at(self.now_s, self._tick, request, self._transcript)
            while not self._machine.done:
                if cancelled():
                    raise Cancelled(f"cancelled after {len(self._machine.tokens)} verified tokens")
                self._next_event()
        except BaseException:
            self._perform(self._machine.cancel())
            raise
        link = LinkState.CONNECTED if self._is_up else LinkState.LOST
        return self._transcript.decoded(self._machine, self.now_s - self._start_s, link)

    def move_to(self, world: VirtualWorld) -> None:
        """Decode the next texts with the links and times of another world, in the same session."""
        self._compute = world.compute
        for verifier in self._verifiers:
            verifier.move_to(world)

    def close(self) -> None:
        """Drop all pending events."""
        self._agenda.clear()

    @property
    def now_s(self) -> float:
        """The simulated time in seconds."""
        return self._agenda.now_s

    @property
    def num_hedged(self) -> int:
        """How often the second verifier was used."""
        return self._hedge.num_hedged if self._hedge is not None else 0

    @property
    def _is_up(self) -> bool:
        return any(verifier.is_up for verifier in self._verifiers)

    @property
    def _generation(self) -> int:
        return sum(verifier.generation for verifier in self._verifiers)

    def _next_event(self) -> None:
        self._start_edge_job()
        for verifier in self._verifiers:
            verifier.start_job()
        self._agenda.step()

    def _tick(self, request: DecodeRequest, transcript: DecodeRecorder) -> None:
        """Check deadline and link, again and again while this request's text is decoded."""
        if self._machine.done or transcript is not self._transcript:
            return
        if not self.now_s - self._start_s <= request.deadline_s:
            raise LinkError(f"no full text within {request.deadline_s:g} virtual s")
        advice = self._retry.advice(self._is_up, self._generation, self.now_s)
        if advice is not None:
            react = self._machine.retry if advice == "retry" else self._machine.continue_alone
            self._perform(react(self.now_s))
        self._watch()
        self._agenda.at(self.now_s + _TICK_S, self._tick, request, transcript)

    def _watch(self) -> None:
        """Use the second verifier if it is due, and schedule the next check."""
        if self._hedge is None:
            return
        up = [verifier.is_up for verifier in self._verifiers]
        generations = [verifier.generation for verifier in self._verifiers]
        self._send_to(self._hedge.watch(up, generations, self.now_s))
        due_s = self._hedge.due_s()
        if due_s is not None and due_s > self.now_s and due_s != self._next_watch_s:
            self._next_watch_s = due_s
            self._agenda.at(due_s, self._watch_text)

    def _watch_text(self) -> None:
        """Call `_watch` while a text is in progress."""
        if not self._machine.done:
            self._watch()

    def _start_edge_job(self) -> None:
        job = None if self._drafting is not None else self._machine.next_job()
        if job is None or self._worker is None:
            return
        result = self._worker.run(job)
        self._drafting = running = Running(job, self.now_s)
        self._agenda.at(self.now_s + self._compute.draft_s(job), self._finish_edge_job, running, result)

    def _finish_edge_job(self, running: Running[EdgeJob], result: EdgeResult) -> None:
        """Complete a job, unless it was aborted."""
        if running.aborted:
            return
        self._end_edge_job(running)
        compute_s = self.now_s - running.started_s
        self._perform(self._machine.complete(running.job, result, self.now_s, compute_s))

    def _abort_edge_job(self) -> None:
        """Abort the running job if another one is worth more after a frame has arrived."""
        running = self._drafting
        if running is None or running.aborted:
            return
        whole_s = self._compute.draft_s(running.job)
        free_s = running.free_s(self.now_s, self._compute.draft_queue, whole_s)
        if free_s < running.started_s + whole_s and self._machine.should_abort(running.job):
            running.aborted = True
            self._agenda.at(free_s, self._end_edge_job, running)

    def _end_edge_job(self, running: Running[EdgeJob]) -> None:
        job, duration_s = running.job, self.now_s - running.started_s
        self._drafting = None
        self._observe(_edge_event(job, running.started_s, duration_s))
        if isinstance(job, DraftTokens):
            num_tokens = 0 if running.aborted else len(job.prefixes)
            self._transcript.on_drafted(num_tokens, duration_s, self.now_s - self._start_s)

    def _perform(self, actions: list[EdgeAction]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self._send_up(action.frame)
            elif isinstance(action, Commit):
                num, now_s = len(action.tokens), self.now_s
                self._observe(TimelineEvent("commit", now_s, now_s, "", len(self._machine.tokens) - num, num))
                self._transcript.on_commit(action, self._machine.done, self.now_s - self._start_s)
            elif isinstance(action, Fail):
                raise action.error

    def _send_up(self, frame: EdgeFrame) -> None:
        if self._hedge is None:
            self._send_to([Directed(0, frame)])
            return
        self._send_to(self._hedge.send(frame, self.now_s))
        self._watch_text()

    def _send_to(self, frames: Sequence[Directed]) -> None:
        for number, frame in frames:
            num_bytes = self._verifiers[number].send_up(frame)
            if num_bytes:
                self._transcript.on_sent(frame, num_bytes, self.now_s - self._start_s)

    def _receive_down(self, number: int, frame: CloudFrame, num_bytes: int) -> None:
        self._transcript.on_received(frame, num_bytes)
        forward: CloudFrame | None = frame
        if self._hedge is not None:
            forward, frames = self._hedge.receive(number, frame, self.now_s)
            self._send_to(frames)
        if forward is not None:
            self._retry.on_frame(forward, self.now_s)
            self._perform(self._machine.receive(forward, self.now_s))
            self._abort_edge_job()
        self._watch_text()

    def _observe(self, event: TimelineEvent) -> None:
        if self._observer is not None:
            self._observer(event)


def _edge_event(job: EdgeJob, now_s: float, duration_s: float) -> TimelineEvent:
    if not isinstance(job, DraftTokens):
        return TimelineEvent("prefill_edge", now_s, now_s + duration_s)
    return TimelineEvent("draft", now_s, now_s + duration_s, "", len(job.prefixes[0]), len(job.prefixes))
