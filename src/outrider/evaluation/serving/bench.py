# SPDX-License-Identifier: Apache-2.0
"""`outrider bench serving`: many robots on one verifier, beside the papers' gains, and an API's cost.

The shipped pair runs for real: the verifier's batches take the processor time that they take, robots and
links are on a virtual clock, each with a processor of its own. Every text has a frame that is new to the
verifier. Ratios are of one run.
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
from outrider.evaluation.common.ratios import branch_seconds, cpu_seconds, forward_seconds
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.decoding.comparison import measure_regime, replayed, replayed_requests
from outrider.evaluation.decoding.fleets import (
    FLOOD_TOKENS,
    NUM_DRAFT_TOKENS,
    BatchCost,
    Batching,
    Served,
    ServingRow,
    capacity,
    published_fleet,
    real_world,
    row_of,
    run_fleet,
    served,
    texts_of,
    tokens_until,
)
from outrider.evaluation.decoding.regimes import load_regimes
from outrider.evaluation.serving.api_cost import cost_lines, cost_table
from outrider.evaluation.serving.fleets_bench import NEEDED_TOKENS_PER_S, TOKENS, WAITING
from outrider.evaluation.serving.fleets_bench import ROBOTS as PUBLISHED_ROBOTS
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
PUBLISHED_WAYS = {
    CENTRAL: ("ar", [Batching(), Batching(most_tokens=16)]),
    FILLED: ("sd", WAITING[FILLED]),
    "sd": ("sd", [Batching()]),
    "outrider": ("outrider", [Batching()]),
}
"""The target alone, SLED's batches, and ours. Of several ways to make up batches the best counts in each
fleet: the server does most for 8 or 16 at a time.
"""
PRINTED = {
    "SLED (arXiv 2506.09397), throughput over centralised": 2.2,
    "SLED, capacity over centralised": 2.8,
    "WISP (arXiv 2601.11652), capacity over centralised": 2.1,
    "WISP, capacity over SLED": 4.1,
    "WISP, goodput over centralised": 1.94,
    "WISP, goodput over SLED": 3.7,
}
"""At settings of their own: other models and machines, WISP's with robots of unlike needs."""
FLEET_S = 10.0
DRAFT_STEPS = 100
_ENDLESS = 10**6


@dataclass(frozen=True)
class Sharing:
    """Eight robots alike on the fitted verifier: `unfairness`, the tokens of the one that got most over those
    of the one that got least; and what seven of them write beside an eighth that misbehaves, over what they
    write beside one that does not.
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
    cost, few = fitted(record), prompts[: max(ROBOTS)]
    sharing = {one: measure_sharing(one, pair, few, compute, network, cost) for one in STRATEGIES}
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
        "rows": {name: [asdict(row) for row in some] for name, some in rows.items()},
        "sharing": {strategy: asdict(one) for strategy, one in sharing.items()},
        "published": {
            name: [[asdict(one) for one in ways] for ways in some] for name, some in published.items()
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
    """The tokens of fleets of ROBOTS robots over those of one. Raises ConfigError without matplotlib."""
    curves = {name: [row.tokens_per_s / some[0].tokens_per_s for row in some] for name, some in rows.items()}
    draw_ablation(file, "throughput over that of one robot", "robots", ROBOTS, curves)


def draft_cost(pair: Pair, prompts: Sequence[Prompt]) -> ComputeProfile:
    """The draft's times on a processor like this one, by which the verifier's are measured too."""
    branch_s = branch_seconds(pair.draft, prompts[0], DRAFT_STEPS)
    session = pair.draft.open_session()
    prefills = [cpu_seconds(partial(session.prefill, prompt)) for prompt in prompts]
    steps = [forward_seconds(session, 1) for _ in range(DRAFT_STEPS)]
    return ComputeProfile(
        draft_prefill_s=statistics.median(prefills),
        draft_token_s=statistics.median(steps),
        draft_branch_s=branch_s,
    )


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
    """Each strategy with and without pauses between texts; also all batches.

    Each fleet's models are loaded anew: they keep the frames that they have seen.
    """
    rows: dict[str, list[ServingRow]] = {}
    whole = CloudRecord()
    cases = [(strategy, pause_s) for strategy in STRATEGIES for pause_s in PAUSES_S]
    for strategy, pause_s in tracked(cases, "fleets"):
        name = f"{strategy}, {pause_s:g} s"
        config = DecodingConfig(strategy=strategy, num_draft_tokens=NUM_DRAFT_TOKENS)
        for robots in ROBOTS:
            world = real_world(compute, network, robots)
            records, cloud = run_fleet(load(), prompts, world, config, robots, pause_s)
            rows.setdefault(name, []).append(row_of(records, cloud))
            whole.batches += cloud.batches
            whole.batch_s += cloud.batch_s
            whole.prompt_s += cloud.prompt_s
            whole.prompts += cloud.prompts
    return rows, whole


def fitted(record: CloudRecord) -> BatchCost:
    """A straight line through the medians of the batch sizes seen often; a session counts five tokens. The
    parts of prompts are alike.
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
    """The eighth robot is like the others, drafts without end, asks without end, or falls silent.

    `fleet_s`: seconds, on the virtual clock, that each fleet runs.
    """
    texts, world = replayed(pair, cost.prompt_parts), real_world(compute, network, max(ROBOTS), cost)

    def tokens(drafted: int, number: int, length: int) -> list[int]:
        fleet = Fleet(texts.target, world)
        step = max(1, len(prompts) // max(ROBOTS))
        for robot in range(max(ROBOTS)):
            is_last = robot == max(ROBOTS) - 1
            some = texts_of(
                prompts, robot * step, number if is_last else _ENDLESS, 0.0, length if is_last else 96
            )
            num_draft_tokens = drafted if is_last else NUM_DRAFT_TOKENS
            fleet.add(some, texts.draft, DecodingConfig(strategy=strategy, num_draft_tokens=num_draft_tokens))
        fleet.run(fleet_s)
        return [tokens_until(robot.record, fleet_s) for robot in fleet.robots]

    calm = tokens(NUM_DRAFT_TOKENS, _ENDLESS, 96)
    cases = {
        f"drafts {FLOOD_TOKENS} tokens a chunk": (FLOOD_TOKENS, _ENDLESS, 96),
        "sends one prompt after the other": (NUM_DRAFT_TOKENS, _ENDLESS, 1),
        "falls silent after two texts": (NUM_DRAFT_TOKENS, 2, 96),
    }
    beside = {what: sum(tokens(*case)[:-1]) / sum(calm[:-1]) for what, case in cases.items()}
    return Sharing(max(calm) / min(calm), beside)


def measure_published(
    robots: Sequence[int] = PUBLISHED_ROBOTS, tokens: int = TOKENS
) -> dict[str, list[list[Served]]]:
    """Fleets of so many robots on FSD's server, each of them with every way to make up batches: centralised,
    in batches that wait to be filled, and continuous. `tokens`: those of a text.
    """
    fleets: dict[str, list[list[Served]]] = {name: [] for name in PUBLISHED_WAYS}
    for number in tracked(robots, "published server"):
        for name, (strategy, ways) in PUBLISHED_WAYS.items():
            config = DecodingConfig(strategy=strategy, num_draft_tokens=NUM_DRAFT_TOKENS)
            fleet = [published_fleet(config, number, tokens, 2, way) for way in ways]
            fleets[name].append([served(records, NEEDED_TOKENS_PER_S) for records in fleet])
    return fleets


def measure_passes(pair: Pair, frames: int, seed: int) -> dict[str, float]:
    """The target's passes a token of every strategy, with the shipped pair under FSD's Go2 conditions."""
    regime = load_regimes([COST_REGIME])[COST_REGIME]
    figures = measure_regime(regime, replayed(pair), replayed_requests(frames, seed), seed)
    return {strategy: row.target_passes_per_token for strategy, row in figures.items()}


def rows_table(rows: Mapping[str, Sequence[ServingRow]]) -> Table:
    """Returns the figures of fleets of several sizes, each over that of one robot."""
    title = f"robots on one verifier, shipped pair, {LINK}; x: over one"
    table = results_table(title, *LEGENDS["bench serving"])
    for name, some in rows.items():
        for row in some:
            table.add_row(
                name,
                str(row.robots),
                f"{row.tokens_per_s:.0f} {row.tokens_per_s / some[0].tokens_per_s:.2f}x",
                f"{1e3 * row.text_s:.0f} {row.text_s / some[0].text_s:.2f}x",
                f"{row.round_s / some[0].round_s:.2f}x",
                f"{row.first_s / some[0].first_s:.2f}x",
                f"{row.token_s / some[0].token_s:.2f}x",
                f"{row.batch:.1f}",
                f"{row.passes_per_token:.2f}",
            )
    return table


def limit_lines(rows: Mapping[str, Sequence[ServingRow]]) -> Iterator[str]:
    """What a model that never rests allows robots that write text after text, about: at the end they share
    less.
    """
    for name, some in rows.items():
        if not name.endswith(TEXT_AFTER_TEXT):
            continue
        alone, last = some[0], some[-1]
        most = alone.text_s / (last.prompt_model_s + last.batch_model_s)
        yield (
            f"{name}: a text of {last.robots} robots takes the model {1e3 * last.prompt_model_s:.0f} ms for "
            f"its prompt, which no batch shares, and {1e3 * last.batch_model_s:.0f} ms for the rest; one "
            f"robot alone writes it in {1e3 * alone.text_s:.0f} ms: about {most:.1f} times its tokens/s"
        )


def sharing_lines(sharing: Mapping[str, Sharing]) -> Iterator[str]:
    """How evenly robots share the verifier, alike and beside an odd one."""
    for strategy, one in sharing.items():
        yield f"{strategy}, eight alike: the most over the least {one.unfairness:.3f}"
        for what, share in one.beside.items():
            yield f"{strategy}, an eighth robot {what}: the others write {share:.2f} of what they did"


def published_lines(fleets: Mapping[str, Sequence[Sequence[Served]]]) -> Iterator[str]:
    """Throughput on the server of FSD's Table 9, and in the terms of WISP what robots get that need a speed:
    its best over all fleets.
    """
    for place, [first, *_] in enumerate(fleets[CENTRAL]):
        best = {name: max(one.tokens_per_s for one in some[place]) for name, some in fleets.items()}
        yield f"server of FSD's Table 9, {first.robots} robots, tokens/s of all: {_compared(best)}"
    every = {name: [one for ways in some for one in ways] for name, some in fleets.items()}
    for needed in NEEDED_TOKENS_PER_S:
        most = {name: float(capacity(some, needed)) for name, some in every.items()}
        good = {name: max(one.goodput[needed] for one in some) for name, some in every.items()}
        yield f"each robot needs {needed:g} tokens/s, robots served: {_compared(most)}"
        yield f"each robot needs {needed:g} tokens/s, goodput: {_compared(good)}"
    yield "printed: " + "; ".join(f"{what} {gain:g}" for what, gain in PRINTED.items())


def _compared(figures: Mapping[str, float]) -> str:
    """Every way's figure, and ours over two of them."""
    ours, parts = figures["outrider"], [f"{name} {value:.0f}" for name, value in figures.items()]
    gains = [f"outrider over {way} {ours / figures[way]:.2f}" for way in (CENTRAL, FILLED) if figures[way]]
    return "; ".join([*parts, *gains])
