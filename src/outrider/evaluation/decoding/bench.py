# SPDX-License-Identifier: Apache-2.0
"""`outrider bench decoding`: every strategy under the conditions of the papers, on the virtual clock.

Synthetic texts have the paper's acceptance length, and exits that predict as often as its cache hits; a
pre-draft that is not begun in time counts as a miss too. Replayed texts are those of the shipped pair. The
paper's own formula and the speed that it measured are printed for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.decoding.config import STRATEGIES, DecodingConfig, drafter_names
from outrider.decoding.drafting.retrieval.drafts import MODEL
from outrider.decoding.simulation.timeline import TimelineEvent
from outrider.evaluation.common.choices import chosen_mechanisms
from outrider.evaluation.common.plots import draw_speeds, draw_speedups, draw_timelines
from outrider.evaluation.common.tables import (
    cells_of,
    interval_text,
    optional,
    print_results,
    results_table,
)
from outrider.evaluation.decoding.comparison import (
    Figures,
    configuration,
    decode_all,
    measure_regime,
    replayed,
    replayed_requests,
    schedule_bound,
    synthetic_models,
    synthetic_requests,
    world_of,
)
from outrider.evaluation.decoding.expectations import limit_of
from outrider.evaluation.decoding.mechanisms import (
    ALTERNATIVES,
    all_conditions,
    bench_ablation,
    synthetic_conditions,
)
from outrider.evaluation.decoding.overhead import bench_overhead
from outrider.evaluation.decoding.paper_ablations import bench_ablations
from outrider.evaluation.decoding.random_regimes import random_regimes
from outrider.evaluation.decoding.regimes import Regime, load_regimes, varied
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.held_out import Pair, load_pair

REPLAYED_FRAMES = 20
ROUND_TRIPS_MS = (0.0, 25.0, 50.0, 100.0, 150.0, 200.0, 300.0, 400.0, 500.0, 600.0)
SWEEP_TEXTS = 3
TIMELINE_TOKENS = 20


def bench_decoding(
    names: Sequence[str] = (),
    texts: int = 20,
    seed: int = 0,
    models: Path | None = None,
    json_file: Path | None = None,
    plots: Path | None = None,
    ablations: bool = False,
    pair: Pair | None = None,
    drafters: str = MODEL,
    round_trips_ms: Sequence[float] = (),
) -> dict[str, Any]:
    """Measure, print a table, write JSON and plots. `drafters` are those of the replayed texts.

    Each regime is also measured at each of `round_trips_ms`; only the network changes. Raises ConfigError
    for an unknown regime, or for plots without matplotlib, ModelError without models.
    """
    if texts < 1 or seed < 0:
        raise ConfigError("texts must be at least 1 and seed at least 0")
    regimes = load_regimes(names)
    sources = DecodingConfig(drafters=drafter_names(drafters)).drafters
    pair = pair or load_pair(models)
    result: dict[str, Any] = {"texts": texts, "seed": seed, "drafters": sources}
    result |= measure_all(regimes, pair, texts, seed, sources)
    write_figures(json_file, result)  # kept even if what follows, which takes long, fails
    if plots is not None:
        result["timelines"] = draw_all(plots, regimes, result, seed)
    if round_trips_ms:
        result["round_trips"] = sweep_round_trips(regimes, round_trips_ms, seed, plots)
    if ablations:
        result["ablations"] = bench_ablations(texts, seed, plots)
    result["overhead"] = bench_overhead()
    write_figures(json_file, result)
    return result


def bench_policy(
    names: Sequence[str] = (),
    ablate: Sequence[str] = (),
    number: int | None = None,
    variant: str | None = None,
    texts: int = 20,
    seed: int = 0,
    models: Path | None = None,
    json_file: Path | None = None,
    pair: Pair | None = None,
) -> dict[str, Any]:
    """Measure the policy without some mechanisms, under the file's regimes or `number` random ones.

    `variant`: one of `regimes.VARIANTS`. Raises ConfigError for unknown names or options that do not go
    together, ModelError without models.
    """
    if texts < 1 or seed < 0:
        raise ConfigError("texts must be at least 1 and seed at least 0")
    chosen_mechanisms(ablate)
    if number is None:
        regimes = varied(load_regimes(names), variant)
        return bench_ablation(ablate, all_conditions(regimes, models, pair, texts, seed), json_file)
    regimes = varied(random_regimes(number, seed), variant)
    conditions = synthetic_conditions(regimes, texts, seed)
    return bench_ablation(ablate, conditions, json_file, ALTERNATIVES)


def measure_all(
    regimes: Mapping[str, Regime], pair: Pair, texts: int, seed: int, drafters: Sequence[str] = (MODEL,)
) -> dict[str, Any]:
    """Measure each regime with synthetic and with replayed texts; print one table."""
    shipped = replayed(pair)
    frames = replayed_requests(REPLAYED_FRAMES, seed)
    requests = synthetic_requests(texts)
    result: dict[str, dict[str, Any]] = {"regimes": {}, "replayed": {}, "bounds": {}}
    measured: dict[str, Measured] = {}
    for name, regime in tracked(regimes.items(), "regimes"):
        synthetic = measure_regime(regime, synthetic_models(regime, seed), requests, seed)
        shipped_rows = measure_regime(regime, shipped, frames, seed, drafters)
        result["regimes"][name] = {strategy: asdict(row) for strategy, row in synthetic.items()}
        result["replayed"][name] = {strategy: asdict(row) for strategy, row in shipped_rows.items()}
        limit = limit_of(regime, "outrider", synthetic["sd"].tokens_per_round)
        bound = bound_figures(schedule_bound(regime), limit, synthetic)
        result["bounds"][name] = asdict(bound)
        measured[name] = Measured(synthetic, shipped_rows, bound)
    print_measured(measured)
    return result


@dataclass(frozen=True)
class Bound:
    """The bound on all schedules that finish their verifications, on the synthetic texts.

    It is a speed over `ar`, and a share of the limit. `outrider` and `best_of_papers` are the shares of it
    that these strategies reach.
    """

    speedup_vs_ar: float
    fraction_of_limit: float
    outrider: float
    best_of_papers: float


def bound_figures(tokens_per_s: float, limit_tokens_per_s: float, figures: Mapping[str, Figures]) -> Bound:
    """Return a bound, with the shares of it that strategies reach."""
    shares = {strategy: row.tokens_per_s / tokens_per_s for strategy, row in figures.items()}
    papers = max(share for strategy, share in shares.items() if strategy not in ("ar", "outrider"))
    speedup, fraction = tokens_per_s / figures["ar"].tokens_per_s, tokens_per_s / limit_tokens_per_s
    return Bound(speedup, fraction, shares["outrider"], papers)


def draw_all(
    folder: Path, regimes: Mapping[str, Regime], result: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Draw the measured speeds of each regime, and one text of it as a timeline; return the events."""
    timelines = {}
    for name, regime in tracked(regimes.items(), "pictures"):
        measured = {"synthetic": result["regimes"][name], "shipped pair": result["replayed"][name]}
        draw_speeds(folder / f"{name}_speeds.png", name, measured)
        timelines[name] = draw_run(folder, name, regime, seed)
    return timelines


def sweep_round_trips(
    regimes: Mapping[str, Regime], round_trips_ms: Sequence[float], seed: int, folder: Path | None = None
) -> dict[str, dict[str, Any]]:
    """Return the speed-up of every strategy over the round trip, by regime; draw it if there is a folder."""
    sweeps = {}
    for name, regime in tracked(regimes.items(), "round trips"):
        speedups = round_trip_speedups(regime, round_trips_ms, seed)
        sweeps[name] = {"round_trips_ms": round_trips_ms, "speedup_vs_ar": speedups}
        if folder is not None:
            draw_speedups(folder / f"{name}_round_trips.png", name, round_trips_ms, speedups)
    return sweeps


def round_trip_speedups(regime: Regime, round_trips_ms: Sequence[float], seed: int) -> dict[str, list[float]]:
    """Return the speed-up of every strategy at each round trip; only the network changes."""
    speedups: dict[str, list[float]] = {strategy: [] for strategy in STRATEGIES}
    for round_trip_ms in round_trips_ms:
        regime_there = regime.at_round_trip(round_trip_ms)
        figures = measure_regime(
            regime_there, synthetic_models(regime_there, seed), synthetic_requests(SWEEP_TEXTS), seed
        )
        for strategy, row in figures.items():
            speedups[strategy].append(row.speedup_vs_ar)
    return speedups


def draw_run(folder: Path, name: str, regime: Regime, seed: int) -> dict[str, list[dict[str, Any]]]:
    """Draws one synthetic text under every strategy, and returns its events."""
    pair, requests = synthetic_models(regime, seed), synthetic_requests(1, TIMELINE_TOKENS)
    runs: dict[str, list[TimelineEvent]] = {strategy: [] for strategy in STRATEGIES}
    for strategy, events in runs.items():
        config = configuration(regime, strategy)
        world = world_of(regime, config.scheme, seed)
        decode_all(config, pair, world, requests, events.append)
    draw_timelines(folder / f"{name}_timeline.png", f"{name}: one text", runs)
    return {strategy: [asdict(event) for event in events] for strategy, events in runs.items()}


@dataclass(frozen=True)
class Measured:
    """The figures of one regime by strategy, with synthetic texts and with the shipped pair's."""

    synthetic: Mapping[str, Figures]
    shipped: Mapping[str, Figures]
    bound: Bound


def print_measured(measured: Mapping[str, Measured]) -> None:
    """Print one regime with all its figures, or several with their speeds alone."""
    rows = {
        (name, texts): figures
        for name, regime_figures in measured.items()
        for texts, figures in (
            ("synthetic", regime_figures.synthetic),
            ("shipped pair", regime_figures.shipped),
        )
    }
    table = _whole_table(rows) if len(measured) == 1 else _speeds_table(rows)
    print_results(
        table, *(_bound_text(name, regime_figures.bound) for name, regime_figures in measured.items())
    )


def _bound_text(name: str, bound: Bound) -> str:
    return (
        f"{name}, synthetic: no schedule that ends its verifications exceeds {bound.speedup_vs_ar:.2f} "
        f"times ar, {bound.fraction_of_limit:.2f} of the limit; outrider reaches {bound.outrider:.0%} of it, "
        f"the best of the papers' {bound.best_of_papers:.0%}"
    )


def _speeds_table(rows: Mapping[tuple[str, str], Mapping[str, Figures]]) -> Table:
    """Return a row for each regime and kind of texts."""
    strategies = [strategy for strategy in STRATEGIES if strategy != "ar"]
    headings = ("conditions", "texts", "ar, tokens/s", *strategies, "95 % interval")
    table = results_table("speed over ar", *headings)
    for (name, texts), figures in rows.items():
        speeds = [f"{figures[strategy].speedup_vs_ar:.2f}" for strategy in strategies]
        interval = interval_text(figures["outrider"].speedup_interval)
        table.add_row(name, texts, f"{figures['ar'].tokens_per_s:.2f}", *speeds, interval)
    return table


_COLUMNS: Mapping[str, Callable[[Figures], str]] = {
    "tokens/s": lambda row: f"{row.tokens_per_s:.2f}",
    "over ar": lambda row: f"{row.speedup_vs_ar:.2f}",
    "95 % interval": lambda row: interval_text(row.speedup_interval),
    "tokens a round": lambda row: f"{row.tokens_per_round:.2f}",
    "cache misses": lambda row: optional(row.cache_miss_rate, ".0%"),
    "first exit": lambda row: optional(row.avg_exit, ".1f"),
    "passes a token": lambda row: f"{row.target_passes_per_token:.2f}",
    "bytes up, down": lambda row: f"{_bytes(row.bytes_up_per_token)}, {_bytes(row.bytes_down_per_token)}",
    "of the limit": lambda row: f"{row.fraction_of_limit:.2f}",
    "of the formula": lambda row: optional(row.ratio_to_formula, ".2f"),
    "mended": lambda row: optional(row.ratio_to_mended, ".2f"),
    "paper": lambda row: optional(row.paper_speedup, ".2f"),
}


def _whole_table(rows: Mapping[tuple[str, str], Mapping[str, Figures]]) -> Table:
    """Return a row for each kind of texts and strategy."""
    table = results_table(next(iter(rows))[0], "texts", "strategy", *_COLUMNS)
    for (_, texts), figures in rows.items():
        table.add_section()
        for strategy, row in figures.items():
            table.add_row(texts, strategy, *cells_of(_COLUMNS, row))
    return table


def _bytes(value: float) -> str:
    return f"{value:.0f}" if value < 1000.0 else f"{value / 1000.0:.0f}k"
