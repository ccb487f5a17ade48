# SPDX-License-Identifier: Apache-2.0
"""`outrider bench decoding --alternatives`: `outrider` against the best method that could replace it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.decoding.fakes.replay import ReplayModel
from outrider.evaluation.alternatives.measuring import (
    CLOUD_SHARES,
    PAPERS,
    SHIPPED_SHARE,
    Condition,
    Standing,
    measure,
)
from outrider.evaluation.common.rounding import rounded
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.decoding.comparison import replayed_requests, synthetic_models, synthetic_requests
from outrider.evaluation.decoding.mechanisms import STRATEGY
from outrider.evaluation.decoding.regimes import Regime, load_regimes, varied, without_exits
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.held_out import Pair, load_pair

REPLAYED_FRAMES = 20
BARE = "outrider without exits"
SIZES = "sizes"
"""The cost of a draft token in the cloud that the paper prints, or else that the models' sizes imply."""
CLOUD_DRAFTS = tuple(f"{kind} {cost}" for cost in (SIZES, *CLOUD_SHARES) for kind in ("csd", "ssd"))
BOTH_ENDS = tuple(f"{kind} {cost}" for cost in (SIZES, *CLOUD_SHARES) for kind in ("both", "apart"))
OWN_EXITS = "*"


def bench_alternatives(
    names: tuple[str, ...] = (),
    variant: str | None = None,
    texts: int = 20,
    seed: int = 0,
    models: Path | None = None,
    json_file: Path | None = None,
    pair: Pair | None = None,
) -> dict[str, Any]:
    """Measure every regime with the shipped pair's texts, then synthetic ones; print tables, write JSON.

    `variant`: one of `regimes.VARIANTS`. Raises ConfigError for unknown names, ModelError without models.
    """
    if texts < 1 or seed < 0:
        raise ConfigError("texts must be at least 1 and seed at least 0")
    regimes = varied(load_regimes(names), variant)
    shipped = pair or load_pair(models)
    result: dict[str, Any] = {"texts": texts, "seed": seed, "variant": variant, "conditions": {}}
    standings: dict[str, dict[str, Standing]] = {}
    for name, regime, condition in tracked(
        [*shipped_conditions(regimes, shipped, seed), *synthetic_conditions(regimes, texts, seed)],
        "conditions",
    ):
        standings[name] = measure(condition)
        result["conditions"][name] = figures_of(name, regime, condition, standings[name])
        write_figures(json_file, rounded(result))
    print_alternatives(standings, result["conditions"])
    return result


def shipped_conditions(
    regimes: Mapping[str, Regime], pair: Pair, seed: int
) -> Iterator[tuple[str, Regime, Condition]]:
    """Yield every regime's times with the shipped pair's own texts and exits."""
    target, draft = ReplayModel(pair.target), ReplayModel(pair.draft)
    requests = replayed_requests(REPLAYED_FRAMES, seed)
    shares = {SIZES: SHIPPED_SHARE, **CLOUD_SHARES}
    full, bare = Pair(target, draft), Pair(target.without_exits(), draft)
    for name, regime in regimes.items():
        yield f"{name}, shipped pair", regime, Condition(regime, full, bare, requests, seed, shares)


def synthetic_conditions(
    regimes: Mapping[str, Regime], texts: int, seed: int
) -> Iterator[tuple[str, Regime, Condition]]:
    """Yield every regime with synthetic texts of the papers' acceptance; `OWN_EXITS` marks exits of ours."""
    requests = synthetic_requests(texts)
    for name, regime in regimes.items():
        full, bare = synthetic_models(regime, seed), synthetic_models(without_exits(regime), seed)
        shares = {SIZES: regime.cloud_draft_share, **CLOUD_SHARES}
        mark = OWN_EXITS if regime.exits.assumed else ""
        yield f"{name}{mark}", regime, Condition(regime, full, bare, requests, seed, shares)


def figures_of(
    name: str, regime: Regime, condition: Condition, standings: Mapping[str, Standing]
) -> dict[str, Any]:
    """Return what is written of a condition.

    `outrider_vs_best`: at each cost of a draft token in the cloud, the speed of `outrider` with drafts at
    both ends over the best of all others, with one device in the cloud; `_without_exits`: for a target
    without exits. `outrider_vs_two_devices`: with two devices in the cloud, over the best, `ssd` included.
    """
    synthetic, shares = not name.endswith("shipped pair"), condition.cloud_shares
    return {
        "source": regime.source,
        "shipped_pair": not synthetic,
        "exits_assumed": synthetic and regime.exits.assumed,
        "cloud_draft_shares": condition.cloud_shares,
        "eagle_published": asdict(regime.eagle) if synthetic else None,
        "strategies": {strategy: asdict(standing) for strategy, standing in standings.items()},
        "best_paper": best_of(standings, PAPERS),
        "outrider_vs_best": {cost: lead(standings, cost) for cost in shares},
        "outrider_vs_best_without_exits": {cost: lead(standings, cost, " without exits") for cost in shares},
        "outrider_vs_two_devices": {cost: lead(standings, cost, ssd=True) for cost in shares},
    }


def best_of(standings: Mapping[str, Standing], among: tuple[str, ...]) -> str:
    """Return the name of the fastest strategy of `among`; those that were not measured do not count."""
    return max((name for name in among if name in standings), key=lambda name: standings[name].speedup_vs_ar)


def lead(standings: Mapping[str, Standing], cost: str, exits: str = "", ssd: bool = False) -> float:
    """Return our speed over that of the best other strategy, at this cost of a draft token in the cloud.

    `ssd`: ours has a second device in the cloud, and so have the others.
    """
    best = best_of(standings, ("ar", *PAPERS, f"csd {cost}", *([f"ssd {cost}"] if ssd else [])))
    return (
        standings[f"{'apart' if ssd else 'both'} {cost}{exits}"].speedup_vs_ar / standings[best].speedup_vs_ar
    )


def print_alternatives(
    standings: Mapping[str, Mapping[str, Standing]], conditions: Mapping[str, Mapping[str, Any]]
) -> None:
    """Print speed over `ar`, and milliseconds of the cloud's devices per token: two lines a condition."""
    ours = (*BOTH_ENDS, BARE, STRATEGY)
    headings = ("conditions", "figure", "ar", "papers", *CLOUD_DRAFTS, "EAGLE", *ours)
    table = results_table("against what one could run in its place, each tuned", *headings)
    for name, row in standings.items():
        best, published = conditions[name]["best_paper"], conditions[name]["eagle_published"]
        columns = ("ar", best, *CLOUD_DRAFTS, *ours)
        speeds = [f"{row[column].speedup_vs_ar:.2f}" for column in columns]
        costs = [f"{row[column].gpu_ms_per_token:.1f}" for column in columns]
        eagle = f"{published['speedup']:.2f}" if published else "-"
        speeds[1] += f" {best}"
        num_before_eagle = 2 + len(CLOUD_DRAFTS)
        table.add_section()
        table.add_row(name, "speed over ar", *speeds[:num_before_eagle], eagle, *speeds[num_before_eagle:])
        table.add_row("", "GPU ms a token", *costs[:num_before_eagle], "-", *costs[num_before_eagle:])
    print_results(table)
