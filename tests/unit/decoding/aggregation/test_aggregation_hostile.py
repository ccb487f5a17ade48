"""Bad frames of a peer are refused or ignored, and the texts of other sessions do not change."""

from __future__ import annotations

import random

import msgspec
import pytest
from support.hostile import valid_frame, valid_value
from support.peers import joint_text
from support.toys import request, toy_pair

from outrider.core.errors import ProtocolError
from outrider.core.frames import Drafted, EdgeFrame, Join, Peer, Pong, Refused, Settled
from outrider.decoding.acceptance.sampling import probabilities
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.aggregation.device import DeviceMachine
from outrider.decoding.aggregation.service import AggregationService
from outrider.decoding.aggregation.worker import plain_context
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.wire.codec import decode_edge_frame, encode

MODELS = toy_pair(4, 0.7)
ASKED = request(max_new_tokens=15)
HONEST, LIAR = Peer("", b"honest"), Peer("", b"liar")


def changed(frame, rng):
    """Return a frame of the honest peer with one field set to another allowed value."""
    name = rng.choice(frame.__struct_fields__)
    kind = next(field.type for field in msgspec.inspect.type_info(type(frame)).fields if field.name == name)
    return msgspec.structs.replace(frame, **{name: valid_value(kind, rng)})


@pytest.mark.parametrize("rule", ["coupled", "rejection", "greedy"])
def test_a_lying_peer_harms_only_itself(rule: str) -> None:
    rng = random.Random(7)
    clock_s = 0.0
    service = AggregationService(MODELS[1], plain_context, clock=lambda: clock_s)
    config = AggregationConfig(rule=rule, temperature=0.0 if rule == "greedy" else 1.0)
    machine = DeviceMachine(1, config, MODELS[0].tokenizer)
    session = MODELS[0].open_session()
    up: list[EdgeFrame] = machine.begin(ASKED.prompt, ASKED.max_new_tokens, 0, 0.0)
    frames_up: list[EdgeFrame] = [*up]
    prompt_row = session.prefill(ASKED.prompt)
    prompt_length = session.length
    while not machine.text.done:
        clock_s += 0.01
        down = [reply.frame for frame in up for reply in service.receive(HONEST, frame)]
        for _ in range(4):
            lie = changed(rng.choice(frames_up), rng) if rng.random() < 0.7 else valid_frame(rng)
            payload = encode(lie)
            try:
                service.receive(LIAR, decode_edge_frame(payload))
            except ProtocolError:
                continue  # a frame that only the cloud sends
        answers: list = []
        service.step(answers.append)
        down += [reply.frame for reply in answers if reply.peer == HONEST]
        up = [frame for one in down for frame in machine.receive(one, clock_s)]
        prefix = machine.text.next_prefix()
        if prefix is not None:
            session.truncate(prompt_length)
            row = session.forward(prefix)[-1] if prefix else prompt_row
            sampling = Sampling(1.0)
            up += machine.on_drafted(prefix, probabilities(row, sampling), 0.01, clock_s)
        frames_up += up
    assert machine.text.tokens == joint_text(*MODELS, config, ASKED)


@pytest.mark.parametrize(
    "frame",
    [
        Drafted(1, 1, 0, 0, (5,), 10, b"\xff\xff"),
        Drafted(1, 1, 0, 0, (5,), 10, b""),
        Drafted(1, 1, 0, 0, (40,), 10, b""),
        Settled(1, 1, 0, 0, (99_999,), "device", 0),
    ],
)
def test_impossible_frames_of_a_peer_are_refused(frame) -> None:
    service = AggregationService(MODELS[1], plain_context)
    machine = DeviceMachine(1, AggregationConfig(), MODELS[0].tokenizer)
    (join,) = machine.begin(ASKED.prompt, 15, 0, 0.0)
    assert isinstance(join, Join)
    assert service.receive(LIAR, join) == []
    (reply,) = service.receive(LIAR, frame)
    assert isinstance(reply.frame, Refused) and reply.frame.reason == "protocol"
    assert [type(one.frame) for one in service.receive(LIAR, frame)] == [Refused]


def test_a_full_cloud_refuses_as_busy() -> None:
    service = AggregationService(MODELS[1], plain_context)
    replies = []
    for session in range(9):
        machine = DeviceMachine(session, AggregationConfig(), MODELS[0].tokenizer)
        replies += service.receive(HONEST, machine.begin(ASKED.prompt, 15, 0, 0.0)[0])
    (reply,) = replies
    assert isinstance(reply.frame, Refused) and reply.frame.reason == "busy"


def write(service: AggregationService, peer: Peer, machine: DeviceMachine, num_tokens: int) -> None:
    """Decode one whole text between the service and the device machine."""
    session = MODELS[0].open_session()
    up: list[EdgeFrame] = machine.begin(ASKED.prompt, num_tokens, 0, 0.0)
    prompt_row = session.prefill(ASKED.prompt)
    prompt_length = session.length
    while not machine.text.done:
        answers = [reply for frame in up for reply in service.receive(peer, frame)]
        service.step(answers.append)
        up = [frame for reply in answers for frame in machine.receive(reply.frame, 0.0)]
        prefix = machine.text.next_prefix()
        if prefix is not None:
            session.truncate(prompt_length)
            row = session.forward(prefix)[-1] if prefix else prompt_row
            up += machine.on_drafted(prefix, probabilities(row, Sampling(1.0)), 0.01, 0.0)
    for frame in up:
        service.receive(peer, frame)


def test_a_complete_text_is_closed_when_another_peer_needs_room() -> None:
    clock_s = 0.0
    limits = CloudLimits(max_sessions=1, rest_s=1.0)
    service = AggregationService(MODELS[1], plain_context, limits, lambda: clock_s)
    first, second = (DeviceMachine(session, AggregationConfig(), MODELS[0].tokenizer) for session in (1, 2))
    write(service, HONEST, first, 2)
    (join,) = second.begin(ASKED.prompt, 2, 0, 0.0)
    (reply,) = service.receive(LIAR, join)
    assert isinstance(reply.frame, Refused), "its device may not have received the end yet"
    clock_s += 1.1
    assert service.receive(LIAR, join) == []
    clock_s += 100.0
    *_, reply = service.receive(HONEST, first.begin(ASKED.prompt, 2, 0, clock_s)[0])
    assert isinstance(reply.frame, Refused), "a text that is being written stays"


def test_silent_peers_are_probed_when_others_need_room() -> None:
    clock_s = 0.0
    limits = CloudLimits(max_sessions=1)
    service = AggregationService(MODELS[1], plain_context, limits, lambda: clock_s)
    first, second = (DeviceMachine(session, AggregationConfig(), MODELS[0].tokenizer) for session in (1, 2))
    assert service.receive(HONEST, first.begin(ASKED.prompt, 2, 0, 0.0)[0]) == []
    (join,) = second.begin(ASKED.prompt, 2, 0, 0.0)
    assert [reply.peer for reply in service.receive(LIAR, join)] == [LIAR]
    clock_s += limits.probe_s + 0.1
    probe, refusal = service.receive(LIAR, join)
    assert (probe.peer, refusal.peer) == (HONEST, LIAR) and isinstance(probe.frame, Pong)
