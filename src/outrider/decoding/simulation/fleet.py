# SPDX-License-Identifier: Apache-2.0
"""Many robots on one verifier, in virtual time: robots and links are simulated, the verifier may be real.

The verifier works as in `serve_frames`: it handles the frames that have arrived, runs one batch, and leaves
frames that arrive meanwhile for later. If the batch is a single job, it looks for new frames at every exit.
Each robot has its own processor and link.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from outrider.core.errors import LinkError
from outrider.core.frames import CloudFrame, EdgeFrame, Peer, Verdict
from outrider.core.link_profile import Channel
from outrider.core.ports import LanguageModel
from outrider.decoding.cloud.machine import Reply
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.edge.actions import Commit, EdgeAction, Fail, Send
from outrider.decoding.edge.machine import EdgeMachine
from outrider.decoding.event_loop import EventLoop
from outrider.decoding.execution.workers import DraftWorker
from outrider.decoding.jobs import (
    Aborted,
    CloudDraft,
    CloudJob,
    CloudResult,
    EdgeJob,
    EdgeResult,
    ExitHint,
    Unfinished,
    Verify,
)
from outrider.decoding.protocol.retry_timer import RetryTimer
from outrider.decoding.simulation.compute import layer_fractions
from outrider.decoding.simulation.fleet_world import CloudRecord, FleetText, FleetWorld, RobotRecord

_TICK_S = 0.1


class FleetCloud:
    """The verifier's thread: receives frames, runs batches, sends answers."""

    def __init__(self, target: LanguageModel, world: FleetWorld, agenda: EventLoop) -> None:
        self.record = CloudRecord()
        self._world = world
        self._agenda = agenda
        self._service_s = 0.0
        self._service = VerifierService(
            target, world.limits, lambda: self._service_s, world.tuning, world.cloud_draft
        )
        self._inbox: list[tuple[Peer, Callable[[], EdgeFrame]]] = []
        self._due_s = 0.0
        """When the frames in the inbox stop waiting for more."""
        self._busy = False
        self._next_check_s = -1.0
        self._deliver: dict[Peer, Callable[[CloudFrame], None]] = {}
        self._shares = layer_fractions(target)

    def connect(self, peer: Peer, deliver: Callable[[CloudFrame], None]) -> None:
        """Register the function that receives the frames for a peer."""
        self._deliver[peer] = deliver

    def receive(self, peer: Peer, frame: EdgeFrame) -> None:
        """Take a frame from a peer; start a batch if enough frames are waiting."""
        if not self._inbox:
            self._due_s = self._agenda.now_s + self._world.fill_wait_s
            if self._world.fill > 1:
                self._agenda.at(self._due_s, self._run_turn)
        self._inbox.append((peer, self._world.unpacking(frame)))
        if self._filled():
            self._run_turn()

    def _filled(self) -> bool:
        """Return whether the frames in the inbox need not wait for more."""
        enough = len(self._inbox) >= self._world.fill
        return bool(self._inbox) and (enough or self._agenda.now_s >= self._due_s)

    def _run_turn(self) -> None:
        """Receive, run one batch, answer.

        Work that the verifier already has does not wait for the inbox to fill.
        """
        if self._busy:
            return
        self._busy = True
        began_s, others_s = time.thread_time(), 0.0
        start_s = self._service_s = self._agenda.now_s
        replies = self._receive_inbox() if self._filled() else []
        self._send(replies, start_s)
        jobs = self._service.next_jobs()
        batch_s, alone = self._batch_s(jobs), len(jobs) == self._world.fill == 1

        def spent_s(share: float) -> float:
            return time.thread_time() - began_s - others_s if batch_s is None else share * batch_s

        def on_hint(job: Verify, hint: ExitHint) -> bool:
            nonlocal others_s
            self._service_s = start_s + spent_s(self._shares[hint.exit])
            new: list[Reply] = []
            if alone:
                paused_s = time.thread_time()
                self._agenda.run(self._service_s)
                others_s += time.thread_time() - paused_s
                new += self._receive_inbox()
            hints, should_abort = self._service.hint(job, hint)
            new += hints
            self._send(new, self._service_s)
            replies.extend(new)
            return should_abort

        results = self._service.run(jobs, on_hint) if jobs else []
        if not any(isinstance(result, Aborted) for result in results):
            self._service_s = start_s + spent_s(1.0)
        took_s = self._service_s - start_s
        answers = self._service.finish(jobs, results, took_s) if jobs else []
        if self._world.batch_s is None:
            self._wire(replies, answers)
            took_s = spent_s(1.0)
        self._note(jobs, results, took_s)
        self.record.others_s += others_s
        self._agenda.at(start_s + took_s, lambda: self._end_turn(answers, bool(jobs)))

    def _receive_inbox(self) -> list[Reply]:
        """Pass the frames in the inbox to the service; return its replies."""
        inbox, self._inbox = self._inbox, []
        return [reply for peer, unpacked in inbox for reply in self._service.receive(peer, unpacked())]

    def _batch_s(self, jobs: Sequence[CloudJob]) -> float | None:
        """Return the simulated duration of a batch; None to measure it."""
        if self._world.batch_s is None:
            return None
        return self._world.batch_s(jobs) if jobs else 0.0

    def _wire(self, *replies: Sequence[Reply]) -> None:
        """Encode the replies, for the time that a real verifier spends on it."""
        for reply in (reply for group in replies for reply in group):
            self._world.frame_bytes(reply.frame)

    def _end_turn(self, answers: Sequence[Reply], worked: bool) -> None:
        self._busy = False
        self._send(answers, self._agenda.now_s)
        if worked or self._filled():
            self._run_turn()
            return
        self._service_s = self._agenda.now_s
        wait_s = self._service.max_wait_s()
        if wait_s is not None and self._next_check_s <= self._agenda.now_s:
            self._next_check_s = self._agenda.now_s + max(wait_s, 1e-6)
            self._agenda.at(self._next_check_s, self._run_turn)

    def _send(self, replies: Sequence[Reply], at_s: float) -> None:
        for reply in replies:
            self._agenda.at(at_s, partial(self._deliver[reply.peer], reply.frame))

    def _note(self, jobs: Sequence[CloudJob], results: Sequence[CloudResult], took_s: float) -> None:
        if jobs and isinstance(jobs[0], Verify):
            self.record.batches.append(len(jobs))
            self.record.batch_s.append(took_s)
        elif jobs and isinstance(jobs[0], CloudDraft):
            self.record.draft_s.append(took_s)
        elif jobs:
            self.record.prompt_s.append(took_s)
            self.record.prompts += not isinstance(results[0], Unfinished)


class FleetRobot:
    """One robot: an edge machine with a draft model, a link, and a sequence of texts to write."""

    def __init__(
        self,
        name: str,
        texts: Iterator[FleetText],
        draft: LanguageModel | None,
        config: DecodingConfig,
        target: LanguageModel,
        world: FleetWorld,
        agenda: EventLoop,
        cloud: FleetCloud,
    ) -> None:
        self.record = RobotRecord()
        self.done = False
        self._peer = Peer("", name.encode())
        self._texts = texts
        self._world = world
        self._agenda = agenda
        self._cloud = cloud
        self._config = config
        self._machine = EdgeMachine(1, config, target.tokenizer)
        self._worker = DraftWorker(draft) if draft is not None and config.needs_model else None
        rng = random.Random(f"{world.seed}/{name}")
        self._uplink, self._downlink = Channel(world.link, rng), Channel(world.link, rng)
        self._drafting: EdgeJob | None = None
        self._begun_s = 0.0
        cloud.connect(self._peer, self._receive_later)
        agenda.at(0.0, self._begin_next)

    def _begin_next(self) -> None:
        text = next(self._texts, None)
        if text is None:
            self.done = True
            return
        self._agenda.at(self._agenda.now_s + text.pause_s, self._begin, text)

    def _begin(self, text: FleetText) -> None:
        now_s = self._begun_s = self._agenda.now_s
        config = self._config
        self._retry = RetryTimer(config.silence_s, 1, now_s, config.link_grace_s)
        self._perform(self._machine.begin(text.prompt, text.max_new_tokens, now_s))
        number = len(self.record.texts)
        self._agenda.at(now_s + _TICK_S, self._tick, number)
        self._work()

    def _tick(self, number: int) -> None:
        """Repeat requests after a long silence."""
        if self._machine.done or len(self.record.texts) != number:
            return
        if self._retry.advice(True, 1, self._agenda.now_s) == "retry":
            self._perform(self._machine.retry(self._agenda.now_s))
            self._work()
        self._agenda.at(self._agenda.now_s + _TICK_S, self._tick, number)

    def _receive_later(self, frame: CloudFrame) -> None:
        arrival_s = self._downlink.arrival_s(self._agenda.now_s, self._world.frame_bytes(frame))
        if arrival_s is not None:
            self._agenda.at(arrival_s, self._receive, frame)

    def _receive(self, frame: CloudFrame) -> None:
        now_s = self._agenda.now_s
        self._retry.on_frame(frame, now_s)
        if isinstance(frame, Verdict) and frame.drafted and not self._machine.done:
            self.record.rounds += 1
        self._perform(self._machine.receive(frame, now_s))
        if self._drafting is not None and self._machine.should_abort(self._drafting):
            self._drafting = None
        self._work()

    def _work(self) -> None:
        job = None if self._drafting is not None else self._machine.next_job()
        if job is None or self._worker is None:
            return
        self._drafting = job
        duration_s = self._world.compute.draft_s(job)
        result = self._worker.run(job)
        self._agenda.at(self._agenda.now_s + duration_s, self._finish_job, job, result, duration_s)

    def _finish_job(self, job: EdgeJob, result: EdgeResult, duration_s: float) -> None:
        if job is not self._drafting:
            return
        self._drafting = None
        self._perform(self._machine.complete(job, result, self._agenda.now_s, duration_s))
        self._work()

    def _perform(self, actions: Sequence[EdgeAction]) -> None:
        now_s = self._agenda.now_s
        for action in actions:
            if isinstance(action, Send):
                self._send(action.frame)
            elif isinstance(action, Fail):
                self.record.failure, self.done = str(action.error), True
            elif isinstance(action, Commit):
                self._on_commit(action, now_s)

    def _on_commit(self, commit: Commit, now_s: float) -> None:
        if len(self._machine.tokens) == len(commit.tokens):
            self.record.first_s.append(now_s - self._begun_s)
        self.record.commits.append((now_s, len(commit.tokens)))
        if self._machine.done:
            self.record.texts.append(self._machine.tokens)
            self.record.passes += self._machine.text.target_passes
            self.record.finished_s.append(now_s - self._begun_s)
            self._begin_next()

    def _send(self, frame: EdgeFrame) -> None:
        arrival_s = self._uplink.arrival_s(self._agenda.now_s, self._world.frame_bytes(frame))
        if arrival_s is not None:
            self._agenda.at(arrival_s, lambda: self._cloud.receive(self._peer, frame))


class Fleet:
    """Robots that share one verifier; each has its own texts and strategy."""

    def __init__(self, target: LanguageModel, world: FleetWorld) -> None:
        self.agenda = EventLoop()
        self.cloud = FleetCloud(target, world, self.agenda)
        self.robots: list[FleetRobot] = []
        self._target = target
        self._world = world

    def add(
        self, texts: Iterator[FleetText], draft: LanguageModel | None, config: DecodingConfig
    ) -> RobotRecord:
        """Add a robot that works from the start; its record fills while the fleet runs."""
        name = f"robot {len(self.robots)}"
        robot = FleetRobot(name, texts, draft, config, self._target, self._world, self.agenda, self.cloud)
        self.robots.append(robot)
        return robot.record

    def run(self, until_s: float = float("inf")) -> None:
        """Run until all texts are written, or until `until_s`. Raises LinkError if a robot was refused."""
        self.agenda.run(until_s, lambda: all(robot.done for robot in self.robots))
        failures = [robot.record.failure for robot in self.robots if robot.record.failure]
        if failures:
            raise LinkError(failures[0])
