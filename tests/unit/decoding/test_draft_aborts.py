"""Frames that arrive during a draft are received at once, and a draft that has become useless is aborted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from edge_machine import draft, edge, grow, hint, prefill, verdict
from support.toy_models import ToyModel
from support.toys import own_text, request, toy_pair

from outrider.core.errors import Cancelled, LinkError
from outrider.core.frames import CloudFrame, EdgeFrame, Peer
from outrider.core.ports import Array, Chunk, ExitReader, Pause
from outrider.core.values import Decoded, LinkState, Verified
from outrider.decoding.cloud.machine import Reply
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder, ignore_verified, never_cancelled
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.simulation.compute import ComputeProfile, DeviceQueue
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.virtual_verifier import VirtualWorld

DRAFT_S, LAYERS, TARGET_S, ONE_WAY_S = 0.1, 10, 0.13, 0.03


def test_a_draft_that_a_verdict_made_useless_is_aborted():
    machine = edge(strategy="picospec", acceptance="greedy")
    draft(machine, 3)
    job = machine.next_job()
    assert not machine.should_abort(job)
    machine.receive(verdict((9,), 0), 1.0)
    assert machine.should_abort(job)
    assert not machine.should_abort(machine.next_job())


def test_a_draft_on_the_verdicts_branch_is_not_aborted():
    machine = edge(strategy="outrider")
    prefill(machine)
    grow(machine, (3, 8))
    job = machine.next_job()
    machine.receive(verdict((3,), 0), 1.0)
    assert (3,) in job.prefixes
    assert not machine.should_abort(job)


@pytest.mark.parametrize("strategy", ["fsd", "outrider"])
def test_a_draft_that_may_still_be_used_is_finished_despite_a_likelier_hint(strategy: str):
    machine = edge(strategy=strategy, num_draft_tokens=2, workers=1)
    draft(machine, 3)
    job = machine.next_job()
    machine.receive(hint((5,), confidence=99), 1.0)
    assert not machine.should_abort(job)


@pytest.mark.parametrize("ended", ["cancelled", "next text"])
def test_nothing_is_drafted_for_a_text_that_is_over(ended: str):
    machine = edge(strategy="outrider")
    prefill(machine)
    job = machine.next_job()
    if ended == "cancelled":
        machine.cancel()
    else:
        machine.begin(request().prompt, 20, 2.0)
    assert machine.should_abort(job)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class LayeredDraft(ToyModel):
    """Each draft takes DRAFT_S, with a pause after each of its layers."""

    def __init__(self, settings: object, clock: Clock) -> None:
        super().__init__(settings)  # type: ignore[arg-type]
        self._clock = clock
        self.running = False
        self.finished = self.aborted = self.layers = self.drafted = 0

    def forward_together(
        self, chunks: Sequence[Chunk], read: ExitReader | None = None, pause: Pause | None = None
    ) -> list[Array]:
        self.running = True
        try:
            for _ in range(LAYERS):
                self._clock.now_s += DRAFT_S / LAYERS
                self.layers += 1
                if pause is not None:
                    pause()
            self.finished += 1
            self.drafted += len(chunks)
            return super().forward_together(chunks, read)
        except BaseException:
            self.aborted += 1
            raise
        finally:
            self.running = False


class DelayedLink:
    """A FrameLink to a verifier that takes TARGET_S a batch; replies take ONE_WAY_S, frames no time.

    Waiting moves its clock.
    """

    state = LinkState.CONNECTED
    generation = 1

    def __init__(self, service: VerifierService, clock: Clock) -> None:
        self._service, self._clock = service, clock
        self._free_s = 0.0
        self._coming: list[tuple[float, CloudFrame]] = []

    def send(self, frame: EdgeFrame) -> int:
        self._free_s = max(self._free_s, self._clock.now_s)
        self._answer(self._clock.now_s, self._service.receive(Peer("", b"robot"), frame))
        return 1

    def receive(self, timeout_s: float) -> tuple[CloudFrame, int] | None:
        until_s = self._clock.now_s + timeout_s
        while self._free_s <= until_s:
            replies: list[Reply] = []
            if not self._service.step(replies.append):
                break
            self._free_s += TARGET_S
            self._answer(self._free_s, replies)
        if self._coming and self._coming[0][0] <= until_s:
            at_s, frame = self._coming.pop(0)
            self._clock.now_s = max(self._clock.now_s, at_s)
            return frame, 1
        self._clock.now_s = until_s
        return None

    def close(self) -> None:
        self._coming.clear()

    def _answer(self, at_s: float, replies: Sequence[Reply]) -> None:
        self._coming += [(at_s + ONE_WAY_S, reply.frame) for reply in replies]


class Robot:
    """A decoder whose draft agrees with the target half of the time."""

    def __init__(self, strategy: str, temperature: float = 0.0) -> None:
        self.clock = Clock()
        self.target, plain = toy_pair(5, 0.5, eos_bias=-9.0)
        self.draft = LayeredDraft(plain.settings, self.clock)
        self.sampling = Sampling(temperature=temperature)
        config = DecodingConfig(strategy=strategy, temperature=temperature, link_loss="stop")
        link = DelayedLink(VerifierService(self.target, clock=self.clock), self.clock)
        self._decoder = LinkedDecoder(link, self.draft, self.target.tokenizer, config, 1, "here", self.clock)

    def write(
        self,
        on_verified: Callable[[Verified], None] = ignore_verified,
        cancelled: Callable[[], bool] = never_cancelled,
        **changes: float,
    ) -> Decoded:
        asked = replace(request(max_new_tokens=30), **changes)
        return self._decoder.decode(asked, on_verified, cancelled)


@pytest.mark.parametrize("strategy", ["picospec", "outrider"])
def test_texts_with_aborted_drafts_are_the_targets_own(strategy: str):
    robot = Robot(strategy)
    assert robot.write().token_ids == own_text(robot.target, request(max_new_tokens=30))
    assert robot.draft.aborted > 0 and robot.draft.finished > 0


def test_tokens_are_reported_during_a_draft():
    robot = Robot("outrider")
    amid: list[bool] = []
    robot.write(lambda _: amid.append(robot.draft.running))
    assert any(amid)


def test_cancelling_aborts_a_running_draft():
    robot = Robot("outrider")
    asked_s: list[float] = []

    def cancelled() -> bool:
        if robot.draft.running:
            asked_s.append(robot.clock.now_s)
        return len(asked_s) == 3

    with pytest.raises(Cancelled):
        robot.write(cancelled=cancelled)
    assert robot.clock.now_s == asked_s[-1], "nothing more was computed"
    assert robot.draft.aborted == 1
    assert robot.write().token_ids == own_text(robot.target, request(max_new_tokens=30))


def test_a_deadline_aborts_a_running_draft():
    robot = Robot("outrider")
    with pytest.raises(LinkError, match=r"within 0\.55 s"):
        robot.write(deadline_s=0.55)
    assert robot.clock.now_s == pytest.approx(0.55, abs=DRAFT_S / LAYERS)
    assert robot.draft.aborted > 0


@pytest.mark.parametrize("strategy", ["picospec", "outrider"])
def test_aborted_drafts_take_time_and_give_no_tokens(strategy: str):
    robot = Robot(strategy)
    decoded = robot.write()
    assert robot.draft.aborted > 0
    spent_s = DRAFT_S / LAYERS * robot.draft.layers
    assert decoded.speculation.draft_busy_s == pytest.approx(spent_s)
    assert decoded.speculation.drafted_tokens == 1 + robot.draft.drafted, "the prompt gives the first"


def test_a_round_has_no_more_drafting_than_time():
    """The first draft of a round may have begun before the round."""
    for stats in Robot("outrider").write().rounds:
        assert stats.draft_s <= stats.finished_s - stats.started_s + 1e-9


def test_an_observers_error_during_a_draft_propagates_and_the_next_text_works():
    robot = Robot("outrider")

    def fail(_: Verified) -> None:
        if robot.draft.running:
            raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        robot.write(fail)
    assert robot.write().token_ids == own_text(robot.target, request(max_new_tokens=30))


@pytest.mark.parametrize("segments", [0, 20])
def test_on_the_virtual_clock_the_next_draft_starts_when_the_frame_arrives(segments):
    """A draft that a verdict makes useless ends at once, except for what is in the device's queue."""
    target, plain = toy_pair(5, 0.0, eos_bias=-9.0)
    compute = ComputeProfile(draft_token_s=1.0, verify_s=0.55, step_s=0.55, draft_queue=DeviceQueue(segments))
    events: list[tuple[str, float, float]] = []
    decoder = VirtualDecoder(
        target,
        plain,
        DecodingConfig(strategy="picospec"),
        VirtualWorld(lambda frame: 1, compute),
        lambda event: events.append((event.kind, event.start_s, event.end_s)),
    )
    decoder.decode(request(max_new_tokens=12))
    commits = {start_s for kind, start_s, _ in events if kind == "commit"}
    left = [end_s for kind, start_s, end_s in events if kind == "draft" and end_s - start_s < 0.99]
    assert left
    for end_s in left:
        news_s = max(at_s for at_s in commits if at_s <= end_s + 1e-9)
        assert segments * (end_s - news_s) == pytest.approx(1.5 if segments else 0.0, abs=0.5 + 1e-6)
