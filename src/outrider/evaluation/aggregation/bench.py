# SPDX-License-Identifier: Apache-2.0
"""`outrider bench aggregation`: DRAGON, its baselines and the coupled rule under the paper's conditions.

Runs on the virtual clock, with synthetic texts of the paper's acceptance and with the shipped pair's own
texts. The paper's figures are shown for comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from rich.table import Table

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.core.link_profile import LinkProfile
from outrider.core.values import DecodeRequest
from outrider.decoding.acceptance.packing import pack_peer_rows
from outrider.decoding.acceptance.quantized import PEER_BITS, unbiased_grid
from outrider.decoding.aggregation.synthetic import AcceptanceTarget, certain_pair
from outrider.decoding.aggregation.virtual import PeerCompute, PeerWorld, VirtualPeers
from outrider.decoding.fakes.replay import ReplayModel
from outrider.evaluation.aggregation.comparison import (
    DEADLINE_S,
    METHODS,
    LatencyFigures,
    compare,
    decode_texts,
    figures,
    share_documents,
    synthetic_requests,
)
from outrider.evaluation.aggregation.live import bench_live_aggregation
from outrider.evaluation.aggregation.question_corpus import GainFigures, measure_gain, measure_readers_gain
from outrider.evaluation.aggregation.regimes import (
    DELAYED_LINKS,
    AggregationRegime,
    load_aggregation_regimes,
)
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.plots import draw_ablation
from outrider.evaluation.common.tables import print_results, results_table
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.held_out import Pair, held_out_prompts, load_pair, load_reader_model
from outrider.wire.codec import frame_bytes

SCHEDULED_TOKENS = 100
SCHEDULED_WINDOW = 10
"""Draft tokens ahead in the public simulation."""
SCHEDULED_DELAYS_MS = (0.0, 200.0, 400.0)
RATE_PAIRS = ((0.99, 0.99), (0.99, 0.49), (0.49, 0.99), (0.5, 0.5))
"""The acceptance rates of the device and the cloud.

The public simulation draws each from 0.49 and 0.99. But of two certain drafts one is always accepted, so
both rates cannot be below one half.
"""
SCHEDULED_METHODS = ("dragon-device", "dragon-cloud", "dragon-random", "dragon")
PAIR_PROMPTS = 4
LARGE_VOCABULARY = 151_936
ZIPF_EXPONENTS = (1.4, 1.6, 1.8, 2.0)
LIVE_TEXTS = 2
_OFFSETS = 8
"""Offsets of the rounding grid, over which a distribution's bytes are averaged."""

_Value = TypeVar("_Value")


def bench_aggregation(
    names: Sequence[str] = (),
    texts: int = 5,
    seed: int = 0,
    models: Path | None = None,
    json_file: Path | None = None,
    plots: Path | None = None,
    live: bool = False,
) -> dict[str, Any]:
    """Measure, print a table, write JSON and plots. Raises ConfigError, or ModelError without models."""
    if texts < 1 or seed < 0:
        raise ConfigError("texts must be at least 1 and seed at least 0")
    regimes = load_aggregation_regimes(names)
    pair, reader = load_pair(models), load_reader_model(models)
    table, notes = results_table("two peers write one text", *LEGENDS["bench aggregation"]), list[str]()
    result: dict[str, Any] = {"texts": texts, "seed": seed, "regimes": {}}
    for name, regime in regimes.items():
        result["regimes"][name] = _measure_regime(table, notes, name, regime, texts, seed, plots)
    result["scheduling"] = _measure_scheduling(notes, next(iter(regimes.values())), texts, seed)
    result["pair"] = _measure_pair(notes, pair, seed)
    result["distribution_bytes"] = _measure_rows(notes)
    result["gain"] = _gain_rows(notes, "a count model", measure_gain(seed))
    result["readers_gain"] = _gain_rows(notes, "the shipped reader", measure_readers_gain(reader, seed))
    if live:
        result["live"] = _measure_live(notes, next(iter(regimes)), seed)
    print_results(table, *notes)
    write_figures(json_file, result)
    return result


def _measure_regime(
    table: Table,
    notes: list[str],
    name: str,
    regime: AggregationRegime,
    texts: int,
    seed: int,
    plots: Path | None,
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for delayed_links, where in tracked(DELAYED_LINKS.items(), name):
        rows = compare(regime, delayed_links, texts, seed)
        summary = summarise(rows)
        _add_latencies(table, f"{name}, {where}", regime, rows, delayed_links == "server")
        notes += _summary_lines(f"{name}, {where}", summary)
        methods = {method: [asdict(delay_figures) for delay_figures in row] for method, row in rows.items()}
        result[delayed_links] = {"methods": methods, "summary": summary}
        if plots is not None:
            curves = {
                method: [delay_figures.token_ms for delay_figures in row] for method, row in rows.items()
            }
            draw_ablation(
                plots / f"{name}_{delayed_links}.png",
                f"{name}: ms a token",
                f"extra delay (ms), {where}",
                regime.extra_delays_ms,
                curves,
            )
    return result


def summarise(rows: Mapping[str, Sequence[LatencyFigures]]) -> dict[str, dict[str, float]]:
    """Return section 7.3's figures for both rules: reductions at the largest delay, means over all."""

    def mean_ms(method: str) -> float:
        return sum(row.token_ms for row in rows[method]) / len(rows[method])

    last = {method: row[-1].token_ms for method, row in rows.items()}
    return {
        method: {
            "below_sequence": 1.0 - last[method] / last["sequence"],
            "below_token": 1.0 - last[method] / last["token"],
            "over_device": mean_ms(method) / mean_ms("device") - 1.0,
            "over_crcg": mean_ms(method) / mean_ms("crcg") - 1.0,
            "bytes_a_token": max(row.bytes_up + row.bytes_down for row in rows[method]),
        }
        for method in ("dragon", "coupled")
    }


def _add_latencies(
    table: Table,
    conditions: str,
    regime: AggregationRegime,
    rows: Mapping[str, Sequence[LatencyFigures]],
    with_published: bool,
) -> None:
    """Add a row for each method, and one for the figures that its paper prints."""
    table.add_section()
    for method, row in rows.items():
        first, last = row[0], row[-1]
        num_bytes = f"{last.bytes_up:.0f}, {last.bytes_down:.0f}"
        firsts = f"{first.first_token_ms:.0f} to {last.first_token_ms:.0f}"
        table.add_row(conditions, method, f"{first.token_ms:.0f} to {last.token_ms:.0f}", firsts, num_bytes)
        published = getattr(regime.published, method, None)
        if with_published and published is not None:
            table.add_row(
                conditions, f"{method}, paper", f"{published[0]:.0f} to {published[-1]:.0f}", "", ""
            )


def _summary_lines(conditions: str, summary: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [
        f"{conditions}, {method}: {figures['below_sequence']:.1%} below sequence-wise, "
        f"{figures['below_token']:.1%} below token-wise at the largest delay; "
        f"on average {figures['over_device']:+.1%} over the device alone, "
        f"{figures['over_crcg']:+.1%} over one context; at most {figures['bytes_a_token']:.0f} B a token"
        for method, figures in summary.items()
    ]


def _measure_scheduling(
    notes: list[str], regime: AggregationRegime, texts: int, seed: int
) -> list[dict[str, Any]]:
    """Measure section 7.4: the time of 100 tokens.

    Each way the delay varies by a fifth, with period 20 pi s.
    """
    rows: list[dict[str, Any]] = []
    cases = [(delay_ms, rates) for delay_ms in SCHEDULED_DELAYS_MS for rates in RATE_PAIRS]
    for delay_ms, rates in tracked(cases, "scheduling"):
        seconds = {
            method: scheduled_s(regime, method, rates, delay_ms / 1e3, texts, seed)
            for method in SCHEDULED_METHODS
        }
        excess = seconds["dragon"] / min(seconds["dragon-device"], seconds["dragon-cloud"]) - 1.0
        rows.append({"one_way_ms": delay_ms, "rates": rates, "seconds": seconds, "over_better": excess})
    worst = max(rows, key=lambda row: row["over_better"])
    notes.append(
        f"scheduling, {len(rows)} cases of delay and acceptance: dragon takes at most "
        f"{worst['over_better']:+.1%} of the better side's time, at {worst['one_way_ms']:g} ms one way and "
        f"{worst['rates'][0]:.2f} and {worst['rates'][1]:.2f} accepted"
    )
    return rows


def scheduled_s(
    regime: AggregationRegime,
    method: str,
    rates: tuple[float, float],
    delay_s: float,
    texts: int,
    seed: int,
    num_tokens: int = SCHEDULED_TOKENS,
) -> float:
    """Return the mean seconds of a text at these acceptance rates of device and cloud, text after text."""
    target = AcceptanceTarget(*rates)
    config = replace(METHODS[method], window=SCHEDULED_WINDOW)
    world = _varying_world(regime, delay_s, seed)
    peers = VirtualPeers(*certain_pair(target, seed), config, world, *share_documents(target.device_share))
    requests = synthetic_requests(texts, num_tokens)
    return sum(peers.decode(request).elapsed_s for request in requests) / texts


def _varying_world(regime: AggregationRegime, delay_s: float, seed: int) -> PeerWorld:
    """Return the public simulation's link: 2 ms, up to 6 ms more at random, and the varying extra delay."""
    world = regime.world(0.0, "server", seed)
    link = LinkProfile(0.002 + delay_s, 0.006, bytes_per_s=world.uplink.bytes_per_s)
    return replace(
        world,
        device=replace(world.device, prefill_s=0.0),
        cloud=replace(world.cloud, prefill_s=0.0),
        uplink=link,
        downlink=link,
        extra_delay_s=lambda frame, num_bytes, now_s: 0.2 * delay_s * math.sin(now_s / 10.0),
    )


def _measure_pair(notes: list[str], pair: Pair, seed: int) -> dict[str, Any]:
    """Measure the shipped pair as two peers at temperature 1: acceptance and bytes of real distributions."""
    peers = ReplayModel(pair.draft), ReplayModel(pair.target)
    requests = [DecodeRequest(prompt, 60, DEADLINE_S) for prompt in held_out_prompts(PAIR_PROMPTS, seed)]
    link = LinkProfile(0.05, 0.02)
    world = PeerWorld(frame_bytes, PeerCompute(0.0, 0.02), PeerCompute(0.0, 0.02), link, link)
    result = {}
    for rule, name in (("rejection", "dragon"), ("coupled", "coupled")):
        config = replace(METHODS[name], seed=seed)
        row = figures(decode_texts(peers, partial(_always, config), partial(_always, world), requests), 0.0)
        result[rule] = asdict(row)
        notes.append(
            f"shipped draft and target as peers, {rule}: drafts of device and cloud stand "
            f"{row.device_acceptance:.2f} and {row.cloud_acceptance:.2f}, {row.token_ms:.0f} ms a token at "
            f"50 ms one way, {row.bytes_up:.0f} B up and {row.bytes_down:.0f} B down a token"
        )
    return result


def zipf_row_bytes(vocab_size: int, exponent: float, seed: int = 0) -> tuple[float, float]:
    """Return perplexity and mean bytes of a distribution like rank^-exponent, in random order."""
    ranked = torch.arange(1, vocab_size + 1, dtype=torch.float64) ** -exponent
    ranked /= ranked.sum()
    row = torch.zeros_like(ranked)
    row[torch.randperm(vocab_size, generator=torch.Generator().manual_seed(seed))] = ranked
    sizes = [
        len(pack_peer_rows([unbiased_grid(row, PEER_BITS, (index + 0.5) / _OFFSETS)]))
        for index in range(_OFFSETS)
    ]
    return math.exp(-float((ranked * ranked.log()).sum())), sum(sizes) / _OFFSETS


def _measure_rows(notes: list[str]) -> list[dict[str, float]]:
    """Measure what `rejection` adds to a draft. The paper reports below 0.5 KB with its own compression."""
    rows = []
    for exponent in ZIPF_EXPONENTS:
        perplexity, num_bytes = zipf_row_bytes(LARGE_VOCABULARY, exponent)
        rows.append({"perplexity": perplexity, "bytes": num_bytes})
        notes.append(
            f"a distribution over {LARGE_VOCABULARY} tokens with perplexity {perplexity:.0f}: "
            f"{num_bytes:.0f} B"
        )
    return rows


def _gain_rows(notes: list[str], model: str, rows: Mapping[str, GainFigures]) -> dict[str, Any]:
    """Return the gain by available documents, and add it to `notes`.

    The questions need a document of each side.
    """
    for name, row in rows.items():
        notes.append(
            f"{model} with documents of {name}: {row.exact_match:.2f} of the answers right, "
            f"perplexity of the right ones {row.perplexity:.2f}"
        )
    return {name: asdict(row) for name, row in rows.items()}


def _measure_live(notes: list[str], name: str, seed: int) -> dict[str, Any]:
    """Measure over real sockets and a link with emulated delays; waiting keeps the machines' pace."""
    by_method = bench_live_aggregation(name, LIVE_TEXTS, seed)
    for method, rows in by_method.items():
        for delay_ms, row in rows.items():
            notes.append(
                f"{name}, live over sockets, {method}, {delay_ms} ms each way: "
                f"{row.token_ms:.0f} ms a token, first after {row.first_token_ms:.0f} ms, "
                f"{row.bytes_up:.0f} B up and {row.bytes_down:.0f} B down a token"
            )
    return {method: {delay: asdict(row) for delay, row in rows.items()} for method, rows in by_method.items()}


def _always(value: _Value, number: int) -> _Value:
    """Return the same value for every text."""
    return value
