# SPDX-License-Identifier: Apache-2.0
"""`outrider bench hedging`: one verifier over one link against two over their own, on the virtual clock.

Links lose all frames in bursts, independently of each other; in the last rows verifiers are killed in turn.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.table import Table

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.core.link_profile import LinkProfile, Outage
from outrider.core.values import Verified
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.timeline import TimelineEvent
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.evaluation.common.rounding import rounded
from outrider.evaluation.common.tables import cells_of, print_results, results_table
from outrider.evaluation.decoding.comparison import (
    configuration,
    synthetic_models,
    synthetic_requests,
    world_of,
)
from outrider.evaluation.decoding.regimes import Regime, load_regimes
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.held_out import Pair

REGIMES = ("wifi6", "lte")
BURSTS: Mapping[str, tuple[float, float]] = {
    "0.3 s every 3 s": (0.3, 3.0),
    "0.3 s every 10 s": (0.3, 10.0),
    "1 s every 20 s": (1.0, 20.0),
    "none": (0.0, float("inf")),
}
TEXT_TOKENS, LINE_TOKENS = 24, 6
"""The tokens of a step's text, and of its first line, by which the robot moves."""
KILLS, KILL_EVERY_S, DOWN_S = 100, 2.5, 1.5
"""Kills come up to a second after their regular times, so never while the other verifier is down."""
MAX_TEXTS = 100_000
WORK = ("verify", "step")
STRATEGY = "outrider"


@dataclass(frozen=True)
class Written:
    """The cost of texts. `line_s`: seconds to the verified first line of each, sorted.

    `longest_wait_s`: the longest wait for verified tokens. `work_s`: the target's working time.
    """

    line_s: Sequence[float]
    longest_wait_s: float
    work_s: float
    prompts: int
    num_bytes: int
    hedged: int
    tokens: Sequence[tuple[int, ...]]

    def percentile_ms(self, share: float) -> float:
        """Return the time within which this share of the texts has a verified first line."""
        return 1e3 * self.line_s[min(len(self.line_s) - 1, int(share * len(self.line_s)))]


@dataclass(frozen=True)
class HedgedFigures:
    """One verifier against two: times to the verified first line, and ratios of two to one."""

    median_ms: float
    p99_ms: float
    hedged_median_ms: float
    hedged_p99_ms: float
    tail_gain: float
    work: float
    prompts: float
    num_bytes: float
    hedged_share: float
    stand_ms: float
    hedged_stand_ms: float
    same_texts: bool


def write_texts(pair: Pair, regime: Regime, worlds: Sequence[VirtualWorld], texts: int) -> Written:
    """Write `texts` texts one after the other on one clock, and more until the last outage is over."""
    config = replace(configuration(regime, STRATEGY), silence_s=2.0)
    work_s, prompts = 0.0, 0

    def observe(event: TimelineEvent) -> None:
        nonlocal work_s, prompts
        work_s += event.kind in WORK and event.end_s - event.start_s
        prompts += event.kind == "prefill_cloud"

    second = worlds[1] if len(worlds) > 1 else None
    decoder = VirtualDecoder(pair.target, pair.draft, config, worlds[0], observe, second=second)
    over_s = max((outage.end_s for world in worlds for outage in world.outages), default=0.0)
    lines: list[float] = []
    longest_wait_s, num_bytes = 0.0, 0
    written: list[tuple[int, ...]] = []
    for number, request in enumerate(synthetic_requests(MAX_TEXTS, TEXT_TOKENS)):
        if number >= texts and decoder.now_s >= over_s:
            break
        commits: list[tuple[float, int]] = []

        def record_commit(verified: Verified, commits: list[tuple[float, int]] = commits) -> None:
            commits.append((verified.elapsed_s, len(verified.token_ids)))

        decoded = decoder.decode(request, record_commit)
        lines.append(_line_s(commits))
        times = [0.0, *(at_s for at_s, _ in commits)]
        longest_wait_s = max(longest_wait_s, *(after - before for before, after in pairwise(times)))
        num_bytes += decoded.speculation.bytes_up + decoded.speculation.bytes_down
        written.append(decoded.token_ids)
    return Written(sorted(lines), longest_wait_s, work_s, prompts, num_bytes, decoder.num_hedged, written)


def _line_s(commits: Sequence[tuple[float, int]]) -> float:
    count = 0
    for at_s, tokens in commits:
        count += tokens
        if count >= LINE_TOKENS:
            return at_s
    return commits[-1][0]


def compare(single: Written, double: Written) -> HedgedFigures:
    """Return the figures of one verifier against two; work, prompts and bytes are compared per text."""
    share = len(single.line_s) / len(double.line_s)
    p99, hedged_p99 = single.percentile_ms(0.99), double.percentile_ms(0.99)
    return HedgedFigures(
        median_ms=single.percentile_ms(0.5),
        p99_ms=p99,
        hedged_median_ms=double.percentile_ms(0.5),
        hedged_p99_ms=hedged_p99,
        tail_gain=p99 / hedged_p99,
        work=double.work_s / single.work_s * share,
        prompts=double.prompts / single.prompts * share,
        num_bytes=double.num_bytes / single.num_bytes * share,
        hedged_share=double.hedged / len(double.line_s),
        stand_ms=1e3 * single.longest_wait_s,
        hedged_stand_ms=1e3 * double.longest_wait_s,
        same_texts=all(a == b for a, b in zip(single.tokens, double.tokens, strict=False)),
    )


def with_bursts(world: VirtualWorld, bursts: tuple[float, float]) -> VirtualWorld:
    """Return the world with bursts on both directions of its link.

    `bursts` are their mean length and distance in seconds.
    """

    def broken(link: LinkProfile) -> LinkProfile:
        return replace(link, burst_s=bursts[0], burst_every_s=bursts[1])

    return replace(world, uplink=broken(world.uplink), downlink=broken(world.downlink))


def with_kills(worlds: Sequence[VirtualWorld], kills: int, seed: int) -> list[VirtualWorld]:
    """Return the worlds with `kills` kills of their verifiers in all, in turn, each down for DOWN_S."""
    rng = random.Random(f"kills/{seed}")
    starts_s = [KILL_EVERY_S * (number + 1) + rng.random() for number in range(kills)]
    ends = [Outage(start_s, start_s + DOWN_S, verifier_restarts=True) for start_s in starts_s]
    return [replace(world, outages=tuple(ends[at :: len(worlds)])) for at, world in enumerate(worlds)]


def measure_hedging(regime: Regime, name: str, texts: int, seed: int) -> HedgedFigures:
    """Return what a second verifier gains under one kind of bursts."""
    pair = synthetic_models(regime, seed)
    world = with_bursts(world_of(regime, configuration(regime, STRATEGY).scheme, seed), BURSTS[name])
    return compare(write_texts(pair, regime, [world], texts), write_texts(pair, regime, [world] * 2, texts))


def measure_kills(regime: Regime, texts: int, seed: int, kills: int) -> HedgedFigures:
    """Return what a second verifier gains if verifiers are killed; a single one is killed as often."""
    pair = synthetic_models(regime, seed)
    world = world_of(regime, configuration(regime, STRATEGY).scheme, seed)
    single, hedged = with_kills([world], kills, seed), with_kills([world] * 2, kills, seed)
    return compare(write_texts(pair, regime, single, texts), write_texts(pair, regime, hedged, texts))


def bench_hedging(texts: int = 1000, seed: int = 0, json_file: Path | None = None) -> dict[str, Any]:
    """Measure under each of REGIMES and BURSTS, and through kills; print a table, write JSON as it goes.

    Raises ConfigError for numbers out of range.
    """
    if not 100 <= texts <= MAX_TEXTS or seed < 0:
        raise ConfigError(f"texts={texts} must be a number from 100 to {MAX_TEXTS}, seed at least 0")
    result: dict[str, Any] = {"texts": texts, "seed": seed, "kills": KILLS, "conditions": []}
    figures: dict[tuple[str, str], HedgedFigures] = {}
    regimes = load_regimes(REGIMES)
    runs = [(name, bursts) for name in regimes for bursts in (*BURSTS, "")]
    for name, bursts in tracked(runs, "conditions"):
        regime = regimes[name]
        row = (
            measure_hedging(regime, bursts, texts, seed)
            if bursts
            else measure_kills(regime, texts, seed, KILLS)
        )
        figures[name, bursts or f"{KILLS} kills"] = row
        result["conditions"].append({"link": name, "losses": bursts or f"{KILLS} kills", **asdict(row)})
        write_figures(json_file, rounded(result))
    print_results(hedging_table(figures))
    return result


COLUMNS: Mapping[str, Callable[[HedgedFigures], str]] = {
    "median: one / two": lambda one: f"{one.median_ms:.0f} / {one.hedged_median_ms:.0f}",
    "99th: one / two": lambda one: f"{one.p99_ms:.0f} / {one.hedged_p99_ms:.0f}",
    "tail gain": lambda one: f"{one.tail_gain:.1f}",
    "longest: one / two": lambda one: f"{one.stand_ms:.0f} / {one.hedged_stand_ms:.0f}",
    "work": lambda one: f"{one.work:.2f}",
    "prompts": lambda one: f"{one.prompts:.2f}",
    "bytes": lambda one: f"{one.num_bytes:.2f}",
    "hedged": lambda one: f"{one.hedged_share:.2f}",
    "same texts": lambda one: "yes" if one.same_texts else "NO",
}


def hedging_table(figures: Mapping[tuple[str, str], HedgedFigures]) -> Table:
    """Return a row for each condition."""
    rows = ((*names, *cells_of(COLUMNS, row)) for names, row in figures.items())
    return results_table("one verifier and two", "link", "losses", *COLUMNS, rows=rows)
