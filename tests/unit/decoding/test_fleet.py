"""Many robots on one verifier: batches change no text, and no robot slows another down."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from cloud_machine import HASTY
from support.toy_models import ToyModel
from support.toys import JPEG, own_text, toy_pair

from outrider.core.frames import EdgeFrame, Peer
from outrider.core.link_profile import LinkProfile
from outrider.core.ports import Array, Chunk, ExitReader, Pause, Reading
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.cloud import scheduler
from outrider.decoding.cloud.batch_selection import Candidate, select_batch
from outrider.decoding.cloud.machine import Reply
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.execution.workers import OnHint
from outrider.decoding.jobs import CloudDraft, CloudJob, CloudResult, Verify
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.fleet import Fleet
from outrider.decoding.simulation.fleet_world import FleetText, FleetWorld, RobotRecord
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning
from outrider.wire.codec import encode, wire_bytes

TEXTS = 3


def batch_s(jobs: list[CloudJob]) -> float:
    rows = sum(len(job.draft) + 1 if isinstance(job, Verify) else 50 for job in jobs)
    return 0.02 + 0.0002 * rows


def world(delay_s: float = 0.005, **limits) -> FleetWorld:
    return FleetWorld(
        lambda frame: wire_bytes(encode(frame)),
        ComputeProfile(draft_token_s=0.004),
        LinkProfile(delay_s=delay_s, jitter_s=0.002),
        batch_s,
        CloudLimits(**limits),
    )


def prompts(robot: int, number: int = TEXTS) -> list[Prompt]:
    return [Prompt(f"robot {robot} text {index}", JPEG) for index in range(number)]


def texts_of(robot: int, number: int = TEXTS) -> Iterator[FleetText]:
    return (FleetText(prompt, 40) for prompt in prompts(robot, number))


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("strategy", "temperature"), [*((name, 0.0) for name in STRATEGIES), ("ar", 0.8), ("outrider", 0.8)]
)
def test_batches_change_no_text(strategy: str, temperature: float) -> None:
    target, draft = toy_pair(3, 0.7)
    own = STRATEGIES[strategy].acceptance
    config = DecodingConfig(strategy=strategy, acceptance=own, temperature=temperature)
    fleet = Fleet(target, world())
    records = [fleet.add(texts_of(robot), draft, config) for robot in range(6)]
    fleet.run()
    for robot, record in enumerate(records):
        for prompt, text in zip(prompts(robot), record.texts, strict=True):
            sampling = config.sampling_for(prompt) if temperature else Sampling()
            assert text == own_text(target, DecodeRequest(prompt, 40), sampling)
    assert max(fleet.cloud.record.batches) > 2


def speed(records: list[RobotRecord], until_s: float) -> list[float]:
    return [sum(count for at_s, count in record.commits if at_s <= until_s) for record in records]


def run_for(robots: int, until_s: float = 3.0, flooding: bool = False) -> list[float]:
    target, draft = toy_pair(3, 0.8, eos_bias=-9.0)
    fleet = Fleet(target, world())
    records = []
    for robot in range(robots):
        floods = flooding and robot == robots - 1
        config = DecodingConfig(strategy="sd", num_draft_tokens=60 if floods else 4)
        records.append(fleet.add(texts_of(0, 1000), draft, config))
    fleet.run(until_s)
    return speed(records, until_s)


@pytest.mark.lengthy
def test_many_robots_do_more_than_one_and_share_alike() -> None:
    [alone], eight = run_for(1), run_for(8)
    assert sum(eight) > 4 * alone
    assert max(eight) < 1.1 * min(eight)


@pytest.mark.lengthy
def test_a_robot_with_endless_chunks_does_not_slow_the_others() -> None:
    quiet, flooded = run_for(8)[:7], run_for(8, flooding=True)[:7]
    assert sum(flooded) > 0.9 * sum(quiet)


def kneed_s(jobs: list[CloudJob]) -> float:
    """Return the time of a batch: six sessions share most of it; each further one adds its own."""
    return 0.02 + 0.0005 * len(jobs) + 0.004 * max(0, len(jobs) - 6)


TAKES_ALL = DEFAULT_TUNING.without("select_batch")


def run_loaded(
    strategy: str,
    robots: int = 12,
    until_s: float = 3.0,
    tuning: AdaptiveTuning = DEFAULT_TUNING,
    **limits: int,
) -> list[float]:
    target, draft = toy_pair(3, 0.7, eos_bias=-9.0)
    alone = world(max_sessions=robots, batch_tokens=8 * robots, **limits)
    shared = replace(alone, batch_s=kneed_s, tuning=tuning)
    fleet = Fleet(target, shared)
    records = [
        fleet.add(texts_of(0, 1000), draft, DecodingConfig(strategy, workers=1)) for _ in range(robots)
    ]
    fleet.run(until_s)
    return speed(records, until_s)


@pytest.mark.lengthy
def test_under_load_throughput_rises_if_short_drafts_wait() -> None:
    ours, plain = run_loaded("outrider", until_s=6.0), run_loaded("sd", until_s=6.0)
    assert sum(ours) > 1.1 * sum(plain)
    assert max(ours) < 1.25 * min(ours), "all robots write at nearly the same speed"
    assert sum(ours) > 1.1 * sum(run_loaded("outrider", until_s=6.0, tuning=TAKES_ALL))


@pytest.mark.lengthy
def test_whole_drafts_come_in_two_batches_where_one_would_take_longer() -> None:
    ours = run_loaded("sd", 24, 8.0)
    assert max(ours) < 1.25 * min(ours), "all robots write at nearly the same speed"
    assert sum(ours) > 1.1 * sum(run_loaded("sd", 24, 8.0, TAKES_ALL))


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("strategy", "most", "waits"),
    [("sd", 1, True), ("sd", 0, False), ("outrider", 2, True), ("ar", 4, False)],
)
def test_a_ready_session_is_left_out_of_a_bounded_number_of_batches(
    strategy: str, most: int, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Candidate] = []

    def noted(candidates: Sequence[Candidate], *others: Any) -> tuple[set[int], float]:
        seen.extend(candidates)
        return select_batch(candidates, *others)

    monkeypatch.setattr(scheduler, "select_batch", noted)
    run_loaded(strategy, 16, 1.0, most_left_out=most)
    assert max(candidate.left_out for candidate in seen) == (most if waits else 0)
    assert any(candidate.can_wait for candidate in seen) == waits


class SlowExits(ToyModel):
    """Counts the time of its layers in `spent_s`: as much before each exit as after the last."""

    shares_prompts = False
    spent_s = 0.0

    def forward_together(
        self, chunks: Sequence[Chunk], read: ExitReader | None = None, pause: Pause | None = None
    ) -> list[Array]:
        def slowly(index: int, rows: Sequence[tuple[int, Array]]) -> Reading | None:
            assert read is not None
            self.spent_s += 0.1
            return read(index, rows)

        rows = super().forward_together(chunks, None if read is None else slowly, pause)
        self.spent_s += 0.4 if read is None else 0.1
        return rows


@pytest.mark.lengthy
@pytest.mark.parametrize("modelled", [True, False])
def test_an_aborted_verification_takes_the_time_until_its_exit(
    modelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = SlowExits(toy_pair(3, 0.7, -9.0)[0].settings), toy_pair(3, 0.7, -9.0)[1]
    monkeypatch.setattr(time, "thread_time", lambda: target.spent_s)
    config = DecodingConfig(temperature=1.0)
    fleet = Fleet(target, replace(world(), batch_s=(lambda jobs: 0.4) if modelled else None, tuning=HASTY))
    record = fleet.add(texts_of(0), draft, config)
    fleet.run()
    for prompt, text in zip(prompts(0), record.texts, strict=True):
        assert text == own_text(target, DecodeRequest(prompt, 40), config.sampling_for(prompt))
    took_s = [took_s for took_s in fleet.cloud.record.batch_s if took_s > 0.0]
    aborted = [took_s for took_s in took_s if took_s < 0.39]
    assert len(aborted) == fleet.cloud._service.stats.aborted > 5
    for one_s in aborted:
        assert min(abs(one_s - exit_s) for exit_s in (0.1, 0.2, 0.3)) < 1e-9
    assert max(took_s) == pytest.approx(0.4)
    assert sum(record.finished_s) >= sum(took_s)


@pytest.mark.lengthy
@pytest.mark.parametrize("robots", [1, 3])
@pytest.mark.parametrize("modelled", [True, False])
def test_frames_that_arrive_during_a_single_verification_are_received_at_an_exit(
    robots: int, modelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the real verifier. In a batch of several robots, frames are received only between batches."""
    target, draft = SlowExits(toy_pair(3, 0.7, -9.0)[0].settings), toy_pair(3, 0.7, -9.0)[1]
    monkeypatch.setattr(time, "thread_time", lambda: target.spent_s)
    fleet = Fleet(target, replace(world(), batch_s=(lambda jobs: 0.4) if modelled else None))
    service, running, aborted_after = fleet.cloud._service, [], []

    def run(jobs: Sequence[CloudJob], on_hint: OnHint, plain: Any = service.run) -> list[CloudResult]:
        running.append((fleet.agenda.now_s, len(jobs)))
        results = plain(jobs, on_hint)
        running.pop()
        return results

    def receive(peer: Peer, frame: EdgeFrame, plain: Any = service.receive) -> list[Reply]:
        if running:
            began_s, num_jobs = running[-1]
            aborted_after.append((num_jobs, service._clock() - began_s))
        return plain(peer, frame)

    monkeypatch.setattr(service, "run", run)
    monkeypatch.setattr(service, "receive", receive)
    records = [fleet.add(texts_of(robot, 12), draft, DecodingConfig()) for robot in range(robots)]
    fleet.run()
    for robot, record in enumerate(records):
        assert record.texts == [own_text(target, DecodeRequest(prompt, 40)) for prompt in prompts(robot, 12)]
    assert len(aborted_after) >= 3 and {num_jobs for num_jobs, _ in aborted_after} == {1}
    assert all(
        min(abs(after_s - exit_s) for exit_s in (0.1, 0.2, 0.3)) < 1e-9 for _, after_s in aborted_after
    )


@pytest.mark.lengthy
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_cloud_draft_changes_no_text_and_raises_throughput(temperature: float) -> None:
    target, draft = toy_pair(3, 0.8, eos_bias=-9.0)
    config = DecodingConfig(temperature=temperature)

    def run(cloud_draft: ToyModel | None) -> tuple[list[RobotRecord], Fleet]:
        def costs(jobs: Sequence[CloudJob]) -> float:
            return 0.001 if isinstance(jobs[0], CloudDraft) else batch_s([*jobs])

        slow = replace(world(), compute=ComputeProfile(draft_token_s=0.05), batch_s=costs)
        fleet = Fleet(target, replace(slow, cloud_draft=cloud_draft))
        records = [fleet.add(texts_of(robot), draft, config) for robot in range(6)]
        fleet.run()
        return records, fleet

    (alone, _), (both, fleet) = run(None), run(draft)
    assert [record.texts for record in both] == [record.texts for record in alone]
    assert len(fleet.cloud.record.draft_s) > 10
    ends = [max(record.commits[-1][0] for record in some) for some in (both, alone)]
    assert ends[0] < 0.8 * ends[1]


def test_more_robots_than_sessions_take_turns() -> None:
    target, draft = toy_pair(3, 0.8)
    fleet = Fleet(target, world(max_sessions=2, rest_s=0.05))
    config = DecodingConfig(strategy="sd", silence_s=0.3)
    records = [
        fleet.add((FleetText(p, 40, 0.2) for p in prompts(robot)), draft, config) for robot in range(4)
    ]
    fleet.run()
    for robot, record in enumerate(records):
        expected = [own_text(target, DecodeRequest(prompt, 40)) for prompt in prompts(robot)]
        assert record.texts == expected
