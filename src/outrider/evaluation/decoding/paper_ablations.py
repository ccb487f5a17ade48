# SPDX-License-Identifier: Apache-2.0
"""FSD's ablations on the engine: workers and draft length (Figure 4), queue policies (Table 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table

from outrider.core.link_profile import LinkProfile
from outrider.core.values import DecodeRequest
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.evaluation.common.plots import draw_ablation
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.decoding.comparison import (
    Figures,
    configuration,
    decode_all,
    figures_of,
    synthetic_models,
    synthetic_requests,
    world_of,
)
from outrider.evaluation.decoding.regimes import Regime, load_regimes
from outrider.runtime.datasets.held_out import Pair

REGIME = "fsd-rtx-vicuna7b-gsm8k"
WORKERS = (1, 2, 3, 5, 7, 10, 15, 20, 30)
DRAFT_LENGTHS = tuple(range(1, 11))
QUEUE_WORKERS = (3, 5, 10)
EDGE_ORDERS = ("confidence", "random", "fifo")
CLOUD_ORDERS = ("confidence", "fifo")


def one_frame_at_a_time(world: VirtualWorld, regime: Regime) -> VirtualWorld:
    """Return a world in which each frame of the cloud takes the whole one-way time: section 3, step 3."""
    downlink = LinkProfile(bytes_per_s=1e3 / regime.one_way_down_ms)
    return replace(world, frame_bytes=lambda frame: 1, downlink=downlink)


def fsd_figures(
    regime: Regime, pair: Pair, requests: Sequence[DecodeRequest], seed: int, **changes: Any
) -> Figures:
    """Return the figures of FSD with other settings than the regime's."""
    config = replace(configuration(regime, "fsd"), **changes)
    world = one_frame_at_a_time(world_of(regime, config.scheme, seed), regime)
    return figures_of(regime, "fsd", decode_all(config, pair, world, requests), {})


def plain_figures(
    regime: Regime, strategy: str, pair: Pair, requests: Sequence[DecodeRequest], seed: int
) -> Figures:
    """Return the figures of a strategy with the regime's settings."""
    config = configuration(regime, strategy)
    world = world_of(regime, config.scheme, seed)
    return figures_of(regime, strategy, decode_all(config, pair, world, requests), {})


def ablate_workers(
    regime: Regime, pair: Pair, requests: Sequence[DecodeRequest], seed: int, workers: Sequence[int]
) -> dict[str, list[float]]:
    """Return cache misses and the speed-up over vanilla by the number of exits drafted on: Figure 4(a)."""
    vanilla = plain_figures(regime, "sd", pair, requests, seed)
    rows = [fsd_figures(regime, pair, requests, seed, workers=count) for count in workers]
    return {
        "cache_miss_rate": [row.cache_miss_rate or 0.0 for row in rows],
        "speedup_vs_sd": [row.tokens_per_s / vanilla.tokens_per_s for row in rows],
    }


def ablate_draft_length(
    regime: Regime, pair: Pair, requests: Sequence[DecodeRequest], seed: int, draft_lengths: Sequence[int]
) -> dict[str, list[float]]:
    """Return the speed-ups of SD over autoregressive decoding and FSD over SD by length: Figure 4(b)."""
    curves: dict[str, list[float]] = {"sd_vs_ar": [], "fsd_vs_sd": []}
    autoregressive = plain_figures(regime, "ar", pair, requests, seed).tokens_per_s
    for length in draft_lengths:
        longer = msgspec.structs.replace(regime, num_draft_tokens=length)
        vanilla = plain_figures(longer, "sd", pair, requests, seed).tokens_per_s
        curves["sd_vs_ar"].append(vanilla / autoregressive)
        curves["fsd_vs_sd"].append(fsd_figures(longer, pair, requests, seed).tokens_per_s / vanilla)
    return curves


def ablate_queues(
    regime: Regime, pair: Pair, requests: Sequence[DecodeRequest], seed: int, workers: Sequence[int]
) -> dict[str, list[float]]:
    """Return cache misses by the order of both hint queues, for few workers: Table 7."""
    return {
        f"{edge}/{cloud}": [
            fsd_figures(
                regime, pair, requests, seed, workers=count, edge_hint_order=edge, cloud_hint_order=cloud
            ).cache_miss_rate
            or 0.0
            for count in workers
        ]
        for edge in EDGE_ORDERS
        for cloud in CLOUD_ORDERS
    }


def bench_ablations(
    texts: int,
    seed: int,
    plots: Path | None = None,
    workers: Sequence[int] = WORKERS,
    draft_lengths: Sequence[int] = DRAFT_LENGTHS,
    queue_workers: Sequence[int] = QUEUE_WORKERS,
) -> dict[str, Any]:
    """Run the ablations, print them, and draw them if `plots` is given.

    `workers` and `draft_lengths` (in tokens) are the values for Figure 4, `queue_workers` those for Table
    7.
    """
    regime = load_regimes([REGIME])[REGIME]
    pair, requests = synthetic_models(regime, seed), synthetic_requests(texts)
    by_workers = ablate_workers(regime, pair, requests, seed, workers)
    by_length = ablate_draft_length(regime, pair, requests, seed, draft_lengths)
    queues = ablate_queues(regime, pair, requests, seed, queue_workers)
    for table in (
        _table("FSD Figure 4(a): workers", "workers", workers, by_workers),
        _table("FSD Figure 4(b): draft length", "draft tokens", draft_lengths, by_length),
        _table("FSD Table 7: cache misses by edge/cloud order of hints", "workers", queue_workers, queues),
    ):
        print_results(table)
    if plots is not None:
        draw_ablation(plots / "fsd_workers.png", "FSD Figure 4(a)", "workers", workers, by_workers)
        draw_ablation(plots / "fsd_draft_length.png", "FSD Figure 4(b)", "gamma", draft_lengths, by_length)
    return {
        "workers": {"workers": workers, **by_workers},
        "draft_length": {"num_draft_tokens": draft_lengths, **by_length},
        "queues": {"workers": queue_workers, "cache_miss_rate": queues},
    }


def _table(title: str, heading: str, values: Sequence[int], curves: dict[str, list[float]]) -> Table:
    rows = ((name, *(f"{value:.2f}" for value in curve)) for name, curve in curves.items())
    return results_table(title, heading, *map(str, values), rows=rows)
