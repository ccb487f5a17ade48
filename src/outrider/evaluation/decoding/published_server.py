# SPDX-License-Identifier: Apache-2.0
"""Robots on a published server: FSD's Table 9, with batching that can be chosen and any of the strategies."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from outrider.core.link_profile import LinkProfile
from outrider.core.values import Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.fakes.synthetic import SyntheticSettings, synthetic_pair
from outrider.decoding.fakes.synthetic_fit import draft_confidence
from outrider.decoding.jobs import CloudDraft, CloudJob, Verify
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.fleet import Fleet
from outrider.decoding.simulation.fleet_world import FleetText, FleetWorld, RobotRecord
from outrider.decoding.theory import acceptance_rate
from outrider.evaluation.decoding.regimes import BRANCH_COST
from outrider.runtime.datasets.held_out import Pair
from outrider.wire.codec import frame_bytes

SERVER_MS = {1: 17.94, 2: 21.75, 3: 24.35, 4: 24.63, 8: 30.73, 12: 44.52, 16: 45.79, 32: 96.94, 64: 258.79}
"""Vicuna-7B on an A100 by batch size: FSD (arXiv 2505.21594), Table 9."""
JETSON_DRAFT_MS = 7.76
"""Vicuna-68M on a Jetson: the same table."""
TOKENS_PER_ROUND = 2.5
"""FSD, Table 1, with 4 drafted."""
NUM_DRAFT_TOKENS = 4
ONE_WAY_S = 0.005
"""Seconds one way between a robot and FSD's server."""
FLEET_SIZES = (1, 8, 16, 24, 32, 48, 64)
TEXT_TOKENS, TEXTS_PER_ROBOT = 100, 2
NEEDED_TOKENS_PER_S = (20.0, 10.0)
"""Speeds that each robot may need, at which capacity and goodput are measured."""
SERVED_SHARE = 0.95
"""A fleet counts as served if at least this share of its texts is written at the needed speed."""
_JPEG = b"\xff\xd8"


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


SD_BATCHINGS = {
    "sd": [Batching()],
    "sd, filled": [Batching(fill=fill, most_left_out=most) for fill in (8, 16) for most in (0, 4)],
}
"""Batches that start at once, and batches that wait to be filled (SLED, arXiv 2506.09397)."""


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


def tokens_until(record: RobotRecord, end_s: float) -> int:
    """Return how many tokens of a robot were final by a time in seconds."""
    return sum(count for at_s, count in record.commits if at_s <= end_s)


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
        {speed: statistics.fmean(tokens_per_s >= speed for _, tokens_per_s in texts) for speed in needed},
        {
            speed: sum(length for length, tokens_per_s in texts if tokens_per_s >= speed) / last_s
            for speed in needed
        },
    )


def capacity(fleets: Iterable[Served], needed: float) -> int:
    """Return the size of the largest fleet that is served at the needed speed; 0 if none is."""
    return max((fleet.robots for fleet in fleets if fleet.kept[needed] >= SERVED_SHARE), default=0)
