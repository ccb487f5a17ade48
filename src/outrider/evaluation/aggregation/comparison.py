# SPDX-License-Identifier: Apache-2.0
"""DRAGON and its baselines under one set of conditions, on the virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log

from outrider.core.ports import LanguageModel
from outrider.core.values import Decoded, DecodeRequest, Prompt, Verified
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.aggregation.synthetic import AcceptanceTarget, certain_pair
from outrider.decoding.aggregation.virtual import AggregationStats, PeerWorld, VirtualPeers
from outrider.decoding.aggregation.worker import Context, Retrieve
from outrider.evaluation.aggregation.regimes import AggregationRegime

DEADLINE_S = 1e6
_JPEG = b"\xff\xd8"

METHODS: dict[str, AggregationConfig] = {
    "crcg": AggregationConfig("alone", temperature=1.0),
    "device": AggregationConfig("alone", temperature=1.0),
    "sequence": AggregationConfig("sequence", temperature=1.0),
    "token": AggregationConfig("token", "rejection", "device", temperature=1.0),
    "dragon-device": AggregationConfig(rule="rejection", aggregator="device", temperature=1.0),
    "dragon-cloud": AggregationConfig(rule="rejection", aggregator="cloud", temperature=1.0),
    "dragon-random": AggregationConfig(rule="rejection", aggregator="random", temperature=1.0),
    "dragon": AggregationConfig(rule="rejection", temperature=1.0),
    "coupled": AggregationConfig(rule="coupled", temperature=1.0),
}


@dataclass(frozen=True)
class LatencyFigures:
    """Means over texts. `token_ms`: from the end of the device's prefill to the last token, per token.

    Bytes are those of decoding, per final token. `switches`: moves of the aggregator per text.
    """

    token_ms: float
    first_token_ms: float
    bytes_up: float
    bytes_down: float
    device_acceptance: float
    cloud_acceptance: float
    switches: float


def weighted(log_relevance: float) -> Retrieve:
    """Return a retrieval of the plain question alone, with this relevance."""
    return lambda question: (Context(question, log_relevance),)


def share_documents(share: float) -> tuple[Retrieve, Retrieve]:
    """Return contexts of both sides that give the device this share of the mixture."""
    return weighted(log(max(share, 1e-9))), weighted(log(max(1.0 - share, 1e-9)))


def decode_texts(
    models: tuple[LanguageModel, LanguageModel],
    config: Callable[[int], AggregationConfig],
    world: Callable[[int], PeerWorld],
    requests: Sequence[DecodeRequest],
    share: float = 0.5,
) -> list[tuple[Decoded, float, AggregationStats]]:
    """Decode each text; return it with its time to the first token. `config` and `world` take its number."""
    results = []
    for number, request in enumerate(requests):
        first: list[Verified] = []
        peers = VirtualPeers(*models, config(number), world(number), *share_documents(share))
        decoded = peers.decode(request, first.append)
        results.append((decoded, first[0].elapsed_s, peers.stats))
    return results


def synthetic_requests(texts: int, num_tokens: int) -> list[DecodeRequest]:
    """Return requests for synthetic texts of one length."""
    return [DecodeRequest(Prompt(f"text {index}", _JPEG), num_tokens, DEADLINE_S) for index in range(texts)]


def measure(
    regime: AggregationRegime, method: str, extra_ms: float, delayed_links: str, texts: int, seed: int
) -> LatencyFigures:
    """Measure one method over synthetic texts of the paper's acceptance."""
    target = AcceptanceTarget(regime.acceptance, regime.acceptance)
    results = decode_texts(
        certain_pair(target, seed),
        lambda number: METHODS[method],
        lambda number: regime.world(
            extra_ms, delayed_links, seed + number, method == "crcg", method == "sequence"
        ),
        synthetic_requests(texts, regime.num_tokens),
        target.device_share,
    )
    return figures(results, regime.device_prefill_s)


def figures(results: Sequence[tuple[Decoded, float, AggregationStats]], prefill_s: float) -> LatencyFigures:
    """Return the means over texts, each given with the seconds to its first token.

    `token_ms` leaves out the prefill.
    """
    tokens = sum(len(decoded.token_ids) for decoded, _, _ in results)
    elapsed_s = sum(decoded.elapsed_s - prefill_s for decoded, _, _ in results)
    stats = [stat for _, _, stat in results]
    return LatencyFigures(
        token_ms=1e3 * elapsed_s / tokens,
        first_token_ms=1e3 * sum(first_s for _, first_s, _ in results) / len(results),
        bytes_up=sum(decoded.speculation.bytes_up for decoded, _, _ in results) / tokens,
        bytes_down=sum(decoded.speculation.bytes_down for decoded, _, _ in results) / tokens,
        device_acceptance=acceptance(stats, "device"),
        cloud_acceptance=acceptance(stats, "cloud"),
        switches=sum(stat.switches for stat in stats) / len(stats),
    )


def acceptance(stats: Sequence[AggregationStats], side: str) -> float:
    """Return the share of a side's drafts accepted, of those ready when their position was settled."""
    accepted = sum(count for stat in stats for name, count in stat.accepted.items() if name == side)
    rejected = sum(count for stat in stats for name, count in stat.rejected.items() if name == side)
    return accepted / (accepted + rejected) if accepted + rejected else 0.0


def compare(
    regime: AggregationRegime, delayed_links: str, texts: int, seed: int
) -> Mapping[str, tuple[LatencyFigures, ...]]:
    """Measure every method over the regime's extra delays."""
    return {
        method: tuple(
            measure(regime, method, extra_ms, delayed_links, texts, seed)
            for extra_ms in regime.extra_delays_ms
        )
        for method in METHODS
    }
