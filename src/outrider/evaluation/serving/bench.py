# SPDX-License-Identifier: Apache-2.0
"""`outrider bench serving`: many robots on one verifier, the papers' gains, and the cost of an API.

The shipped pair runs for real. Robots and links are simulated on a virtual clock, on which the verifier's
batches take the processor time that they really take. Each robot has its own processor. Every text has a
frame that is new to the verifier. Ratios are taken within one run.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from outrider.core.files.terminal import tracked
from outrider.core.link_profile import Network
from outrider.core.model_options import DRAFT_BRANCHES
from outrider.core.pairs import check_pair
from outrider.core.values import Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.fleet import Fleet
from outrider.decoding.simulation.fleet_world import CloudRecord
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.plots import draw_ablation
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.decoding.comparison import measure_regime, replayed, replayed_requests
from outrider.evaluation.decoding.published_server import (
    FLEET_SIZES,
    NEEDED_TOKENS_PER_S,
    NUM_DRAFT_TOKENS,
    SD_BATCHINGS,
    TEXT_TOKENS,
    TEXTS_PER_ROBOT,
    Batching,
    Served,
    capacity,
    published_fleet,
    served,
    tokens_until,
)
from outrider.evaluation.decoding.regimes import load_regimes
from outrider.evaluation.serving.api_cost import cost_lines, cost_table
from outrider.evaluation.serving.fleets import (
    BatchCost,
    ServingRow,
    draft_cost,
    real_world,
    row_of,
    run_fleet,
    texts_of,
)
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.links import load_network
from outrider.runtime.common.paths import models_folder
from outrider.runtime.datasets.held_out import Pair, check_frames, held_out_prompts

ROBOTS = (1, 2, 4, 8)
STRATEGIES = ("sd", "outrider")
PAUSES_S = (1.0, 0.0)
TEXT_AFTER_TEXT = ", 0 s"
LINK = "wifi6"
COST_REGIME = "fsd-go2"
CENTRAL, FILLED = "ar", "sd, filled"
PUBLISHED_METHODS = {
    CENTRAL: ("ar", [Batching(), Batching(most_tokens=16)]),
    FILLED: ("sd", SD_BATCHINGS[FILLED]),
    "sd": ("sd", [Batching()]),
    "outrider": ("outrider", [Batching()]),
}
"""The target alone, SLED's batches, and our strategies, each with the ways to form batches.

Of several ways the best counts for each fleet: the server is most efficient with batches of 8 or 16.
"""
PRINTED = {
    "SLED (arXiv 2506.09397), throughput over centralised": 2.2,
    "SLED, capacity over centralised": 2.8,
    "WISP (arXiv 2601.11652), capacity over centralised": 2.1,
    "WISP, capacity over SLED": 4.1,
    "WISP, goodput over centralised": 1.94,
    "WISP, goodput over SLED": 3.7,
}
"""Gains that the papers print, for other models and machines; WISP's robots have differing needs."""
FLEET_S = 10.0
FLOOD_TOKENS = 60
"""The draft length of a robot that floods the verifier."""
_ENDLESS = 10**6


@dataclass(frozen=True)
class Sharing:
    """How eight robots share the fitted verifier.

    `unfairness`: among eight equal robots, the most tokens over the least. `beside`: for each misbehaviour of
    the eighth robot, the tokens of the other seven over their tokens when it behaves.
    """

    unfairness: float
    beside: dict[str, float]


def bench_serving(
    frames: int,
    seed: int,
    models: Path | None = None,
    json_file: Path | None = None,
    plots: Path | None = None,
) -> dict[str, Any]:
    """Measure, print, write JSON and a picture. Raises ModelError without models."""
    check_frames(frames, seed)
    pair = _load(models)
    prompts = list(held_out_prompts(frames, seed))
    network = load_network(LINK)
    compute = draft_cost(pair, prompts)
    rows, record = measure_rows(partial(_load, models), prompts, compute, network)
    cost, one_each = fitted(record), prompts[: max(ROBOTS)]
    sharing = {
        strategy: measure_sharing(strategy, pair, one_each, compute, network, cost) for strategy in STRATEGIES
    }
    published = measure_published()
    passes = measure_passes(pair, max(ROBOTS), seed)
    print_results(
        rows_table(rows),
        *limit_lines(rows),
        *sharing_lines(sharing),
        *published_lines(published),
        *cost_lines(passes),
    )
    figures = {
        "frames": frames,
        "seed": seed,
        "rows": {name: [asdict(row) for row in fleet_rows] for name, fleet_rows in rows.items()},
        "sharing": {strategy: asdict(row) for strategy, row in sharing.items()},
        "published": {
            name: [[asdict(fleet) for fleet in batchings] for batchings in by_size]
            for name, by_size in published.items()
        },
        "printed": PRINTED,
        "passes_per_token": passes,
        "cost": cost_table(passes),
    }
    write_figures(json_file, figures)
    if plots is not None:
        draw_throughput(plots / "serving.png", rows)
    return figures


def draw_throughput(file: Path, rows: Mapping[str, Sequence[ServingRow]]) -> None:
    """Plot the throughput of the fleets over one robot's. Raises ConfigError without matplotlib."""
    curves = {
        name: [row.tokens_per_s / fleet_rows[0].tokens_per_s for row in fleet_rows]
        for name, fleet_rows in rows.items()
    }
    draw_ablation(file, "throughput over that of one robot", "robots", ROBOTS, curves)


def _load(models: Path | None) -> Pair:
    from outrider.models import load_model  # seconds to import

    folder = models_folder(models)
    target = load_model(folder / "target", sessions=max(ROBOTS))
    draft = load_model(folder / "draft", role="draft", sessions=DRAFT_BRANCHES)
    check_pair(target, draft)
    return Pair(target, draft)


def measure_rows(
    load: Callable[[], Pair], prompts: Sequence[Prompt], compute: ComputeProfile, network: Network
) -> tuple[dict[str, list[ServingRow]], CloudRecord]:
    """Returns each strategy's figures with and without pauses between texts, and a record of all batches.

    Each fleet loads its models anew, because models cache the frames that they have seen.
    """
    rows: dict[str, list[ServingRow]] = {}
    all_batches = CloudRecord()
    cases = [(strategy, pause_s) for strategy in STRATEGIES for pause_s in PAUSES_S]
    for strategy, pause_s in tracked(cases, "fleets"):
        name = f"{strategy}, {pause_s:g} s"
        config = DecodingConfig(strategy=strategy, num_draft_tokens=NUM_DRAFT_TOKENS)
        for robots in ROBOTS:
            world = real_world(compute, network, robots)
            records, cloud = run_fleet(load(), prompts, world, config, robots, pause_s)
            rows.setdefault(name, []).append(row_of(records, cloud))
            all_batches.batches += cloud.batches
            all_batches.batch_s += cloud.batch_s
            all_batches.prompt_s += cloud.prompt_s
            all_batches.prompts += cloud.prompts
    return rows, all_batches


def fitted(record: CloudRecord) -> BatchCost:
    """Returns a linear cost fitted to the median times of the batch sizes that occur at least five times.

    A session counts as five tokens. All parts of a prompt have the same cost.
    """
    by_size: dict[int, list[float]] = {}
    for size, took_s in zip(record.batches, record.batch_s, strict=True):
        by_size.setdefault(size, []).append(took_s)
    medians = {size: statistics.median(times) for size, times in by_size.items() if len(times) >= 5}
    line = statistics.linear_regression(list(medians), list(medians.values()))
    token_s = line.slope / (NUM_DRAFT_TOKENS + 1)
    parts = max(1, round(len(record.prompt_s) / record.prompts))
    return BatchCost(line.intercept, 0.0, token_s, statistics.fmean(record.prompt_s), parts)


def measure_sharing(
    strategy: str,
    pair: Pair,
    prompts: Sequence[Prompt],
    compute: ComputeProfile,
    network: Network,
    cost: BatchCost,
    fleet_s: float = FLEET_S,
) -> Sharing:
    """Returns how the robots share the verifier, and what an eighth robot that misbehaves costs the others.

    `fleet_s`: seconds, on the virtual clock, that each fleet runs.
    """
    texts, world = replayed(pair, cost.prompt_parts), real_world(compute, network, max(ROBOTS), cost)

    def tokens(drafted: int, number: int, length: int) -> list[int]:
        fleet = Fleet(texts.target, world)
        step = max(1, len(prompts) // max(ROBOTS))
        for robot in range(max(ROBOTS)):
            is_last = robot == max(ROBOTS) - 1
            robot_texts = texts_of(
                prompts, robot * step, number if is_last else _ENDLESS, 0.0, length if is_last else 96
            )
            num_draft_tokens = drafted if is_last else NUM_DRAFT_TOKENS
            fleet.add(
                robot_texts, texts.draft, DecodingConfig(strategy=strategy, num_draft_tokens=num_draft_tokens)
            )
        fleet.run(fleet_s)
        return [tokens_until(robot.record, fleet_s) for robot in fleet.robots]

    behaving = tokens(NUM_DRAFT_TOKENS, _ENDLESS, 96)
    cases = {
        f"drafts {FLOOD_TOKENS} tokens a chunk": (FLOOD_TOKENS, _ENDLESS, 96),
        "sends one prompt after the other": (NUM_DRAFT_TOKENS, _ENDLESS, 1),
        "falls silent after two texts": (NUM_DRAFT_TOKENS, 2, 96),
    }
    beside = {what: sum(tokens(*case)[:-1]) / sum(behaving[:-1]) for what, case in cases.items()}
    return Sharing(max(behaving) / min(behaving), beside)


def measure_published(
    robots: Sequence[int] = FLEET_SIZES, tokens: int = TEXT_TOKENS
) -> dict[str, list[list[Served]]]:
    """Returns what fleets of these sizes get of FSD's server, for each of PUBLISHED_METHODS and batching.

    `tokens`: the length of a text.
    """
    fleets: dict[str, list[list[Served]]] = {name: [] for name in PUBLISHED_METHODS}
    for number in tracked(robots, "published server"):
        for name, (strategy, ways) in PUBLISHED_METHODS.items():
            config = DecodingConfig(strategy=strategy, num_draft_tokens=NUM_DRAFT_TOKENS)
            fleet = [published_fleet(config, number, tokens, TEXTS_PER_ROBOT, way) for way in ways]
            fleets[name].append([served(records, NEEDED_TOKENS_PER_S) for records in fleet])
    return fleets


def measure_passes(pair: Pair, frames: int, seed: int) -> dict[str, float]:
    """Returns every strategy's target passes per token, with the shipped pair under FSD's Go2 conditions."""
    regime = load_regimes([COST_REGIME])[COST_REGIME]
    figures = measure_regime(regime, replayed(pair), replayed_requests(frames, seed), seed)
    return {strategy: row.target_passes_per_token for strategy, row in figures.items()}


def rows_table(rows: Mapping[str, Sequence[ServingRow]]) -> Table:
    """Returns a table of the figures of fleets, each also relative to one robot."""
    title = f"robots on one verifier, shipped pair, {LINK}; x: over one"
    table = results_table(title, *LEGENDS["bench serving"])
    for name, fleet_rows in rows.items():
        for row in fleet_rows:
            table.add_row(
                name,
                str(row.robots),
                f"{row.tokens_per_s:.0f} {row.tokens_per_s / fleet_rows[0].tokens_per_s:.2f}x",
                f"{1e3 * row.text_s:.0f} {row.text_s / fleet_rows[0].text_s:.2f}x",
                f"{row.round_s / fleet_rows[0].round_s:.2f}x",
                f"{row.first_s / fleet_rows[0].first_s:.2f}x",
                f"{row.token_s / fleet_rows[0].token_s:.2f}x",
                f"{row.batch:.1f}",
                f"{row.passes_per_token:.2f}",
            )
    return table


def limit_lines(rows: Mapping[str, Sequence[ServingRow]]) -> Iterator[str]:
    """Yields an estimate of the speedup for robots that write text after text, if the model never idles.

    The estimate is rough: towards the end fewer robots share a batch.
    """
    for name, fleet_rows in rows.items():
        if not name.endswith(TEXT_AFTER_TEXT):
            continue
        one_robot, all_robots = fleet_rows[0], fleet_rows[-1]
        most = one_robot.text_s / (all_robots.prompt_model_s + all_robots.batch_model_s)
        yield (
            f"{name}: a text of {all_robots.robots} robots takes the model "
            f"{1e3 * all_robots.prompt_model_s:.0f} ms for its prompt, which no batch shares, and "
            f"{1e3 * all_robots.batch_model_s:.0f} ms for the rest; one robot alone writes it in "
            f"{1e3 * one_robot.text_s:.0f} ms: about {most:.1f} times its tokens/s"
        )


def sharing_lines(sharing: Mapping[str, Sharing]) -> Iterator[str]:
    """Yields how evenly robots share the verifier, when all are equal and when one misbehaves."""
    for strategy, row in sharing.items():
        yield f"{strategy}, eight alike: the most over the least {row.unfairness:.3f}"
        for what, share in row.beside.items():
            yield f"{strategy}, an eighth robot {what}: the others write {share:.2f} of what they did"


def published_lines(fleets: Mapping[str, Sequence[Sequence[Served]]]) -> Iterator[str]:
    """Yields the results on the server of FSD's Table 9: throughput, and WISP's capacity and goodput.

    Capacity and goodput are each way's best over all fleets.
    """
    for index, [first, *_] in enumerate(fleets[CENTRAL]):
        best = {name: max(fleet.tokens_per_s for fleet in by_size[index]) for name, by_size in fleets.items()}
        yield f"server of FSD's Table 9, {first.robots} robots, tokens/s of all: {_compared(best)}"
    all_fleets = {
        name: [fleet for batchings in by_size for fleet in batchings] for name, by_size in fleets.items()
    }
    for needed in NEEDED_TOKENS_PER_S:
        most = {name: float(capacity(by_size, needed)) for name, by_size in all_fleets.items()}
        good = {name: max(fleet.goodput[needed] for fleet in by_size) for name, by_size in all_fleets.items()}
        yield f"each robot needs {needed:g} tokens/s, robots served: {_compared(most)}"
        yield f"each robot needs {needed:g} tokens/s, goodput: {_compared(good)}"
    yield "printed: " + "; ".join(f"{what} {gain:g}" for what, gain in PRINTED.items())


def _compared(figures: Mapping[str, float]) -> str:
    """Lists each way's figure, and the ratio of `outrider` to CENTRAL and to FILLED."""
    ours, parts = figures["outrider"], [f"{name} {value:.0f}" for name, value in figures.items()]
    gains = [f"outrider over {way} {ours / figures[way]:.2f}" for way in (CENTRAL, FILLED) if figures[way]]
    return "; ".join([*parts, *gains])
