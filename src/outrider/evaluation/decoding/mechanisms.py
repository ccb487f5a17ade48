# SPDX-License-Identifier: Apache-2.0
"""`outrider bench decoding --ablate`: what each mechanism of the adaptive policy is worth."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from outrider.core.files.terminal import tracked
from outrider.core.values import DecodeRequest
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning
from outrider.evaluation.common.choices import chosen_mechanisms
from outrider.evaluation.common.intervals import percentile
from outrider.evaluation.common.rounding import rounded
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.decoding.comparison import (
    configuration,
    decode_all,
    replayed,
    replayed_requests,
    synthetic_models,
    synthetic_requests,
    world_of,
)
from outrider.evaluation.decoding.published_server import (
    NUM_DRAFT_TOKENS,
    Batching,
    published_fleet,
    tokens_until,
)
from outrider.evaluation.decoding.regimes import Regime, with_separate_exit_times
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.held_out import Pair, load_pair

STRATEGY = "outrider"
REPLAYED_FRAMES = 10
FLEET_ROBOTS = (4, 16)
FLEET_TOKENS = 60
CLOUD_SHARE = 0.1
"""The time of a draft token in the cloud, as a share of a step, where drafts are made at both ends."""
ALTERNATIVES = tuple(name for name in STRATEGIES if name != STRATEGY)
ABLATION_COLUMNS = {
    "mean": "geometric_mean",
    "median": "median",
    "worst": "worst",
    "median vs ar": "median_vs_ar",
    "10th pct. vs ar": "tenth_percentile_vs_ar",
    "median vs best": "median_vs_best",
    "10th pct. vs best": "tenth_percentile_vs_best",
}
"""The headings, and the fields of `Ablation` that they show."""

Condition = Callable[[str, AdaptiveTuning], float]
"""Measures the tokens per second of a strategy with a tuning."""


def regime_speed(
    regime: Regime,
    pair: Pair,
    requests: Sequence[DecodeRequest],
    seed: int,
    strategy: str,
    tuning: AdaptiveTuning,
    cloud_share: float | None = None,
) -> float:
    """Return tokens per second under one regime.

    `cloud_share`: the time of a token of the same draft in the cloud, as a share of a step; None without
    one.
    """
    config = configuration(regime, strategy, tuning=tuning)
    world, cloud = world_of(regime, config.scheme, seed), None
    if cloud_share is not None:
        token_s, cloud = regime.cloud_token_s(cloud_share), pair.draft
        world = replace(world, compute=replace(world.compute, cloud_draft_token_s=token_s))
    texts = decode_all(config, pair, world, requests, cloud_draft=cloud)
    return sum(len(text.token_ids) for text in texts) / sum(text.elapsed_s for text in texts)


def fleet_speed(robots: int, seed: int, strategy: str, tuning: AdaptiveTuning) -> float:
    """Return tokens per second of robots on the published server, until the first has finished."""
    config = DecodingConfig(strategy, num_draft_tokens=NUM_DRAFT_TOKENS, tuning=tuning)
    records = published_fleet(config, robots, FLEET_TOKENS, 2, Batching(), seed)
    end_s = min(record.commits[-1][0] for record in records)
    return sum(tokens_until(record, end_s) for record in records) / end_s


def synthetic_conditions(regimes: Mapping[str, Regime], texts: int, seed: int) -> dict[str, Condition]:
    """Return measurements of the speed under each regime on synthetic texts.

    Each is made with drafts of the robot, and with drafts at both ends.
    """
    requests = synthetic_requests(texts)
    conditions: dict[str, Condition] = {}
    for name, regime in regimes.items():
        apart = with_separate_exit_times(regime)
        models, models_apart = synthetic_models(regime, seed), synthetic_models(apart, seed)
        conditions[name] = partial(regime_speed, regime, models, requests, seed)
        conditions[f"{name}, drafts at both ends"] = partial(
            regime_speed, apart, models_apart, requests, seed, cloud_share=CLOUD_SHARE
        )
    return conditions


def replayed_conditions(regimes: Mapping[str, Regime], pair: Pair, seed: int) -> dict[str, Condition]:
    """Return such measurements on the shipped pair's own texts, which are computed once."""
    shipped = replayed(pair)
    frames = replayed_requests(REPLAYED_FRAMES, seed)
    return {
        f"{name}, shipped pair": partial(regime_speed, regime, shipped, frames, seed)
        for name, regime in regimes.items()
    }


@dataclass(frozen=True)
class Ablation:
    """What switching one mechanism off changes, as shares: -0.05 if 5 % of the speed is lost.

    `changes`: by condition; `geometric_mean`, `median` and `worst` are theirs. The other fields: the change
    in that statistic of the speeds over `ar`, and of those over the best alternative, if that was measured.
    """

    changes: dict[str, float]
    geometric_mean: float
    median: float
    worst: float
    median_vs_ar: float
    tenth_percentile_vs_ar: float
    median_vs_best: float | None = None
    tenth_percentile_vs_best: float | None = None


def ablation_of(
    full: Mapping[str, float], without: Mapping[str, float], best: Mapping[str, float] | None = None
) -> Ablation:
    """Return the changes from the full engine to the one without a mechanism.

    All speeds are over `ar`; `best` is that of the best alternative.
    """
    changes = {name: without[name] / full[name] - 1.0 for name in full}
    over_best: tuple[float, ...] = ()
    if best:
        over_best = spread_change(
            [full[name] / best[name] for name in full], [without[name] / best[name] for name in full]
        )
    return Ablation(
        changes,
        statistics.geometric_mean([1.0 + change for change in changes.values()]) - 1.0,
        statistics.median(changes.values()),
        min(changes.values()),
        *spread_change(list(full.values()), list(without.values())),
        *over_best,
    )


def spread_change(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """Return how the median and the 10th percentile change, as shares."""
    return (
        statistics.median(after) / statistics.median(before) - 1.0,
        percentile(after, 0.1) / percentile(before, 0.1) - 1.0,
    )


def speeds_over_ar(
    conditions: Mapping[str, Condition], ar: Mapping[str, float], tuning: AdaptiveTuning
) -> dict[str, float]:
    """Return the speed over `ar` under each condition with a tuning."""
    return {name: measure(STRATEGY, tuning) / ar[name] for name, measure in conditions.items()}


def bench_ablation(
    names: Sequence[str],
    conditions: Mapping[str, Condition],
    json_file: Path | None = None,
    alternatives: Sequence[str] = (),
) -> dict[str, Any]:
    """Measure each mechanism switched off under every condition; print tables, write JSON as it goes.

    `alternatives`: strategies, the best of which is compared too. Raises ConfigError for an unknown
    mechanism.
    """
    mechanisms = chosen_mechanisms(names)
    ar = {name: measure("ar", DEFAULT_TUNING) for name, measure in tracked(conditions.items(), "ar")}
    full = speeds_over_ar(conditions, ar, DEFAULT_TUNING)
    best = {
        name: max(measure(alternative, DEFAULT_TUNING) / ar[name] for alternative in alternatives)
        for name, measure in conditions.items()
        if alternatives
    }
    result: dict[str, Any] = {"speedup_vs_ar": full, "best_alternative_vs_ar": best, "ablations": {}}
    ablations: dict[str, Ablation] = {}
    for name in tracked(mechanisms, "mechanisms"):
        without = speeds_over_ar(conditions, ar, DEFAULT_TUNING.without(name))
        ablations[name] = ablation_of(full, without, best)
        result["ablations"][name] = asdict(ablations[name])
        write_figures(json_file, rounded(result))
    print_results(ablations_table(ablations))
    return result


def ablations_table(ablations: Mapping[str, Ablation]) -> Table:
    """Return a table of how the speed changes without each mechanism."""
    table = results_table("change in speed without", "mechanism", *ABLATION_COLUMNS)
    for name, ablation in ablations.items():
        figures = [getattr(ablation, field) for field in ABLATION_COLUMNS.values()]
        table.add_row(name, *("" if figure is None else f"{figure:+.1%}" for figure in figures))
    return table


def all_conditions(
    regimes: Mapping[str, Regime], models: Path | None, pair: Pair | None, texts: int, seed: int
) -> dict[str, Condition]:
    """Return the regimes with synthetic texts and with the shipped pair's, and fleets. Raises ModelError."""
    shipped = pair or load_pair(models)
    return {
        **synthetic_conditions(regimes, texts, seed),
        **replayed_conditions(regimes, shipped, seed),
        **{f"fleet of {robots}": partial(fleet_speed, robots, seed) for robots in FLEET_ROBOTS},
    }
