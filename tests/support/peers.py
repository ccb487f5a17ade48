"""The reference text of two peers: the aggregation rules token by token, without drafts ahead."""

from __future__ import annotations

from outrider.core.link_profile import LinkProfile
from outrider.core.ports import LanguageModel
from outrider.core.values import DecodeRequest
from outrider.decoding.acceptance.counter_rng import CounterChance
from outrider.decoding.acceptance.sampling import probabilities
from outrider.decoding.aggregation.config import AggregationConfig, document_sampling
from outrider.decoding.aggregation.rule import FULL_SHARE, aggregate, likeliest, make_draft, owner
from outrider.decoding.aggregation.virtual import PeerCompute, PeerWorld, VirtualPeers
from outrider.wire.codec import encode, wire_bytes


def joint_text(
    device: LanguageModel,
    cloud: LanguageModel,
    config: AggregationConfig,
    asked: DecodeRequest,
    share: int = FULL_SHARE // 2,
) -> tuple[int, ...]:
    """Returns VDRAG's text: both distributions are joined at every position before either side goes on."""
    rules = config.rules_for(asked.prompt)
    sampling, chance = document_sampling(rules), CounterChance(rules.seed)
    sessions = [model.open_session() for model in (device, cloud)]
    rows = [session.prefill(asked.prompt) for session in sessions]
    tokens: list[int] = []
    while True:
        position = len(tokens)
        drafts = [
            make_draft(probabilities(row, sampling), rules.rule, rules.seed, side, position)
            for row, side in zip(rows, ("device", "cloud"), strict=True)
        ]
        if rules.rule == "coupled":
            tokens.append(drafts[0 if owner(share, position, chance) == "device" else 1].token)
        elif rules.rule == "rejection":
            tokens.append(aggregate((drafts[0], drafts[1]), share, position, chance))
        else:
            tokens.append(likeliest((drafts[0].row, drafts[1].row), share))
        if tokens[-1] in device.end_ids or len(tokens) == asked.max_new_tokens:
            return tuple(tokens)
        rows = [session.forward(tokens[-1:])[0] for session in sessions]


def peer_world(
    device: PeerCompute = PeerCompute(0.1, 0.05),
    cloud: PeerCompute = PeerCompute(0.05, 0.02),
    uplink: LinkProfile = LinkProfile(0.03, 0.006),
    downlink: LinkProfile = LinkProfile(0.03, 0.006),
    **others: object,
) -> PeerWorld:
    """Returns a world whose frames have their encoded size."""
    return PeerWorld(lambda frame: wire_bytes(encode(frame)), device, cloud, uplink, downlink, **others)


def peers(
    models: tuple[LanguageModel, LanguageModel], config: AggregationConfig, world: PeerWorld | None = None
) -> VirtualPeers:
    """Returns device and cloud on a virtual clock, each with the question alone."""
    return VirtualPeers(*models, config, world or peer_world())
