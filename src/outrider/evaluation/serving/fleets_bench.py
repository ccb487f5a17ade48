# SPDX-License-Identifier: Apache-2.0
"""`outrider bench fleets`: robots on FSD's server, compared with the best of every other way to serve them.

All run on one virtual clock, at the costs of FSD's Table 9. Every alternative is tuned for each fleet,
over its draft length and its batch size; `outrider` is not.

`csd` co-locates the same draft with the target, and robots only send prompts, so that no text waits for the
link. Both models run in batches; a draft forward costs a fraction of the target's for as many sequences. The
target accepts the same tokens as in the engine.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from rich.table import Table

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.core.values import DecodeRequest
from outrider.decoding.config import DecodingConfig
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.fleet_world import RobotRecord
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.evaluation.alternatives.colocated import accepted, draft_ranks
from outrider.evaluation.alternatives.measuring import CLOUD_SHARES
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.decoding.published_server import (
    NEEDED_TOKENS_PER_S,
    NUM_DRAFT_TOKENS,
    ONE_WAY_S,
    SD_BATCHINGS,
    TEXT_TOKENS,
    TEXTS_PER_ROBOT,
    Batching,
    Served,
    capacity,
    prompts_of,
    published_fleet,
    published_pair,
    served,
    server_s,
)
from outrider.runtime.common.json_figures import write_figures

LENGTHS = (2, 3, 4, 6, 8)
CSD_LENGTHS = tuple(range(1, 9))
CSD_SIZES = (4, 8, 12, 16, 24, 32, 64)
Ranks = Sequence[int]
"""For one text: the rank of each token among the draft's choices (`colocated.draft_ranks`)."""


@dataclass(frozen=True)
class Tuned(Served):
    """One way to serve a fleet, with the settings that give the most tokens/s."""

    settings: str = ""


Runs = Iterator[tuple[str, Served]]
"""Pairs of settings and their result."""


def bench_fleets(
    robots: Sequence[int],
    seed: int,
    json_file: Path | None = None,
    *,
    tokens: int = TEXT_TOKENS,
    lengths: Sequence[int] = LENGTHS,
) -> dict[str, Any]:
    """Measure fleets of all these sizes; print tables, and write JSON after each fleet. Raises ConfigError.

    `tokens`: the length of a text. `lengths`: the draft lengths that `sd` is tuned over.
    """
    if not robots or min(robots) < 1 or seed < 0:
        raise ConfigError("robots must be at least 1 and seed at least 0")
    tuned: dict[str, list[Tuned]] = {}
    result: dict[str, Any] = {"seed": seed, "robots": list(robots)}
    for number in tracked(robots, "fleets"):
        for name, runs in methods(number, seed, tokens, lengths).items():
            tuned.setdefault(name, []).append(best_of(runs()))
        result["fleets"] = {name: [asdict(fleet) for fleet in fleets] for name, fleets in tuned.items()}
        result["over_best"] = {share: over_best(tuned, share) for share in CLOUD_SHARES}
        write_figures(json_file, result)
    print_results(fleets_table(tuned), *share_lines(tuned))
    return result


def methods(robots: int, seed: int, tokens: int, lengths: Sequence[int]) -> dict[str, Callable[[], Runs]]:
    """Returns, for each way to serve `robots` robots, a function that runs it with every setting."""
    ranks = fleet_ranks(robots, tokens, TEXTS_PER_ROBOT, seed)
    runs_by_name: dict[str, Callable[[], Runs]] = {
        name: partial(_sd_runs, robots, seed, tokens, lengths, batchings)
        for name, batchings in SD_BATCHINGS.items()
    }
    for name, share in CLOUD_SHARES.items():
        runs_by_name[f"csd {name}"] = partial(_csd_runs, ranks, share)
    runs_by_name["outrider"] = partial(_outrider_run, robots, seed, tokens, None)
    for name, share in CLOUD_SHARES.items():
        runs_by_name[f"both {name}"] = partial(_outrider_run, robots, seed, tokens, share)
    return runs_by_name


def _sd_runs(
    robots: int, seed: int, tokens: int, lengths: Sequence[int], batchings: Sequence[Batching]
) -> Runs:
    for length, batching in product(lengths, batchings):
        config = DecodingConfig("sd", num_draft_tokens=length)
        records = published_fleet(config, robots, tokens, TEXTS_PER_ROBOT, batching, seed)
        settings = f"{length} drafts, {batching.fill} frames, {batching.most_left_out} left out"
        yield settings, served(records, NEEDED_TOKENS_PER_S)


def _csd_runs(ranks: Sequence[Sequence[Sequence[int]]], share: float) -> Runs:
    for length, most in product(CSD_LENGTHS, CSD_SIZES):
        yield (
            f"{length} drafts, {most} texts",
            served(csd_fleet(ranks, share, length, most), NEEDED_TOKENS_PER_S),
        )


def _outrider_run(robots: int, seed: int, tokens: int, share: float | None) -> Runs:
    config = DecodingConfig("outrider", num_draft_tokens=NUM_DRAFT_TOKENS)
    records = published_fleet(config, robots, tokens, TEXTS_PER_ROBOT, Batching(), seed, share)
    yield "", served(records, NEEDED_TOKENS_PER_S)


def best_of(runs: Runs) -> Tuned:
    """Returns the fastest run; its `kept` and `goodput` are, for each needed speed, the best of all runs."""
    measured = list(runs)
    settings, best = max(measured, key=lambda run: run[1].tokens_per_s)
    results = [result for _, result in measured]
    return Tuned(
        best.robots,
        best.tokens_per_s,
        {speed: max(result.kept[speed] for result in results) for speed in NEEDED_TOKENS_PER_S},
        {speed: max(result.goodput[speed] for result in results) for speed in NEEDED_TOKENS_PER_S},
        settings,
    )


def alternatives(share: str) -> tuple[str, ...]:
    """Returns the ways that `both` is compared with, for one cost of the cloud's draft."""
    return (*SD_BATCHINGS, f"csd {share}")


def over_best(tuned: Mapping[str, Sequence[Tuned]], share: str) -> list[float]:
    """Returns, for each fleet, the tokens/s with drafts at both ends over the best alternative's."""
    best = [
        max(tuned[name][index].tokens_per_s for name in alternatives(share))
        for index in range(len(tuned["sd"]))
    ]
    return [
        fleet.tokens_per_s / best_speed
        for fleet, best_speed in zip(tuned[f"both {share}"], best, strict=True)
    ]


def fleets_table(tuned: Mapping[str, Sequence[Tuned]]) -> Table:
    """Returns a table of the tokens/s of all robots together, by fleet size."""
    ratios_by_name = {f"both {share} over best": over_best(tuned, share) for share in CLOUD_SHARES}
    table = results_table("tokens/s of all robots, alternatives tuned", "robots", *tuned, *ratios_by_name)
    for index, fleet in enumerate(tuned["sd"]):
        speeds = [f"{fleets[index].tokens_per_s:.0f}" for fleets in tuned.values()]
        table.add_row(
            str(fleet.robots), *speeds, *(f"{ratios[index]:.2f}" for ratios in ratios_by_name.values())
        )
    return table


def share_lines(tuned: Mapping[str, Sequence[Tuned]]) -> Iterator[str]:
    """Yields how many robots get the speed that they need, and how much free drafts could gain at most."""
    for needed in NEEDED_TOKENS_PER_S:
        most = ", ".join(f"{name} {capacity(fleets, needed)}" for name, fleets in tuned.items())
        yield f"each robot needs {needed:g} tokens/s, robots served: {most}"
    for name, share in CLOUD_SHARES.items():
        best = max(tuned[f"csd {name}"], key=lambda fleet: fleet.tokens_per_s)
        length = int(best.settings.split()[0])
        yield (
            f"csd {name} is fastest with {length} drafts; made by robots for nothing, they let it do at most "
            f"{1.0 + length * share:.2f} times as much (arXiv 2606.25091)"
        )


def fleet_ranks(robots: int, tokens: int, texts: int, seed: int) -> list[list[Ranks]]:
    """Returns the ranks of every robot's texts; these are the texts that `published_fleet` writes."""
    pair = published_pair(seed)
    target = VirtualDecoder(pair.target, None, DecodingConfig("ar"), VirtualWorld(lambda frame: 0))
    return [
        [
            draft_ranks(
                pair.draft, prompt, target.decode(DecodeRequest(prompt, tokens, 1e6)).token_ids, Sampling()
            )
            for prompt in prompts_of(robot, texts)
        ]
        for robot in range(robots)
    ]


class CsdRobot:
    """One robot whose texts the server drafts and verifies. Its record is that of `fleet.FleetRobot`."""

    def __init__(self, texts: Sequence[Ranks]) -> None:
        self.record = RobotRecord()
        self._texts = iter(texts)
        self.ready_s = self._begun_s = 0.0
        """When the server can next work on the robot's text."""
        self.done = False
        self._begin(0.0)

    def _begin(self, now_s: float) -> None:
        """Start the next text: its prompt goes up, and its first token comes from the prefill."""
        text = next(self._texts, None)
        self.done = text is None
        if text is not None:
            self._ranks, self._position = text, 1
            self._begun_s, self.ready_s = now_s, now_s + ONE_WAY_S
            self.record.commits.append((self.ready_s + ONE_WAY_S, 1))

    def drafted(self, length: int) -> int:
        """Returns how many tokens to draft, at most `length`; the target adds one."""
        return min(length, len(self._ranks) - self._position - 1)

    def judge(self, drafted: int, now_s: float) -> None:
        """Record a verification of `drafted` tokens; the robot receives its tokens ONE_WAY_S later."""
        count = accepted(self._ranks, self._position, drafted) + 1
        self._position += count
        self.ready_s, arrived_s = now_s, now_s + ONE_WAY_S
        self.record.commits.append((arrived_s, count))
        if self._position >= len(self._ranks):
            self.record.texts.append(tuple(self._ranks))
            self.record.finished_s.append(arrived_s - self._begun_s)
            self._begin(arrived_s)


def csd_fleet(
    texts: Sequence[Sequence[Ranks]], draft_share: float, length: int, max_texts: int
) -> list[RobotRecord]:
    """Returns the records of robots on a server that drafts and verifies in batches.

    It drafts `length` tokens for up to `max_texts` texts at a time, first come, first served, and
    verifies them.
    """
    robots = [CsdRobot(robot_texts) for robot_texts in texts]
    waiting = [(robot.ready_s, number) for number, robot in enumerate(robots)]
    now_s = 0.0
    while waiting:
        now_s = max(now_s, waiting[0][0])
        batch: list[int] = []
        while waiting and waiting[0][0] <= now_s and len(batch) < max_texts:
            batch.append(heapq.heappop(waiting)[1])
        drafted = [robots[number].drafted(length) for number in batch]
        drafting = [
            sum(num_drafted > position for num_drafted in drafted) for position in range(max(drafted))
        ]
        now_s += draft_share * sum(map(server_s, drafting)) + server_s(len(batch))
        for number, num_drafted in zip(batch, drafted, strict=True):
            robots[number].judge(num_drafted, now_s)
            if not robots[number].done:
                heapq.heappush(waiting, (robots[number].ready_s, number))
    return [robot.record for robot in robots]
