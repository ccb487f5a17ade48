# SPDX-License-Identifier: Apache-2.0
"""Two peers over real sockets: the cloud in another process, both at the pace of the paper's machines."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from outrider.core.link_profile import Network
from outrider.core.ports import FrameLink, LanguageModel
from outrider.core.values import Verified
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.aggregation.driver import PeerDecoder
from outrider.decoding.aggregation.service import AggregationService, JobResult, Predict, ServiceJob
from outrider.decoding.aggregation.synthetic import AcceptanceTarget, certain_pair
from outrider.decoding.aggregation.virtual import PeerCompute
from outrider.decoding.aggregation.worker import Retrieve
from outrider.decoding.cloud.machine import Reply
from outrider.evaluation.aggregation.comparison import METHODS, share_documents, synthetic_requests
from outrider.evaluation.aggregation.regimes import AggregationRegime, load_aggregation_regimes
from outrider.runtime.wiring.verifier_process import verifier_process
from outrider.wire.client import DealerLink
from outrider.wire.emulator import EmulatedLink

LIVE_METHODS = ("device", "token", "dragon", "coupled")
LIVE_DELAYS_MS = (0.0, 100.0, 300.0)


@dataclass(frozen=True)
class LiveAggregation:
    """Means over texts, as in `LatencyFigures`."""

    token_ms: float
    first_token_ms: float
    bytes_up: float
    bytes_down: float


class PacedPeerDecoder(PeerDecoder):
    """A PeerDecoder whose forwards take a computer's time; it does not wait for obsolete ones."""

    def __init__(
        self,
        link: FrameLink,
        model: LanguageModel,
        config: AggregationConfig,
        documents: Retrieve,
        compute: PeerCompute,
        where: str,
    ) -> None:
        super().__init__(link, model, config, documents, 1, where)
        self._compute = compute

    def _ready_s(self, prefix: tuple[int, ...], started_s: float) -> float:
        return started_s + (self._compute.forward_s(1) if prefix else self._compute.prefill_s)


class PacedAggregation(AggregationService):
    """An AggregationService whose forwards take a computer's time."""

    def __init__(self, model: LanguageModel, retrieve: Retrieve, compute: PeerCompute) -> None:
        super().__init__(model, retrieve)
        self._compute = compute
        self._held: tuple[ServiceJob, JobResult, float, float] | None = None

    def step(self, send: Callable[[Reply], None]) -> bool:
        now_s = time.monotonic()
        if self._held is None or not self.wants(self._held[0]):
            self._held = self._begin(now_s)
            return self._held is not None
        job, result, started_s, ready_s = self._held
        if now_s < ready_s:
            return False
        self._held = None
        for reply in self.finish(job, result, now_s - started_s):
            send(reply)
        return True

    def max_wait_s(self) -> float | None:
        return None if self._held is None else max(0.0, self._held[3] - time.monotonic())

    def _begin(self, now_s: float) -> tuple[ServiceJob, JobResult, float, float] | None:
        job = self.next_job()
        if job is None:
            return None
        takes_s = self._compute.prefill_s
        if isinstance(job, Predict):
            takes_s = self._compute.forward_s(1) if job.prefix else 0.0
        return job, self.run(job), now_s, now_s + takes_s


def live_service(regime_name: str, seed: int) -> PacedAggregation:
    """Make the cloud's side, in its own process."""
    regime = load_aggregation_regimes([regime_name])[regime_name]
    target = _target(regime)
    compute = regime.world(0.0, "server", seed).cloud
    return PacedAggregation(certain_pair(target, seed)[1], share_documents(target.device_share)[1], compute)


def measure_live(
    endpoint: str, regime: AggregationRegime, method: str, delay_ms: float, texts: int, seed: int
) -> LiveAggregation:
    """Measure one method in real time over an emulated link with this delay each way."""
    target = _target(regime)
    uplink, downlink = regime.links(delay_ms, "both")
    link = EmulatedLink(DealerLink(endpoint), Network("both", uplink, downlink), seed)
    model, documents = certain_pair(target, seed)[0], share_documents(target.device_share)[0]
    compute = regime.world(0.0, "server", seed).device
    decoder = PacedPeerDecoder(link, model, METHODS[method], documents, compute, f"the cloud at {endpoint}")
    elapsed_s = first_s = 0.0
    tokens = bytes_up = bytes_down = 0
    try:
        for request in synthetic_requests(texts, regime.num_tokens):
            seen: list[Verified] = []
            decoded = decoder.decode(request, seen.append)
            elapsed_s += decoded.elapsed_s - compute.prefill_s
            first_s += seen[0].elapsed_s
            tokens += len(decoded.token_ids)
            bytes_up += decoded.speculation.bytes_up
            bytes_down += decoded.speculation.bytes_down
    finally:
        decoder.close()
    return LiveAggregation(
        1e3 * elapsed_s / tokens, 1e3 * first_s / texts, bytes_up / tokens, bytes_down / tokens
    )


def bench_live_aggregation(name: str, texts: int, seed: int) -> dict[str, dict[str, LiveAggregation]]:
    """Return the figures of some methods in one regime, by method and by the delay each way in ms."""
    regime = load_aggregation_regimes([name])[name]
    with verifier_process(live_service, name, seed) as endpoint:
        return {
            method: {
                f"{delay_ms:g}": measure_live(endpoint, regime, method, delay_ms, texts, seed)
                for delay_ms in LIVE_DELAYS_MS
            }
            for method in LIVE_METHODS
        }


def _target(regime: AggregationRegime) -> AcceptanceTarget:
    return AcceptanceTarget(regime.acceptance, regime.acceptance)
