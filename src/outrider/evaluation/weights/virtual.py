# SPDX-License-Identifier: Apache-2.0
"""Runs the published pair on the virtual clock: both models decode, with the measured processor times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.core.link_profile import Network, Outage
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.evaluation.alternatives.colocated import CloudCosts, csd_run, draft_ranks
from outrider.evaluation.decoding.live import Stopwatch
from outrider.evaluation.weights.speeds import KeptText, kept_text
from outrider.runtime.datasets.held_out import Pair
from outrider.wire.codec import frame_bytes

OUTAGES = 1000
"""The number of times that a network's outages repeat: enough for hours of virtual time."""
COLOCATED_LENGTHS = range(1, 8)
"""Draft tokens of a co-located chunk; with the target's token they fit the eight rows of a padded forward."""


@dataclass(frozen=True)
class Colocated:
    """Draft and target on one device, with chunks of the best length."""

    tokens_per_s: float
    num_draft_tokens: int


def virtual_world(network: Network, compute: ComputeProfile, seed: int) -> VirtualWorld:
    """Returns a virtual network whose outages repeat OUTAGES times, if they repeat at all."""
    period_s = network.repeat_s or 0.0
    outages = tuple(
        Outage(outage.start_s + repetition * period_s, outage.end_s + repetition * period_s)
        for repetition in range(OUTAGES if network.repeat_s else 1)
        for outage in network.outages
    )
    return VirtualWorld(frame_bytes, compute, network.uplink, network.downlink, outages, seed)


def virtual_texts(
    pair: Pair,
    requests: Sequence[DecodeRequest],
    network: Network,
    compute: ComputeProfile,
    config: DecodingConfig,
) -> list[KeptText]:
    """Returns all texts of one strategy, decoded one after the other on one clock."""
    draft = pair.draft if config.needs_model else None
    decoder = VirtualDecoder(pair.target, draft, config, virtual_world(network, compute, config.seed))
    return [_decoded(decoder, request, network) for request in requests]


def _decoded(decoder: VirtualDecoder, request: DecodeRequest, network: Network) -> KeptText:
    watch, began_s = Stopwatch(), decoder.now_s
    text = decoder.decode(request, watch.on_verified)
    watch.end_text()
    return kept_text(text, watch, not network.is_up(began_s, decoder.now_s))


def colocated(
    pair: Pair, texts: Sequence[tuple[Prompt, KeptText]], compute: ComputeProfile, config: DecodingConfig
) -> Colocated:
    """Returns the speed on one device, by the simulation that `bench decoding --alternatives` uses."""
    costs = CloudCosts(
        compute.step_s or compute.verify_s,
        compute.verify_s,
        compute.verify_token_s,
        compute.draft_token_s,
        compute.draft_branch_s,
    )
    ranks = [
        draft_ranks(pair.draft, prompt, text.token_ids, config.sampling_for(prompt)) for prompt, text in texts
    ]
    speeds = {}
    for length in COLOCATED_LENGTHS:
        runs = [csd_run(text_ranks, costs, length) for text_ranks in ranks]
        speeds[length] = sum(run.tokens - 1 for run in runs) / sum(run.elapsed_s for run in runs)
    best = max(speeds, key=lambda length: speeds[length])
    return Colocated(speeds[best], best)
