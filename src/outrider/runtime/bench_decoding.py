"""`outrider bench decoding`: every strategy under the conditions of the papers, on the virtual clock.

Synthetic texts have the paper's acceptance length and cache misses; replayed ones are those of the shipped
pair. Beside each figure stand the paper's own formula and the speed that it measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

from outrider.core.errors import ConfigError
from outrider.core.frames import Frame, Open
from outrider.core.ports import LanguageModel
from outrider.core.values import Decoded, DecodeRequest, Prompt
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.replay import ReplayModel
from outrider.decoding.synthetic import SyntheticSettings, draft_confidence, exit_agreement, synthetic_pair
from outrider.decoding.theory import (
    limit_tokens_per_s,
    round_dsd_s,
    round_dssd_s,
    round_fsd_s,
    round_picospec_s,
)
from outrider.decoding.virtual import VirtualDecoder, VirtualWorld
from outrider.runtime.bench_plots import draw_speedups
from outrider.runtime.held_out import Pair, held_out_prompts, load_pair
from outrider.runtime.regimes import Regime, load_regimes
from outrider.wire.codec import encode, wire_bytes

TEXT_TOKENS = 200
"""As in FSD, section 4."""
SECOND_CHOICE = 0.5
REPLAYED_FRAMES = 20
DEADLINE_S = 1e6
ROUND_TRIPS_MS = (0.0, 25.0, 50.0, 100.0, 150.0, 200.0, 300.0, 400.0, 500.0, 600.0)
SWEEP_TEXTS = 3
_JPEG = b"\xff\xd8"


@dataclass(frozen=True)
class Figures:
    """One strategy in one regime. Speeds leave out the prompt; None is what does not apply or is not known.

    `fraction_of_limit` is of tokens per round / max(verification, drafts of a round). `formula` is the
    paper's, at the regime's acceptance and misses; `paper_speedup` what the paper measured.
    """

    tokens_per_s: float
    speedup_vs_ar: float
    tokens_per_round: float
    cache_miss_rate: float | None
    avg_exit: float | None
    target_passes_per_token: float
    bytes_up_per_token: float
    bytes_down_per_token: float
    fraction_of_limit: float
    formula_tokens_per_s: float | None
    ratio_to_formula: float | None
    paper_speedup: float | None


def formula_round_s(regime: Regime, strategy: str) -> float | None:
    """A round by the formula of the strategy's own paper; None where there is none."""
    draft_s, verify_s, round_trip_s = regime.draft_s, regime.verify_s, regime.round_trip_s
    rate, drafts = regime.rate, regime.num_draft_tokens
    uplink_s = regime.distribution_up_s()
    if strategy == "sd":
        return round_dsd_s(draft_s, verify_s, round_trip_s, uplink_s)
    if strategy == "fsd":
        one_way_s = (round_trip_s + uplink_s) / 2.0
        return round_fsd_s(draft_s, verify_s, one_way_s, regime.exits.miss_rate, 0.0)
    if strategy == "dssd":
        return round_dssd_s(draft_s, verify_s, round_trip_s, regime.distribution_down_s(), rate, drafts)
    if strategy == "picospec":
        return round_picospec_s(draft_s, verify_s, round_trip_s, rate, drafts)
    return None


def formula_tokens_per_s(regime: Regime, strategy: str) -> float | None:
    """By the paper's formula; for `ar` one token a step."""
    if strategy == "ar":
        return 1.0 / regime.step_s
    round_s = formula_round_s(regime, strategy)
    return None if round_s is None else regime.expected_tokens / round_s


def limit_of(regime: Regime, strategy: str) -> float:
    """Tokens per second of the slower machine alone."""
    if strategy == "ar":
        return 1.0 / regime.step_s
    return limit_tokens_per_s(regime.expected_tokens, regime.draft_s, regime.verify_s)


def synthetic_models(regime: Regime, seed: int) -> Pair:
    """A made-up pair with the regime's acceptance and exits."""
    rate, exits = regime.rate, regime.exits
    confidence = draft_confidence(rate, SECOND_CHOICE, sampled=regime.temperature > 0.0)
    chances = exit_agreement(rate, regime.num_draft_tokens, exits.number, exits.miss_rate, exits.average)
    return Pair(*synthetic_pair(SyntheticSettings(seed, confidence, SECOND_CHOICE, chances)))


def synthetic_requests(texts: int, tokens: int = TEXT_TOKENS) -> list[DecodeRequest]:
    return [DecodeRequest(Prompt(f"text {index}", _JPEG), tokens, DEADLINE_S) for index in range(texts)]


def replayed_requests(frames: int, seed: int) -> list[DecodeRequest]:
    return [DecodeRequest(prompt, deadline_s=DEADLINE_S) for prompt in held_out_prompts(frames, seed)]


def size_of(frame: Frame) -> int:
    """Bytes on the wire; those of the prompt are left out."""
    return 0 if isinstance(frame, Open) else wire_bytes(encode(frame))


def configuration(regime: Regime, strategy: str) -> DecodingConfig:
    """The regime's sizes."""
    return DecodingConfig(strategy=strategy, num_draft_tokens=regime.num_draft_tokens, silence_s=DEADLINE_S)


def decode_all(
    regime: Regime, config: DecodingConfig, pair: Pair, requests: Iterable[DecodeRequest], seed: int
) -> list[Decoded]:
    """Every text with one strategy, one after the other on one clock."""
    uplink, downlink = regime.directions()
    world = VirtualWorld(size_of, regime.compute(), uplink, downlink, seed=seed)
    draft: LanguageModel | None = pair.draft if config.plan.drafts else None
    decoder = VirtualDecoder(pair.target, draft, config, world)
    return [decoder.decode(request) for request in requests]


def figures_of(
    regime: Regime, strategy: str, texts: Sequence[Decoded], ar_tokens_per_s: float | None
) -> Figures:
    """`ar_tokens_per_s`: of the same run; None where this is it."""
    tokens = sum(len(text.token_ids) for text in texts)
    rounds = [one for text in texts for one in text.rounds]
    tokens_per_s = tokens / sum(text.elapsed_s for text in texts)
    formula = formula_tokens_per_s(regime, strategy)
    return Figures(
        tokens_per_s=tokens_per_s,
        speedup_vs_ar=tokens_per_s / (ar_tokens_per_s or tokens_per_s),
        tokens_per_round=sum(one.emitted for one in rounds) / len(rounds),
        cache_miss_rate=None,
        avg_exit=None,
        target_passes_per_token=sum(text.target_passes for text in texts) / tokens,
        bytes_up_per_token=sum(one.bytes_up for one in rounds) / tokens,
        bytes_down_per_token=sum(one.bytes_down for one in rounds) / tokens,
        fraction_of_limit=tokens_per_s / limit_of(regime, strategy),
        formula_tokens_per_s=formula,
        ratio_to_formula=None if formula is None else tokens_per_s / formula,
        paper_speedup=regime.measured.get(strategy),
    )


def measure_regime(
    regime: Regime, pair: Pair, requests: Sequence[DecodeRequest], seed: int
) -> dict[str, Figures]:
    """All strategies, `ar` first, on the same texts."""
    figures: dict[str, Figures] = {}
    for strategy in STRATEGIES:
        texts = decode_all(regime, configuration(regime, strategy), pair, requests, seed)
        ar_tokens_per_s = figures["ar"].tokens_per_s if figures else None
        figures[strategy] = figures_of(regime, strategy, texts, ar_tokens_per_s)
    return figures


def bench_decoding(
    names: Sequence[str] = (),
    texts: int = 20,
    seed: int = 0,
    models: Path | None = None,
    json_file: Path | None = None,
    plots: Path | None = None,
    pair: Pair | None = None,
) -> dict[str, Any]:
    """Measure, print tables, write JSON and pictures.

    Raises ConfigError for an unknown regime or for pictures without matplotlib, ModelError without models.
    """
    if texts < 1 or seed < 0:
        raise ConfigError("texts must be at least 1 and seed at least 0")
    regimes = load_regimes(names)
    pair = pair or load_pair(models)
    replayed = Pair(ReplayModel(pair.target), ReplayModel(pair.draft))
    frames = replayed_requests(REPLAYED_FRAMES, seed)
    result: dict[str, Any] = {"texts": texts, "seed": seed, "regimes": {}, "replayed": {}}
    console = Console()
    console.print(LEGEND, highlight=False)
    for name, regime in track(regimes.items(), "regimes", console=Console(stderr=True)):
        made_up = measure_regime(regime, synthetic_models(regime, seed), synthetic_requests(texts), seed)
        own = measure_regime(regime, replayed, frames, seed)
        result["regimes"][name] = {strategy: asdict(row) for strategy, row in made_up.items()}
        result["replayed"][name] = {strategy: asdict(row) for strategy, row in own.items()}
        print_regime(console, name, regime, made_up, own)
        if plots is not None:
            result.setdefault("round_trips", {})[name] = draw_round_trips(plots, name, regime, seed)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(result, indent=1) + "\n")
    return result


def round_trip_speedups(regime: Regime, round_trips_ms: Sequence[float], seed: int) -> dict[str, list[float]]:
    """The speed-up of every strategy as the network alone changes."""
    speedups: dict[str, list[float]] = {strategy: [] for strategy in STRATEGIES}
    for round_trip_ms in round_trips_ms:
        there = regime.at_round_trip(round_trip_ms)
        figures = measure_regime(there, synthetic_models(there, seed), synthetic_requests(SWEEP_TEXTS), seed)
        for strategy, row in figures.items():
            speedups[strategy].append(row.speedup_vs_ar)
    return speedups


def draw_round_trips(folder: Path, name: str, regime: Regime, seed: int) -> dict[str, Any]:
    """The picture of `round_trip_speedups`, and its figures."""
    speedups = round_trip_speedups(regime, ROUND_TRIPS_MS, seed)
    draw_speedups(folder / f"{name}_round_trips.png", name, ROUND_TRIPS_MS, speedups)
    return {"round_trips_ms": ROUND_TRIPS_MS, "speedup_vs_ar": speedups}


def print_regime(
    console: Console, name: str, regime: Regime, made_up: dict[str, Figures], own: dict[str, Figures]
) -> None:
    """Two tables, and what is to be known about the paper's numbers."""
    console.print(f"\n[bold]{name}[/bold]: {regime.source}", highlight=False)
    console.print(_table("synthetic, at the paper's acceptance and misses", made_up))
    console.print(_table("replayed, the shipped pair's texts", own))
    for note in (*regime.derived, *regime.notes):
        console.print(f"  - {note}", highlight=False, markup=False)


LEGEND = """tok/s and its ratio to ar's; tau: tokens a round; misses of the pre-draft cache; first exit that
foretold the outcome; target passes and bytes up and down per token; share of the limit,
tau / max(verify, drafts); tok/s by the paper's formula, our ratio to that; what the paper measured."""
_COLUMNS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("tok/s", lambda row: f"{row.tokens_per_s:.2f}"),
    ("vs ar", lambda row: f"{row.speedup_vs_ar:.2f}x"),
    ("tau", lambda row: f"{row.tokens_per_round:.2f}"),
    ("miss", lambda row: _optional(row.cache_miss_rate, "{:.0%}")),
    ("exit", lambda row: _optional(row.avg_exit, "{:.1f}")),
    ("pass", lambda row: f"{row.target_passes_per_token:.2f}"),
    ("up", lambda row: f"{row.bytes_up_per_token:.0f}"),
    ("down", lambda row: f"{row.bytes_down_per_token:.0f}"),
    ("limit", lambda row: f"{row.fraction_of_limit:.2f}"),
    ("model", lambda row: _optional(row.formula_tokens_per_s, "{:.2f}")),
    ("ratio", lambda row: _optional(row.ratio_to_formula, "{:.2f}")),
    ("paper", lambda row: _optional(row.paper_speedup, "{:.2f}x")),
)


def _table(title: str, figures: dict[str, Figures]) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
        padding=(0, 1, 0, 0),
    )
    table.add_column("")
    for heading, _ in _COLUMNS:
        table.add_column(heading, justify="right")
    for strategy, row in figures.items():
        table.add_row(strategy, *(text(row) for _, text in _COLUMNS))
    return table


def _optional(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
