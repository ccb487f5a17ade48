# SPDX-License-Identifier: Apache-2.0
"""The shipped pair over real sockets: a verifier in another process, models paced and the link emulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from outrider.core.files.terminal import tracked
from outrider.core.link_profile import Network
from outrider.core.values import Decoded, DecodeRequest, Prompt, Verified
from outrider.decoding.config import STRATEGIES
from outrider.evaluation.common.paced_models import PacedDecoder, PacedService
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.decoding.comparison import configuration
from outrider.evaluation.decoding.regimes import Regime, load_regimes
from outrider.runtime.datasets.held_out import Pair, load_pair
from outrider.runtime.wiring.verifier_process import verifier_process
from outrider.wire.client import DealerLink
from outrider.wire.emulator import EmulatedLink

TEXT_S = 600.0
HEADINGS = ("conditions", "strategy", "tokens/s", "over ar", "tokens a round", "bytes up, down", "late")


@dataclass(frozen=True)
class LiveFigures:
    """One strategy over sockets. The speed is that between the first verified tokens and the last.

    `late_share`: how much of the time the edge's machine was too slow for the draft it stood for.
    """

    tokens_per_s: float
    speedup_vs_ar: float
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
        """Counts the tokens that have become final."""
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
        """Returns tokens per second over all texts; 0 before the first text has ended."""
        return self.tokens / self.elapsed_s if self.elapsed_s > 0.0 else 0.0


def measure_live(
    endpoint: str,
    regime: Regime,
    strategy: str,
    pair: Pair,
    prompts: Sequence[Prompt],
    ar_speed: float | None,
) -> LiveFigures:
    """Decode all prompts with one strategy; `ar_speed` is None where this is `ar`."""
    link = EmulatedLink(DealerLink(endpoint), Network("regime", *regime.directions()))
    config = configuration(regime, strategy)
    decoder = PacedDecoder(link, pair.draft, config, regime.compute(), f"the verifier at {endpoint}")
    watch, texts = Stopwatch(), []
    try:
        for prompt in prompts:
            texts.append(decoder.decode(DecodeRequest(prompt, deadline_s=TEXT_S), watch.on_verified))
            watch.end_text()
    finally:
        decoder.close()
    return _figures(watch, texts, decoder.pacer.late_s, ar_speed)


def _figures(
    watch: Stopwatch, texts: Sequence[Decoded], late_s: float, ar_speed: float | None
) -> LiveFigures:
    tokens = sum(len(text.token_ids) for text in texts)
    rounds = [one for text in texts for one in text.rounds]
    return LiveFigures(
        tokens_per_s=watch.tokens_per_s,
        speedup_vs_ar=watch.tokens_per_s / (ar_speed or watch.tokens_per_s),
        tokens_per_round=sum(one.emitted for one in rounds) / len(rounds),
        bytes_up_per_token=sum(text.speculation.bytes_up for text in texts) / tokens,
        bytes_down_per_token=sum(text.speculation.bytes_down for text in texts) / tokens,
        late_share=late_s / sum(text.elapsed_s for text in texts),
    )


def paced_service(regime_name: str, models: Path | None) -> PacedService:
    """The real target at the regime's pace."""
    compute = load_regimes([regime_name])[regime_name].compute()
    return PacedService(load_pair(models).target, compute)


def bench_live(
    regimes: Sequence[str], prompts: Sequence[Prompt], pair: Pair, models: Path | None
) -> dict[str, Any]:
    """Every strategy in every regime in real time; prints a table."""
    table = results_table(f"in real time over sockets, {len(prompts)} texts", *HEADINGS)
    result: dict[str, Any] = {}
    for name in regimes:
        regime = load_regimes([name])[name]
        rows: dict[str, LiveFigures] = {}
        table.add_section()
        with verifier_process(paced_service, name, models) as endpoint:
            for strategy in tracked(STRATEGIES, f"{name}, in real time"):
                ar_speed = rows["ar"].tokens_per_s if rows else None
                row = measure_live(endpoint, regime, strategy, pair, prompts, ar_speed)
                rows[strategy] = row
                table.add_row(name, strategy, *_cells(row))
        result[name] = {strategy: asdict(row) for strategy, row in rows.items()}
    print_results(table)
    return result


def _cells(row: LiveFigures) -> tuple[str, ...]:
    return (
        f"{row.tokens_per_s:.2f}",
        f"{row.speedup_vs_ar:.2f}",
        f"{row.tokens_per_round:.2f}",
        f"{row.bytes_up_per_token:.0f}, {row.bytes_down_per_token:.0f}",
        f"{row.late_share:.1%}",
    )
