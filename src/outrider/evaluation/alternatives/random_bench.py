# SPDX-License-Identifier: Apache-2.0
"""`outrider bench decoding --random-regimes`: the engine under conditions that it was not tuned on."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.evaluation.alternatives.measuring import CLOUD_SHARES, PAPERS, Condition, measure
from outrider.evaluation.common.intervals import percentile
from outrider.evaluation.common.rounding import rounded
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.decoding.comparison import synthetic_models, synthetic_requests
from outrider.evaluation.decoding.mechanisms import STRATEGY
from outrider.evaluation.decoding.random_regimes import random_regimes
from outrider.evaluation.decoding.regimes import Regime, varied, without_exits
from outrider.runtime.common.json_figures import write_figures

RIVALS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ar": (STRATEGY, ("ar",)),
    "the best paper": (STRATEGY, PAPERS),
}
for _cost in CLOUD_SHARES:
    RIVALS[f"csd at {_cost}"] = (f"both {_cost}", (f"csd {_cost}",))
    RIVALS[f"the best on one device at {_cost}"] = (f"both {_cost}", ("ar", *PAPERS, f"csd {_cost}"))
    RIVALS[f"ssd on two devices at {_cost}"] = (f"apart {_cost}", (f"ssd {_cost}",))
"""For each rival: which strategy of ours is compared with the fastest of which others.

Against a draft in the cloud it is the strategy with drafts at both ends.
"""


@dataclass(frozen=True)
class Spread:
    """The speed of `outrider` over a rival's, over all conditions."""

    median: float
    tenth_percentile: float


def bench_random(
    number: int, variant: str | None, texts: int, seed: int, json_file: Path | None = None
) -> dict[str, Any]:
    """Measure all alternatives, each tuned, under random regimes; print the spread, write JSON as it goes.

    Raises ConfigError for numbers out of range or an unknown variant.
    """
    if texts < 1 or seed < 0:
        raise ConfigError("texts must be at least 1 and seed at least 0")
    regimes = varied(random_regimes(number, seed), variant)
    result: dict[str, Any] = {"texts": texts, "seed": seed, "variant": variant, "regimes": {}}
    speeds: dict[str, dict[str, float]] = {}
    for name, regime in tracked(regimes.items(), "regimes"):
        standings = measure(random_condition(regime, texts, seed))
        speeds[name] = {strategy: standing.speedup_vs_ar for strategy, standing in standings.items()}
        result["regimes"][name] = {"source": regime.source, "speedup_vs_ar": speeds[name]}
        write_figures(json_file, rounded(result))
    spreads = spreads_of(speeds.values())
    result["outrider_over"] = {rival: vars(spread) for rival, spread in spreads.items()}
    write_figures(json_file, rounded(result))
    print_random(speeds, spreads)
    return result


def random_condition(regime: Regime, texts: int, seed: int) -> Condition:
    """Return synthetic texts under a regime; no paper prints its draft's cost in the cloud."""
    full, bare = synthetic_models(regime, seed), synthetic_models(without_exits(regime), seed)
    return Condition(regime, full, bare, synthetic_requests(texts), seed, dict(CLOUD_SHARES))


def spreads_of(speeds: Iterable[Mapping[str, float]]) -> dict[str, Spread]:
    """Return the spread over each rival. `speeds`: for each regime, the strategies' speeds over `ar`."""
    rows, spreads = list(speeds), {}
    for rival, (ours, names) in RIVALS.items():
        leads = [row[ours] / max(row[name] for name in names if name in row) for row in rows]
        spreads[rival] = Spread(statistics.median(leads), percentile(leads, 0.1))
    return spreads


def print_random(speeds: Mapping[str, Mapping[str, float]], spreads: Mapping[str, Spread]) -> None:
    """Print every speed, and the spread over each rival; the drawn regimes are in the JSON file."""
    rows = ((name, *(f"{speed:.2f}" for speed in row.values())) for name, row in speeds.items())
    headings = ("conditions", *next(iter(speeds.values())))
    table = results_table("speed over ar, each tuned", *headings, rows=rows)
    over = (
        f"outrider over {rival}: median {spread.median:.2f}, 10th percentile {spread.tenth_percentile:.2f}"
        for rival, spread in spreads.items()
    )
    print_results(table, *over)
