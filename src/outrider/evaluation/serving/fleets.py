# SPDX-License-Identifier: Apache-2.0
"""Fleets of robots on one verifier that runs the shipped pair, at its measured cost or a fitted one."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice

from outrider.core.frames import EdgeFrame
from outrider.core.link_profile import Network
from outrider.core.values import Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.jobs import CloudJob, Verify
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.fleet import Fleet
from outrider.decoding.simulation.fleet_world import CloudRecord, FleetText, FleetWorld, RobotRecord
from outrider.evaluation.common.ratios import branch_seconds, cpu_seconds, forward_seconds
from outrider.evaluation.decoding.published_server import tokens_until
from outrider.runtime.datasets.held_out import Pair
from outrider.wire.codec import decode_edge_frame, encode, frame_bytes

DRAFT_STEPS = 100
"""Draft steps that are timed; their median counts."""


@dataclass(frozen=True)
class ServingRow:
    """The figures of robots on one verifier.

    `text_s`: the time of a text; `round_s`: that over the target's passes for it. `first_s`: the time to
    its first token; `token_s`: that of each later one. `prompt_model_s` and `batch_model_s`: how long the
    model works for a text's prompt, and for the rest.
    """

    robots: int
    tokens_per_s: float
    round_s: float
    text_s: float
    first_s: float
    token_s: float
    batch: float
    passes_per_token: float
    prompt_model_s: float
    batch_model_s: float


@dataclass(frozen=True)
class BatchCost:
    """A verifier's time for a batch, linear in its sessions and tokens.

    Without a verification the batch is one of the `prompt_parts` of a prompt, and takes `part_s`.
    """

    base_s: float
    session_s: float
    token_s: float
    part_s: float
    prompt_parts: int = 1

    def __call__(self, jobs: Sequence[CloudJob]) -> float:
        verifications = [job for job in jobs if isinstance(job, Verify)]
        if not verifications:
            return self.part_s
        tokens = sum(len(job.draft) + 1 for job in verifications)
        return self.base_s + len(verifications) * self.session_s + tokens * self.token_s


def draft_cost(pair: Pair, prompts: Sequence[Prompt]) -> ComputeProfile:
    """Returns the draft's processor times, measured on the same processor as the verifier's."""
    branch_s = branch_seconds(pair.draft, prompts[0], DRAFT_STEPS)
    session = pair.draft.open_session()
    prefills = [cpu_seconds(partial(session.prefill, prompt)) for prompt in prompts]
    steps = [forward_seconds(session, 1) for _ in range(DRAFT_STEPS)]
    return ComputeProfile(
        draft_prefill_s=statistics.median(prefills),
        draft_token_s=statistics.median(steps),
        draft_branch_s=branch_s,
    )


def unpacking(frame: EdgeFrame) -> Callable[[], EdgeFrame]:
    """Return a function that decodes the frame from its bytes."""
    return partial(decode_edge_frame, encode(frame))


def real_world(
    compute: ComputeProfile, network: Network, robots: int, batch_s: BatchCost | None = None, seed: int = 0
) -> FleetWorld:
    """Return robots with their own processors and links; the verifier has its real cost, or a fitted one."""
    limits = CloudLimits(max_sessions=robots)
    return FleetWorld(frame_bytes, compute, network.uplink, batch_s, limits, seed, unpacking=unpacking)


def texts_of(
    prompts: Sequence[Prompt], first: int, number: int, pause_s: float, tokens: int = 96
) -> Iterator[FleetText]:
    """Return a robot's texts: `number` of the prompts from `first` on, cyclically."""
    return (FleetText(prompt, tokens, pause_s) for prompt in islice(cycle(prompts), first, first + number))


def _delayed(texts: Iterator[FleetText], by_s: float) -> Iterator[FleetText]:
    """Yield the same texts, all of them later by `by_s`."""
    for number, text in enumerate(texts):
        yield text if number else replace(text, pause_s=text.pause_s + by_s)


def run_fleet(
    pair: Pair,
    prompts: Sequence[Prompt],
    world: FleetWorld,
    config: DecodingConfig,
    robots: int,
    pause_s: float,
) -> tuple[list[RobotRecord], CloudRecord]:
    """Have the robots write each prompt's text once in all. They begin at different times within a pause.

    No two robots see the same frame. Robots do not stop at the same instant, and prompts that come together
    would wait for each other.
    """
    fleet = Fleet(pair.target, world)
    texts = len(prompts) // robots
    records = [
        fleet.add(
            _delayed(texts_of(prompts, robot * texts, texts, pause_s), pause_s * robot / robots),
            pair.draft,
            config,
        )
        for robot in range(robots)
    ]
    fleet.run()
    return records, fleet.cloud.record


def row_of(records: Sequence[RobotRecord], cloud: CloudRecord) -> ServingRow:
    """Return the figures of a fleet. Speeds are those until the first robot has finished."""
    end_s = min(record.commits[-1][0] for record in records)
    tokens = [tokens_until(record, end_s) for record in records]
    texts = [text for record in records for text in record.texts]
    written = sum(map(len, texts))
    first_s = [seconds for record in records for seconds in record.first_s]
    finished_s = [seconds for record in records for seconds in record.finished_s]
    return ServingRow(
        robots=len(records),
        tokens_per_s=sum(tokens) / end_s,
        round_s=statistics.fmean(
            sum(record.finished_s) / record.passes for record in records if record.passes
        ),
        text_s=statistics.fmean(finished_s),
        first_s=statistics.median(first_s),
        token_s=(sum(finished_s) - sum(first_s)) / (written - len(texts)),
        batch=statistics.fmean(cloud.batches),
        passes_per_token=sum(record.passes for record in records) / written,
        prompt_model_s=sum(cloud.prompt_s) / len(texts),
        batch_model_s=sum(cloud.batch_s) / len(texts),
    )
