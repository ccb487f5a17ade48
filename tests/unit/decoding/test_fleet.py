"""Many robots on one verifier: batches change no text, and nobody is slowed by another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.toys import JPEG, own_text, toy_pair

from outrider.core.link_profile import LinkProfile
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import STRATEGIES, DecodingConfig, Sampling
from outrider.decoding.fleet import Fleet, FleetText, FleetWorld, RobotRecord
from outrider.decoding.jobs import CloudJob, Verify
from outrider.decoding.limits import CloudLimits
from outrider.decoding.virtual import ComputeProfile
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


@pytest.mark.parametrize(
    ("strategy", "temperature"), [*((name, 0.0) for name in STRATEGIES), ("ar", 0.8), ("outrider", 0.8)]
)
def test_batches_change_no_text(strategy: str, temperature: float) -> None:
    target, draft = toy_pair(3, 0.7)
    config = DecodingConfig(strategy=strategy, temperature=temperature)
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


def test_many_robots_do_more_than_one_and_share_alike() -> None:
    [one], eight = run_for(1), run_for(8)
    assert sum(eight) > 4 * one
    assert max(eight) < 1.1 * min(eight)


def test_a_robot_with_endless_chunks_does_not_slow_the_others() -> None:
    calm, beside = run_for(8)[:7], run_for(8, flooding=True)[:7]
    assert sum(beside) > 0.9 * sum(calm)


def test_more_robots_than_places_take_turns() -> None:
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
