# SPDX-License-Identifier: Apache-2.0
"""`outrider bench decoding --random-regimes`: the engine under conditions that nothing was tuned on."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from outrider.core.files.terminal import make_console, tracked
from outrider.evaluation.decoding.comparison import measure_regime, synthetic_models, synthetic_requests
from outrider.evaluation.decoding.mechanisms import STRATEGY, figures_table, tenth_percentile
from outrider.evaluation.decoding.regimes import Regime
from outrider.runtime.common.json_figures import write_figures


@dataclass(frozen=True)
class Spread:
    """Of `outrider` over random conditions: medians and 10th percentiles of its speed over `ar`, and over the
    fastest of all other strategies in the same condition."""

    median_vs_ar: float
    tenth_percentile_vs_ar: float
    median_vs_best: float
    tenth_percentile_vs_best: float


def bench_random(
    regimes: Mapping[str, Regime], texts: int, seed: int, json_file: Path | None = None
) -> dict[str, Any]:
    """Every strategy under each regime; prints a table and the spread, writes JSON as it goes."""
    console, requests = make_console(), synthetic_requests(texts)
    result: dict[str, Any] = {"texts": texts, "seed": seed, "regimes": {}}
    speeds: dict[str, dict[str, float]] = {}
    for name, regime in tracked(regimes.items(), "regimes"):
        figures = measure_regime(regime, synthetic_models(regime, seed), requests, seed)
        speeds[name] = {strategy: row.speedup_vs_ar for strategy, row in figures.items()}
        result["regimes"][name] = {"source": regime.source, "speedup_vs_ar": speeds[name]}
        write_figures(json_file, result)
    spread = spread_of(speeds.values())
    result["spread"] = asdict(spread)
    write_figures(json_file, result)
    print_random(console, regimes, speeds, spread)
    return result


def spread_of(speeds: Iterable[Mapping[str, float]]) -> Spread:
    """`speeds`: of each regime, those of all strategies over `ar`."""
    over_ar, over_best = [], []
    for row in speeds:
        over_ar.append(row[STRATEGY])
        over_best.append(row[STRATEGY] / max(speed for name, speed in row.items() if name != STRATEGY))
    return Spread(
        statistics.median(over_ar),
        tenth_percentile(over_ar),
        statistics.median(over_best),
        tenth_percentile(over_best),
    )


def print_random(
    console: Console, regimes: Mapping[str, Regime], speeds: Mapping[str, Mapping[str, float]], spread: Spread
) -> None:
    """Prints the speeds under random regimes, what these are, and the spread."""
    table = figures_table("speed over ar", "", *next(iter(speeds.values())))
    for name, row in speeds.items():
        table.add_row(name, *(f"{speed:.2f}x" for speed in row.values()))
    console.print(table)
    for name, regime in regimes.items():
        console.print(f"  {name} {regime.source}", highlight=False)
    console.print(
        f"outrider over ar: median {spread.median_vs_ar:.2f}x, "
        f"10th percentile {spread.tenth_percentile_vs_ar:.2f}x; over the best alternative: "
        f"median {spread.median_vs_best:.2f}x, 10th percentile {spread.tenth_percentile_vs_best:.2f}x",
        highlight=False,
    )
