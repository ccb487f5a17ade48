# SPDX-License-Identifier: Apache-2.0
"""`outrider bench aggregation`: DRAGON, its baselines and the coupled rule under the paper's conditions.

On the virtual clock, with made-up texts of the paper's acceptance and with the shipped pair's own; beside
each figure stands the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import make_console, tracked
from outrider.core.link_profile import LinkProfile
from outrider.core.values import DecodeRequest
from outrider.decoding.aggregation.synthetic import AcceptanceTarget, certain_pair
from outrider.decoding.aggregation.virtual import PeerCompute, PeerWorld, VirtualPeers
from outrider.decoding.fakes.replay import ReplayModel
from outrider.evaluation.aggregation.comparison import (
    DEADLINE_S,
    MEANING,
    METHODS,
    LatencyFigures,
    compare,
    decode_texts,
    figures,
    share_documents,
    synthetic_requests,
)
from outrider.evaluation.aggregation.live import LiveAggregation, bench_live_aggregation
from outrider.evaluation.aggregation.question_corpus import GainFigures, measure_gain, measure_readers_gain
from outrider.evaluation.aggregation.regimes import (
    PLACES,
    AggregationRegime,
    frame_bytes,
    load_aggregation_regimes,
)
from outrider.evaluation.aggregation.row_sizes import zipf_row_bytes
from outrider.evaluation.common.plots import draw_ablation
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.held_out import Pair, held_out_prompts, load_pair, load_reader_model

SCHEDULED_TOKENS = 100
SCHEDULED_WINDOW = 10
"""Drafts ahead in the public simulation."""
SCHEDULED_DELAYS_MS = (0.0, 200.0, 400.0)
RATE_PAIRS = ((0.99, 0.99), (0.99, 0.49), (0.49, 0.99), (0.5, 0.5))
"""The device's and the cloud's acceptance. The public simulation draws each from 0.49 and 0.99; but of two
certain drafts one stands, so that both cannot be below a half."""
SCHEDULED_METHODS = ("dragon-device", "dragon-cloud", "dragon-random", "dragon")
PAIR_PROMPTS = 4
LARGE_VOCABULARY = 151_936
ZIPF_EXPONENTS = (1.4, 1.6, 1.8, 2.0)
LIVE_TEXTS = 2

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
    """Measure, print tables, write JSON and pictures. Raises ConfigError, or ModelError without models."""
    if texts < 1 or seed < 0:
        raise ConfigError("texts must be at least 1 and seed at least 0")
    regimes = load_aggregation_regimes(names)
    pair, reader, console = load_pair(models), load_reader_model(models), make_console()
    for method, meaning in MEANING.items():
        console.print(f"  {method:14} {meaning}", highlight=False)
    result: dict[str, Any] = {"texts": texts, "seed": seed, "regimes": {}}
    for name, regime in regimes.items():
        result["regimes"][name] = _measure_regime(console, name, regime, texts, seed, plots)
    result["scheduling"] = _measure_scheduling(console, next(iter(regimes.values())), texts, seed)
    result["pair"] = _measure_pair(console, pair, seed)
    result["distribution_bytes"] = _measure_rows(console)
    console.print("questions that need a document of each side, to a count model", highlight=False)
    result["gain"] = _tell_gain(console, measure_gain(seed))
    console.print("the like to the shipped reader", highlight=False)
    result["readers_gain"] = _tell_gain(console, measure_readers_gain(reader, seed))
    if live:
        result["live"] = _measure_live(console, next(iter(regimes)), seed)
    write_figures(json_file, result)
    return result


def _measure_regime(
    console: Console, name: str, regime: AggregationRegime, texts: int, seed: int, plots: Path | None
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for place, where in tracked(PLACES.items(), name):
        rows = compare(regime, place, texts, seed)
        summary = summarise(rows)
        _print_latencies(console, f"{name}, extra delay {where}", regime, rows, place == "server")
        _print_summary(console, rows, summary)
        result[place] = {"methods": {method: [asdict(one) for one in row] for method, row in rows.items()}}
        result[place]["summary"] = summary
        if plots is not None:
            curves = {method: [one.token_ms for one in row] for method, row in rows.items()}
            draw_ablation(
                plots / f"{name}_{place}.png",
                f"{name}: ms a token",
                f"extra delay (ms), {where}",
                regime.extra_delays_ms,
                curves,
            )
    for line in (*regime.derived, *regime.notes):
        console.print(f"  {line}", highlight=False)
    return result


def summarise(rows: Mapping[str, Sequence[LatencyFigures]]) -> dict[str, dict[str, float]]:
    """What section 7.3 tells of DRAGON, for both rules: reductions at the largest delay, means over all."""

    def mean_ms(method: str) -> float:
        return sum(one.token_ms for one in rows[method]) / len(rows[method])

    last = {method: row[-1].token_ms for method, row in rows.items()}
    return {
        method: {
            "below_sequence": 1.0 - last[method] / last["sequence"],
            "below_token": 1.0 - last[method] / last["token"],
            "over_device": mean_ms(method) / mean_ms("device") - 1.0,
            "over_crcg": mean_ms(method) / mean_ms("crcg") - 1.0,
            "bytes_a_token": max(one.bytes_up + one.bytes_down for one in rows[method]),
        }
        for method in ("dragon", "coupled")
    }


def _print_latencies(
    console: Console,
    title: str,
    regime: AggregationRegime,
    rows: Mapping[str, Sequence[LatencyFigures]],
    with_published: bool,
) -> None:
    table = Table(title=f"{title}: ms a token", box=SIMPLE_HEAD)
    table.add_column("method", no_wrap=True)
    for delay_ms in regime.extra_delays_ms:
        table.add_column(f"{delay_ms:g}", justify="right")
    for method, row in rows.items():
        table.add_row(method, *(f"{one.token_ms:.0f}" for one in row))
        published = getattr(regime.published, method, None)
        if with_published and published is not None:
            table.add_row("  paper", *(f"{value:.0f}" for value in published), style="dim")
    console.print(table)


def _print_summary(
    console: Console, rows: Mapping[str, Sequence[LatencyFigures]], summary: Mapping[str, Mapping[str, float]]
) -> None:
    firsts = ", ".join(
        f"{method} {rows[method][0].first_token_ms:.0f} to {rows[method][-1].first_token_ms:.0f}"
        for method in ("device", "sequence", "token", "dragon", "coupled")
    )
    console.print(f"  time to the first token, ms: {firsts}", highlight=False)
    for method, one in summary.items():
        console.print(
            f"  {method}: {one['below_sequence']:.1%} below sequence-wise, {one['below_token']:.1%} below "
            f"token-wise at the largest delay; on average {one['over_device']:+.1%} over the device alone, "
            f"{one['over_crcg']:+.1%} over one context; at most {one['bytes_a_token']:.0f} B a token",
            highlight=False,
        )


def _measure_scheduling(
    console: Console, regime: AggregationRegime, texts: int, seed: int
) -> list[dict[str, Any]]:
    """Section 7.4: time for 100 tokens, the delay swinging by a fifth over 20 pi seconds, each way."""
    table = Table(title=f"scheduling: seconds for {SCHEDULED_TOKENS} tokens", box=SIMPLE_HEAD)
    sides = (method.removeprefix("dragon-") for method in SCHEDULED_METHODS)
    for heading in ("one way, ms", "accepted", *sides, "over better"):
        table.add_column(heading, justify="right")
    rows = []
    cases = [(delay_ms, rates) for delay_ms in SCHEDULED_DELAYS_MS for rates in RATE_PAIRS]
    for delay_ms, rates in tracked(cases, "scheduling"):
        seconds = {
            method: scheduled_s(regime, method, rates, delay_ms / 1e3, texts, seed)
            for method in SCHEDULED_METHODS
        }
        excess = seconds["dragon"] / min(seconds["dragon-device"], seconds["dragon-cloud"]) - 1.0
        rows.append({"one_way_ms": delay_ms, "rates": rates, "seconds": seconds, "over_better": excess})
        times = (f"{value:.1f}" for value in seconds.values())
        table.add_row(f"{delay_ms:g}", f"{rates[0]:.2f}/{rates[1]:.2f}", *times, f"{excess:+.1%}")
    console.print(table)
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
    """The mean time of a text when device and cloud are accepted with these rates, one text after another."""
    target = AcceptanceTarget(*rates)
    config = replace(METHODS[method], window=SCHEDULED_WINDOW)
    world = _swinging_world(regime, delay_s, seed)
    peers = VirtualPeers(*certain_pair(target, seed), config, world, *share_documents(target.device_share))
    requests = synthetic_requests(texts, num_tokens)
    return sum(peers.decode(request).elapsed_s for request in requests) / texts


def _swinging_world(regime: AggregationRegime, delay_s: float, seed: int) -> PeerWorld:
    """The public simulation's link: 2 ms, up to 6 ms more at random, and the swinging extra delay."""
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


def _measure_pair(console: Console, pair: Pair, seed: int) -> dict[str, Any]:
    """The shipped pair as two peers at temperature 1: acceptance and bytes of real distributions."""
    peers = ReplayModel(pair.draft), ReplayModel(pair.target)
    requests = [DecodeRequest(prompt, 60, DEADLINE_S) for prompt in held_out_prompts(PAIR_PROMPTS, seed)]
    link = LinkProfile(0.05, 0.02)
    world = PeerWorld(frame_bytes, PeerCompute(0.0, 0.02), PeerCompute(0.0, 0.02), link, link)
    result = {}
    for rule, name in (("rejection", "dragon"), ("coupled", "coupled")):
        config = replace(METHODS[name], seed=seed)
        row = figures(decode_texts(peers, partial(_always, config), partial(_always, world), requests), 0.0)
        result[rule] = asdict(row)
        console.print(
            f"  shipped draft and target as peers, {rule}: drafts of device and cloud stand "
            f"{row.device_acceptance:.2f} and {row.cloud_acceptance:.2f}, {row.token_ms:.0f} ms a token at "
            f"50 ms one way, {row.bytes_up:.0f} B up and {row.bytes_down:.0f} B down a token",
            highlight=False,
        )
    return result


def _measure_rows(console: Console) -> list[dict[str, float]]:
    """What `rejection` adds to a draft: the paper gives less than 0.5 KB of its own compression."""
    rows = []
    for exponent in ZIPF_EXPONENTS:
        perplexity, num_bytes = zipf_row_bytes(LARGE_VOCABULARY, exponent)
        rows.append({"perplexity": perplexity, "bytes": num_bytes})
        console.print(
            f"  a distribution over {LARGE_VOCABULARY} tokens with perplexity {perplexity:.0f}: "
            f"{num_bytes:.0f} B",
            highlight=False,
        )
    return rows


def _tell_gain(console: Console, rows: Mapping[str, GainFigures]) -> dict[str, Any]:
    """By whose documents are at hand (`aggregation_gain`)."""
    for name, row in rows.items():
        console.print(
            f"  documents of {name}: {row.exact_match:.2f} of the answers right, perplexity of the right "
            f"ones {row.perplexity:.2f}",
            highlight=False,
        )
    return {name: asdict(row) for name, row in rows.items()}


def _measure_live(console: Console, name: str, seed: int) -> dict[str, Any]:
    """Real sockets and an emulated link, the delay each way; the machines' pace is kept by waiting."""
    console.print(f"{name}, live over sockets, the extra delay each way", highlight=False)

    def tell(method: str, delay_ms: float, row: LiveAggregation) -> None:
        console.print(
            f"  {method:9} {delay_ms:3.0f} ms: {row.token_ms:4.0f} ms a token, first after "
            f"{row.first_token_ms:.0f} ms, {row.bytes_up:.0f} B up and {row.bytes_down:.0f} B down a token",
            highlight=False,
        )

    rows = bench_live_aggregation(name, LIVE_TEXTS, seed, tell)
    return {method: {delay: asdict(one) for delay, one in row.items()} for method, row in rows.items()}


def _always(value: _Value, number: int) -> _Value:
    """The same for every text."""
    return value
