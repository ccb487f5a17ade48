"""`outrider bench serving`: many robots on one verifier, beside the papers' gains, and an API's cost.

The shipped pair runs for real: the verifier's batches take the processor time that they take, robots and
links are on a virtual clock, each with a processor of its own. Every text has a frame that is new to the
verifier. Ratios are of one run.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

from outrider.core.link_profile import Network
from outrider.core.pairs import check_pair
from outrider.core.values import Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.fleet import CloudRecord, Fleet
from outrider.decoding.virtual import ComputeProfile
from outrider.runtime.api_cost import PRICES, cost_table
from outrider.runtime.bench_plots import draw_ablation
from outrider.runtime.comparison import measure_regime, replayed_requests
from outrider.runtime.figures import write_figures
from outrider.runtime.held_out import Pair, check_frames, held_out_prompts
from outrider.runtime.links import load_network
from outrider.runtime.paths import models_folder
from outrider.runtime.ratios import cpu_seconds, forward_seconds
from outrider.runtime.regimes import load_regimes
from outrider.runtime.serving import (
    FLOOD_TOKENS,
    NUM_DRAFT_TOKENS,
    BatchCost,
    ServingRow,
    published_fleet,
    real_world,
    replayed,
    row_of,
    run_fleet,
    texts_of,
    tokens_until,
)

ROBOTS = (1, 2, 4, 8)
STRATEGIES = ("sd", "outrider")
PAUSES_S = (1.0, 0.0)
TEXT_AFTER_TEXT = ", 0 s"
LINK = "wifi6"
COST_REGIME = "fsd-go2"
PUBLISHED_ROBOTS = (1, 8, 16, 32)
PUBLISHED_TOKENS = 100
SLED_GAIN, WISP_GAIN = 2.2, 3.7
"""As printed: throughput of SLED (arXiv 2506.09397) over centralised serving, goodput of WISP (2601.11652)
over SLED."""
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
    console, pair = Console(), _load(models)
    prompts = list(held_out_prompts(frames, seed))
    network = load_network(LINK)
    compute = draft_cost(pair, prompts)
    rows, record = measure_rows(partial(_load, models), prompts, compute, network)
    print_rows(console, rows)
    print_limits(console, rows)
    cost, few = fitted(record), prompts[: max(ROBOTS)]
    sharing = {one: measure_sharing(one, pair, few, compute, network, cost) for one in STRATEGIES}
    print_sharing(console, sharing)
    published = measure_published()
    print_published(console, published)
    passes = measure_passes(pair, max(ROBOTS), seed)
    print_cost(console, passes)
    figures = {
        "frames": frames,
        "seed": seed,
        "rows": {name: [asdict(row) for row in some] for name, some in rows.items()},
        "sharing": {strategy: asdict(one) for strategy, one in sharing.items()},
        "published": published,
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
    session = pair.draft.open_session()
    prefills = [cpu_seconds(partial(session.prefill, prompt)) for prompt in prompts]
    steps = [forward_seconds(session, 1) for _ in range(DRAFT_STEPS)]
    return ComputeProfile(draft_prefill_s=statistics.median(prefills), draft_token_s=statistics.median(steps))


def _load(models: Path | None) -> Pair:
    from outrider.models import load_model  # seconds to import

    folder = models_folder(models)
    target = load_model(folder / "target", sessions=max(ROBOTS))
    draft = load_model(folder / "draft", role="draft")
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
    for strategy, pause_s in track(cases, "fleets", console=Console(stderr=True)):
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
) -> Sharing:
    """The eighth robot is like the others, drafts without end, asks without end, or falls silent."""
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
        fleet.run(FLEET_S)
        return [tokens_until(robot.record, FLEET_S) for robot in fleet.robots]

    calm = tokens(NUM_DRAFT_TOKENS, _ENDLESS, 96)
    cases = {
        f"drafts {FLOOD_TOKENS} tokens a chunk": (FLOOD_TOKENS, _ENDLESS, 96),
        "sends one prompt after the other": (NUM_DRAFT_TOKENS, _ENDLESS, 1),
        "falls silent after two texts": (NUM_DRAFT_TOKENS, 2, 96),
    }
    beside = {what: sum(tokens(*case)[:-1]) / sum(calm[:-1]) for what, case in cases.items()}
    return Sharing(max(calm) / min(calm), beside)


def measure_published() -> dict[str, Any]:
    """Tokens per second of all robots on FSD's server: centralised, in batches that wait, and continuous."""
    ways = {
        "ar": ("ar", 1),
        "sd, batches filled": ("sd", 8),
        "sd": ("sd", 1),
        "outrider": ("outrider", 1),
    }
    speeds: dict[str, dict[int, float]] = {name: {} for name in ways}
    for robots in track(PUBLISHED_ROBOTS, "published server", console=Console(stderr=True)):
        for name, (strategy, fill) in ways.items():
            config = DecodingConfig(strategy=strategy, num_draft_tokens=NUM_DRAFT_TOKENS)
            records = published_fleet(config, robots, PUBLISHED_TOKENS, 2, fill)
            end_s = min(record.commits[-1][0] for record in records)
            speeds[name][robots] = sum(tokens_until(record, end_s) for record in records) / end_s
    return {"tokens_per_s": speeds, "sled_gain": SLED_GAIN, "wisp_gain": WISP_GAIN}


def measure_passes(pair: Pair, frames: int, seed: int) -> dict[str, float]:
    """The target's passes a token of every strategy, with the shipped pair under FSD's Go2 conditions."""
    regime = load_regimes([COST_REGIME])[COST_REGIME]
    figures = measure_regime(regime, replayed(pair), replayed_requests(frames, seed), seed)
    return {strategy: row.target_passes_per_token for strategy, row in figures.items()}


def print_rows(console: Console, rows: Mapping[str, Sequence[ServingRow]]) -> None:
    title = f"robots on one verifier, shipped pair, {LINK}; x: over one"
    table = Table(title=title, box=SIMPLE_HEAD, padding=0)
    for heading in ("", "robots", "tokens/s", "text ms", "round", "token", "batch", "passes"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, some in rows.items():
        for row in some:
            table.add_row(
                name,
                str(row.robots),
                f"{row.tokens_per_s:.0f} {row.tokens_per_s / some[0].tokens_per_s:.2f}x",
                f"{1e3 * row.text_s:.0f} {row.text_s / some[0].text_s:.2f}x",
                f"{row.round_s / some[0].round_s:.2f}x",
                f"{row.token_s / some[0].token_s:.2f}x",
                f"{row.batch:.1f}",
                f"{row.passes_per_token:.2f}",
            )
    console.print(table)


def print_limits(console: Console, rows: Mapping[str, Sequence[ServingRow]]) -> None:
    """What a model that never rests allows robots that write text after text, about: at the end they share
    less.
    """
    for name, some in rows.items():
        if not name.endswith(TEXT_AFTER_TEXT):
            continue
        alone, last = some[0], some[-1]
        most = alone.text_s / (last.prompt_model_s + last.batch_model_s)
        console.print(
            f"{name}: a text of {last.robots} robots takes the model {1e3 * last.prompt_model_s:.0f} ms for "
            f"its prompt, which no batch shares, and {1e3 * last.batch_model_s:.0f} ms for the rest; one "
            f"robot alone writes it in {1e3 * alone.text_s:.0f} ms: about {most:.1f} times its tokens/s"
        )


def print_sharing(console: Console, sharing: Mapping[str, Sharing]) -> None:
    for strategy, one in sharing.items():
        console.print(f"{strategy}, eight alike: the most over the least {one.unfairness:.3f}")
        for what, share in one.beside.items():
            console.print(
                f"{strategy}, an eighth robot {what}: the others write {share:.2f} of what they did"
            )


def print_published(console: Console, published: Mapping[str, Any]) -> None:
    speeds = published["tokens_per_s"]
    table = Table(title="tokens/s of all robots, server of FSD's Table 9")
    for heading in ("robots", *speeds, "sd / ar", "sd / filled", "outrider / filled"):
        table.add_column(heading, justify="right")
    for robots in PUBLISHED_ROBOTS:
        own = {name: by_robots[robots] for name, by_robots in speeds.items()}
        table.add_row(
            str(robots),
            *(f"{value:.0f}" for value in own.values()),
            f"{own['sd'] / own['ar']:.2f}",
            f"{own['sd'] / own['sd, batches filled']:.2f}",
            f"{own['outrider'] / own['sd, batches filled']:.2f}",
        )
    console.print(table)
    console.print(
        f"SLED prints {SLED_GAIN} over centralised serving, WISP {WISP_GAIN} over SLED, at their settings"
    )


def print_cost(console: Console, passes: Mapping[str, float]) -> None:
    table = Table(title="dollars for a million requests of 100 + 500 tokens")
    for heading in ("target", *passes, "paper: ar / edge"):
        table.add_column(heading, justify="right")
    for price, costs in zip(PRICES, cost_table(passes).items(), strict=True):
        printed = f"{price.paper_ar:.0f} / {price.paper_edge_cloud:.0f}"
        table.add_row(costs[0], *(f"{value:.0f}" for value in costs[1].values()), printed)
    table.add_row("passes a token", *(f"{value:.2f}" for value in passes.values()), "1 / 0.40")
    console.print(table)
