# SPDX-License-Identifier: Apache-2.0
"""Fleets for `outrider bench serving`: the shipped pair at its real cost, and a published server."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from typing import NamedTuple

from outrider.core.frames import EdgeFrame
from outrider.core.link_profile import LinkProfile, Network
from outrider.core.values import Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.fakes.synthetic import SyntheticSettings, synthetic_pair
from outrider.decoding.fakes.synthetic_fit import draft_confidence
from outrider.decoding.jobs import CloudDraft, CloudJob, Verify
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.fleet import Fleet
from outrider.decoding.simulation.fleet_world import CloudRecord, FleetText, FleetWorld, RobotRecord
from outrider.decoding.theory import acceptance_rate
from outrider.evaluation.decoding.regimes import BRANCH_COST
from outrider.runtime.datasets.held_out import Pair
from outrider.wire.codec import decode_edge_frame, encode, frame_bytes

SERVER_MS = {1: 17.94, 2: 21.75, 3: 24.35, 4: 24.63, 8: 30.73, 12: 44.52, 16: 45.79, 32: 96.94, 64: 258.79}
"""Vicuna-7B on an A100 by batch size: FSD (arXiv 2505.21594), Table 9."""
JETSON_DRAFT_MS = 7.76
"""Vicuna-68M on a Jetson: the same table."""
TOKENS_PER_ROUND = 2.5
"""FSD, Table 1, with 4 drafted."""
NUM_DRAFT_TOKENS = 4
ONE_WAY_S = 0.005
"""Seconds one way between a robot and FSD's server."""
FLOOD_TOKENS = 60
MOSTLY = 0.95
"""A fleet counts as served if this share of its texts is."""
_JPEG = b"\xff\xd8"


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


def _later(texts: Iterator[FleetText], by_s: float) -> Iterator[FleetText]:
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
            _later(texts_of(prompts, robot * texts, texts, pause_s), pause_s * robot / robots),
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
    first_s = [one_s for record in records for one_s in record.first_s]
    finished_s = [one_s for record in records for one_s in record.finished_s]
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


def tokens_until(record: RobotRecord, end_s: float) -> int:
    """Return how many tokens of a robot were final by a time in seconds."""
    return sum(count for at_s, count in record.commits if at_s <= end_s)


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


def server_s(size: int) -> float:
    """Return the seconds of FSD's server for a batch of sequences, interpolated linearly."""
    if size == 0:
        return 0.0
    sizes = sorted(SERVER_MS)
    at = min(bisect_left(sizes, size), len(sizes) - 1)
    if sizes[at] == size or at == 0:
        return SERVER_MS[sizes[at]] / 1e3
    low, high = sizes[at - 1], sizes[at]
    share = (size - low) / (high - low)
    return (SERVER_MS[low] + share * (SERVER_MS[high] - SERVER_MS[low])) / 1e3


def published_server(jobs: Sequence[CloudJob], draft_share: float = 0.0) -> float:
    """Return the seconds of FSD's server for a batch; prompts are free.

    `draft_share`: the time of a draft token in the cloud, as a share of a forward of as many sequences.
    """
    drafts = sum(isinstance(job, CloudDraft) for job in jobs)
    verifications = sum(isinstance(job, Verify) and job.needs_forward for job in jobs)
    return draft_share * server_s(drafts) + server_s(verifications)


class Batching(NamedTuple):
    """How a verifier forms its batches.

    It waits for `fill` frames, takes at most `most_tokens` of all robots (None: the sum of their shares),
    and leaves a robot that is ready out of at most `most_left_out` batches.
    """

    fill: int = 1
    most_tokens: int | None = None
    most_left_out: int = CloudLimits().most_left_out


def published_pair(seed: int) -> Pair:
    """Return a synthetic pair with the acceptance of FSD's Table 1."""
    rate = acceptance_rate(TOKENS_PER_ROUND, NUM_DRAFT_TOKENS)
    return Pair(*synthetic_pair(SyntheticSettings(seed, draft_confidence(rate, 0.5, sampled=False))))


def prompts_of(robot: int, texts: int) -> list[Prompt]:
    """Return a robot's own prompts."""
    return [Prompt(f"robot {robot} text {index}", _JPEG) for index in range(texts)]


def published_fleet(
    config: DecodingConfig,
    robots: int,
    tokens: int,
    texts: int,
    batching: Batching,
    seed: int = 0,
    cloud_share: float | None = None,
) -> list[RobotRecord]:
    """Run robots with Jetsons on FSD's server, 5 ms away each way; both sides have `config`'s tuning.

    `cloud_share`: the time of a token of the same draft in the cloud, as a share of a forward; None without
    one.
    """
    rows = batching.most_tokens or max(2, CloudLimits().shared_tokens * robots)
    pair = published_pair(seed)
    world = FleetWorld(
        frame_bytes,
        ComputeProfile(
            draft_prefill_s=0.0,
            draft_token_s=JETSON_DRAFT_MS / 1e3,
            draft_branch_s=BRANCH_COST * JETSON_DRAFT_MS / 1e3,
        ),
        LinkProfile(delay_s=ONE_WAY_S),
        partial(published_server, draft_share=cloud_share or 0.0),
        CloudLimits(max_sessions=robots, batch_tokens=rows, most_left_out=batching.most_left_out),
        seed,
        batching.fill,
        tuning=config.tuning,
        cloud_draft=None if cloud_share is None else pair.draft,
    )
    fleet = Fleet(pair.target, world)
    records = []
    for robot in range(robots):
        own = (FleetText(prompt, tokens) for prompt in prompts_of(robot, texts))
        records.append(fleet.add(own, pair.draft if config.needs_model else None, config))
    fleet.run()
    return records


@dataclass(frozen=True)
class Served:
    """What a fleet on FSD's server achieved, by the speed that each robot needs, in tokens/s.

    `kept`: the share of the texts that were written at that speed. `goodput`: tokens/s of these texts, from
    the first robot's start to the last one's end.
    """

    robots: int
    tokens_per_s: float
    kept: Mapping[float, float]
    goodput: Mapping[float, float]


def served(records: Sequence[RobotRecord], needed: Sequence[float]) -> Served:
    """Return what a fleet achieved; `tokens_per_s` is that until the first robot has finished."""
    first_s, last_s = (end(record.commits[-1][0] for record in records) for end in (min, max))
    texts = [
        (len(text), len(text) / took_s)
        for record in records
        for text, took_s in zip(record.texts, record.finished_s, strict=True)
    ]
    return Served(
        len(records),
        sum(tokens_until(record, first_s) for record in records) / first_s,
        {speed: statistics.fmean(own >= speed for _, own in texts) for speed in needed},
        {speed: sum(length for length, own in texts if own >= speed) / last_s for speed in needed},
    )


def capacity(fleets: Iterable[Served], needed: float) -> int:
    """Return the size of the largest fleet that is served at the needed speed; 0 if none is."""
    return max((fleet.robots for fleet in fleets if fleet.kept[needed] >= MOSTLY), default=0)
