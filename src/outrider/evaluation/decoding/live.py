# SPDX-License-Identifier: Apache-2.0
"""The shipped pair over real sockets: a verifier in another process, models paced and the link emulated.

The same texts are decoded on the virtual clock too, to compare the order of the strategies.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from outrider.core.files.terminal import tracked
from outrider.core.link_profile import Network
from outrider.core.values import Decoded, DecodeRequest, Prompt, Verified
from outrider.decoding.config import STRATEGIES
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.evaluation.common.paced_models import PacedDecoder, PacedService
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.decoding.comparison import configuration, replayed, world_of
from outrider.evaluation.decoding.regimes import Regime, load_regimes
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.held_out import Pair, held_out_prompts, load_pair
from outrider.runtime.wiring.verifier_process import verifier_process
from outrider.wire.client import DealerLink
from outrider.wire.emulator import EmulatedLink

TEXT_S = 600.0
FRAMES = 3
ALIKE = 0.05
"""Strategies whose speeds on the clock differ by less, as a share of the faster, have no order there."""
HEADINGS = (
    *("conditions", "strategy", "tokens/s", "over ar", "on the clock", "tokens a round"),
    *("bytes up, down", "late"),
)


@dataclass(frozen=True)
class LiveFigures:
    """One strategy over sockets. The speed is that from the first verified tokens to the last.

    `clock_tokens_per_s`: the speed of the same texts on the virtual clock. `late_share`: the share of the
    time for which the robot's machine was too slow for the draft model that it simulates.
    """

    tokens_per_s: float
    clock_tokens_per_s: float
    tokens_per_round: float
    bytes_up_per_token: float
    bytes_down_per_token: float
    late_share: float


class Stopwatch:
    """Counts verified tokens and the time that they took, text after text."""

    def __init__(self) -> None:
        self.tokens = 0
        self.elapsed_s = 0.0
        self._first: Verified | None = None
        self._last: Verified | None = None

    def on_verified(self, verified: Verified) -> None:
        """Counts the tokens that have become final, but for the first ones of a text."""
        if self._first is None:
            self._first = verified
        else:
            self.tokens += len(verified.token_ids)
        self._last = verified

    def end_text(self) -> None:
        """Adds the time of the text from its first final token to its last."""
        if self._first is not None and self._last is not None:
            self.elapsed_s += self._last.elapsed_s - self._first.elapsed_s
        self._first = self._last = None

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second over all texts; 0 before the first text has ended."""
        return self.tokens / self.elapsed_s if self.elapsed_s > 0.0 else 0.0


def measure_live(
    endpoint: str, regime: Regime, strategy: str, pair: Pair, clock_pair: Pair, prompts: Sequence[Prompt]
) -> LiveFigures:
    """Decode all prompts with one strategy: in real time with `pair`, on the clock with `clock_pair`."""
    link = EmulatedLink(DealerLink(endpoint), Network("regime", *regime.directions()))
    config = configuration(regime, strategy)
    decoder = PacedDecoder(link, pair.draft, config, regime.compute(), f"the verifier at {endpoint}")
    try:
        speed, texts = _decoded(decoder, prompts)
    finally:
        decoder.close()
    tokens = sum(len(text.token_ids) for text in texts)
    rounds = [round_stats for text in texts for round_stats in text.rounds]
    return LiveFigures(
        tokens_per_s=speed,
        clock_tokens_per_s=_on_the_clock(regime, strategy, clock_pair, prompts),
        tokens_per_round=sum(round_stats.emitted for round_stats in rounds) / len(rounds),
        bytes_up_per_token=sum(text.speculation.bytes_up for text in texts) / tokens,
        bytes_down_per_token=sum(text.speculation.bytes_down for text in texts) / tokens,
        late_share=decoder.pacer.late_s / sum(text.elapsed_s for text in texts),
    )


def _on_the_clock(regime: Regime, strategy: str, pair: Pair, prompts: Sequence[Prompt]) -> float:
    """Return the tokens per second of the same texts on the virtual clock."""
    config = configuration(regime, strategy)
    draft = pair.draft if config.needs_model else None
    world = world_of(regime, config.scheme, seed=0)
    return _decoded(VirtualDecoder(pair.target, draft, config, world), prompts)[0]


def _decoded(
    decoder: PacedDecoder | VirtualDecoder, prompts: Sequence[Prompt]
) -> tuple[float, list[Decoded]]:
    """Decode all texts; return their tokens per second, and the texts."""
    watch, texts = Stopwatch(), []
    for prompt in prompts:
        texts.append(decoder.decode(DecodeRequest(prompt, deadline_s=TEXT_S), watch.on_verified))
        watch.end_text()
    return watch.tokens_per_s, texts


def in_order(rows: Mapping[str, LiveFigures]) -> tuple[int, int]:
    """Return how many pairs of strategies keep their order on the clock in real time, and of how many.

    Pairs less than `ALIKE` apart on the clock have no order there.
    """
    pairs = [
        (first, second) if first.clock_tokens_per_s > second.clock_tokens_per_s else (second, first)
        for first, second in itertools.combinations(rows.values(), 2)
    ]
    ordered = [
        (fast, slow)
        for fast, slow in pairs
        if slow.clock_tokens_per_s < (1.0 - ALIKE) * fast.clock_tokens_per_s
    ]
    return sum(fast.tokens_per_s > slow.tokens_per_s for fast, slow in ordered), len(ordered)


def paced_service(regime_name: str, models: Path | None) -> PacedService:
    """Return the real target at the regime's pace."""
    compute = load_regimes([regime_name])[regime_name].compute()
    return PacedService(load_pair(models).target, compute)


def bench_live(
    names: Sequence[str], seed: int, models: Path | None, json_file: Path | None
) -> dict[str, Any]:
    """Measure every strategy in every regime in real time; print a table, write JSON.

    Raises ConfigError for an unknown regime, ModelError without models.
    """
    regimes, pair = load_regimes(names), load_pair(models)
    clock_pair = replayed(pair)
    prompts = list(held_out_prompts(FRAMES, seed))
    table = results_table(f"in real time over sockets, {len(prompts)} texts", *HEADINGS)
    result: dict[str, Any] = {"texts": len(prompts), "seed": seed, "in_order": 0, "pairs": 0, "regimes": {}}
    for name, regime in regimes.items():
        table.add_section()
        with verifier_process(paced_service, name, models) as endpoint:
            rows = {
                strategy: measure_live(endpoint, regime, strategy, pair, clock_pair, prompts)
                for strategy in tracked(STRATEGIES, f"{name}, in real time")
            }
        for strategy, row in rows.items():
            table.add_row(name, strategy, *_cells(row, rows["ar"]))
        num_in_order, ordered = in_order(rows)
        result["in_order"] += num_in_order
        result["pairs"] += ordered
        result["regimes"][name] = {strategy: asdict(row) for strategy, row in rows.items()}
        write_figures(json_file, result)
    print_results(
        table,
        f"{result['in_order']} of {result['pairs']} pairs of strategies are in the order that they "
        f"have on the clock (those less than {ALIKE:.0%} apart there left out)",
    )
    return result


def _cells(row: LiveFigures, alone: LiveFigures) -> tuple[str, ...]:
    return (
        f"{row.tokens_per_s:.2f}",
        f"{row.tokens_per_s / alone.tokens_per_s:.2f}",
        f"{row.clock_tokens_per_s / alone.clock_tokens_per_s:.2f}",
        f"{row.tokens_per_round:.2f}",
        f"{row.bytes_up_per_token:.0f}, {row.bytes_down_per_token:.0f}",
        f"{row.late_share:.1%}",
    )
