# SPDX-License-Identifier: Apache-2.0
"""The engine's own cost: rounds over ZeroMQ on loopback, with models that take next to no time."""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any

from outrider.core.values import Decoded, DecodeRequest, Prompt
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.fakes.synthetic import SyntheticSettings, synthetic_pair
from outrider.evaluation.common.intervals import percentile
from outrider.runtime.wiring.decoders import connect_decoder
from outrider.runtime.wiring.verifier_process import verifier_process

SETTINGS = SyntheticSettings(confidence=0.75, exit_agreement=(0.4, 0.6, 0.8))
WAITING = ("sd", "dssd", "fsd")
"""Strategies whose rounds are drafts, then a verification: the rest of such a round is the engine's.

A verdict that comes during a pre-draft as short as these (`fsd`) waits for it; that time is not subtracted.
In the other strategies drafts and verification overlap, so only the longer of the two is subtracted: the
engine takes at most the rest.
"""
TEXT_TOKENS = 200
SAMPLED = 1.0
"""A temperature at which schemes test distributions."""
TEXT_S = 600.0


@dataclass(frozen=True)
class Overhead:
    """The engine's share of a strategy's rounds, in milliseconds, without the models' time (`WAITING`).

    `edge_cpu_ms`: processor milliseconds per round at the edge, its synthetic draft model included.
    """

    strategy: str
    rounds: int
    median_ms: float
    p90_ms: float
    edge_cpu_ms: float


def round_overheads_ms(text: Decoded, waits: bool) -> list[float]:
    """Return, for each round but the first, its length in ms without the models' time.

    The first round begins with the prompt.
    """
    models_s = sum if waits else max
    return [
        (
            round_stats.finished_s
            - round_stats.started_s
            - models_s((round_stats.draft_s, round_stats.verify_s))
        )
        * 1e3
        for round_stats in text.rounds[1:]
    ]


def measure_overhead(endpoint: str, strategy: str, texts: int, temperature: float = 0.0) -> Overhead:
    """Decode some texts over a running verifier; return the overhead."""
    cpu_s = time.process_time()
    decoded = _decode(endpoint, strategy, texts, temperature)
    cpu_s = time.process_time() - cpu_s
    rounds = sum(len(text.rounds) for text in decoded)
    waits = strategy in WAITING
    overheads_ms = [ms for text in decoded for ms in round_overheads_ms(text, waits)]
    return Overhead(
        strategy, rounds, statistics.median(overheads_ms), percentile(overheads_ms, 0.9), cpu_s / rounds * 1e3
    )


def _decode(endpoint: str, strategy: str, texts: int, temperature: float = 0.0) -> list[Decoded]:
    target, draft = synthetic_pair(SETTINGS)
    config = DecodingConfig(strategy=strategy, temperature=temperature)
    decoder = connect_decoder(
        endpoint, draft if config.needs_model else None, config, tokenizer=target.tokenizer
    )
    try:
        prompts = [Prompt(f"text {index}", b"\xff\xd8") for index in range(texts)]
        return [decoder.decode(DecodeRequest(prompt, TEXT_TOKENS, TEXT_S)) for prompt in prompts]
    finally:
        decoder.close()


def synthetic_service() -> VerifierService:
    """Return a verifier of the synthetic target, which takes next to no time."""
    return VerifierService(synthetic_pair(SETTINGS)[0])


def bench_overhead(texts: int = 5) -> dict[str, Any]:
    """Return the measured figures, for the JSON file."""
    started_s = time.monotonic()
    with verifier_process(synthetic_service) as endpoint:
        rows = {
            temperature: [
                measure_overhead(endpoint, strategy, texts, temperature)
                for strategy in STRATEGIES
                if strategy != "ar"
            ]
            for temperature in (0.0, SAMPLED)
        }
    return {
        "strategies": {row.strategy: asdict(row) for row in rows[0.0]},
        "sampled": {row.strategy: asdict(row) for row in rows[SAMPLED]},
        "seconds": time.monotonic() - started_s,
    }
