# SPDX-License-Identifier: Apache-2.0
"""What the engine itself costs: rounds over ZeroMQ on loopback with models that take next to no time."""

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
"""Strategies of which each round is drafts, then a verification: what is left of it is the engine's.

A verdict that comes amid a pre-draft as short as these (`fsd`) waits for it, and that is not taken off. Of
the others the two run at once, so no more is taken off than the longer of them: the engine's is at most what
is left.
"""
TEXT_TOKENS = 200
SAMPLED = 1.0
"""A temperature at which schemes test distributions."""
TEXT_S = 600.0


@dataclass(frozen=True)
class Overhead:
    """Of a strategy's rounds: milliseconds beside the models' own (`WAITING`), and processor milliseconds at
    the edge, its made-up draft model included."""

    strategy: str
    rounds: int
    median_ms: float
    p90_ms: float
    edge_cpu_ms: float


def round_overheads_ms(text: Decoded, waits: bool) -> list[float]:
    """Of each round but the first, which begins with the prompt: its length but for the models'."""
    models_s = sum if waits else max
    return [
        (one.finished_s - one.started_s - models_s((one.draft_s, one.verify_s))) * 1e3
        for one in text.rounds[1:]
    ]


def measure_overhead(endpoint: str, strategy: str, texts: int, temperature: float = 0.0) -> Overhead:
    """Decode some texts over a running verifier."""
    cpu_s = time.process_time()
    decoded = _decode(endpoint, strategy, texts, temperature)
    cpu_s = time.process_time() - cpu_s
    rounds = sum(len(text.rounds) for text in decoded)
    waits = strategy in WAITING
    left_ms = [ms for text in decoded for ms in round_overheads_ms(text, waits)]
    return Overhead(
        strategy, rounds, statistics.median(left_ms), percentile(left_ms, 0.9), cpu_s / rounds * 1e3
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
    """The made-up target, which takes next to no time."""
    return VerifierService(synthetic_pair(SETTINGS)[0])


def bench_overhead(texts: int = 5) -> dict[str, Any]:
    """Returns the measured figures, for the JSON file."""
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
