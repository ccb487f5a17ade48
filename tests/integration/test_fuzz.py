"""A hundred thousand hostile frames among healthy sessions: only their senders are affected."""

from __future__ import annotations

import gc
import itertools
import random
from collections import Counter, deque
from pathlib import Path

from support.hostile import FRAME_TYPES, hostile_payloads
from support.toys import own_text, request, toy_pair

from outrider.core.errors import ProtocolError
from outrider.core.frames import CloudFrame, EdgeFrame, Frame, Peer, Refused
from outrider.core.values import LinkState
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.protocol.limits import CloudLimits
from outrider.wire.codec import decode_cloud_frame, decode_edge_frame, encode, wire_bytes

NUM_FRAMES = 100_000
FRAMES_PER_STEP, FRAMES_PER_EXIT = 40, 4
ATTACKERS = tuple(Peer("", b"attacker %d" % number) for number in range(5))
RECORDED_FRAMES = 200
ROOM_BYTES = 24 * 1024 * 1024


class Besieged:
    """A verifier that gets hostile frames before and during each step while `under_siege` is set.

    Its clock advances with each frame it receives.
    """

    under_siege = False

    def __init__(self, seed: int) -> None:
        self.target, self.draft = toy_pair(seed, 0.7, eos_bias=-3.0)
        self.service = VerifierService(self.target, CloudLimits(idle_s=30.0), clock=self._clock)
        self.service.set_poll(lambda: self._attack(FRAMES_PER_EXIT))
        self.seen: Counter[str] = Counter()
        self.seen_by_edges: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self._rng = random.Random(seed)
        self._recorded: deque[Frame] = deque(maxlen=RECORDED_FRAMES)
        self._payloads = hostile_payloads(self._rng, self._recorded)
        self._inboxes: dict[Peer, deque[tuple[CloudFrame, int]]] = {}
        self._now_s = 0.0

    def link(self, name: bytes) -> Healthy:
        peer = Peer("", name)
        self._inboxes[peer] = deque()
        return Healthy(self, peer, self._inboxes[peer])

    def deliver(self, peer: Peer, payload: bytes) -> None:
        """Passes a payload to the real codec and machine. Only a ProtocolError is tolerated."""
        self._now_s += 1e-3
        try:
            frame = decode_edge_frame(payload)
        except ProtocolError:
            self.seen["malformed"] += 1
            self.seen["malformed short form"] += payload[:1] >= b"\x80"
            return
        self.seen[type(frame).__name__] += 1
        if peer in self._inboxes:
            self._recorded.append(frame)
        self._route(self.service.receive(peer, frame))

    def step(self) -> None:
        self._attack(FRAMES_PER_STEP)
        self.service.step(lambda reply: self._route([reply]))
        self.service.evict_idle()

    def _attack(self, num_frames: int) -> None:
        for payload in itertools.islice(self._payloads, num_frames * self.under_siege):
            self.seen["hostile"] += 1
            self.deliver(self._rng.choice(ATTACKERS), payload)
            self._deliver_to_edge(payload)

    def _deliver_to_edge(self, payload: bytes) -> None:
        try:
            self.seen_by_edges[type(decode_cloud_frame(payload)).__name__] += 1
        except ProtocolError:
            self.seen_by_edges["malformed short form"] += payload[:1] >= b"\x80"

    def _route(self, replies) -> None:
        for reply in replies:
            payload = encode(reply.frame)
            frame = decode_cloud_frame(payload)
            self._recorded.append(frame)
            if isinstance(frame, Refused):
                self.reasons[frame.reason] += 1
            if reply.peer in self._inboxes:
                self._inboxes[reply.peer].append((frame, wire_bytes(payload)))

    def _clock(self) -> float:
        return self._now_s


class Healthy:
    """A FrameLink to the besieged verifier that loses no frame."""

    state = LinkState.CONNECTED
    generation = 1

    def __init__(self, verifier: Besieged, peer: Peer, inbox: deque[tuple[CloudFrame, int]]) -> None:
        self._verifier = verifier
        self._peer = peer
        self._inbox = inbox

    def send(self, frame: EdgeFrame) -> int:
        payload = encode(frame)
        self._verifier.deliver(self._peer, payload)
        return wire_bytes(payload)

    def receive(self, timeout_s: float) -> tuple[CloudFrame, int] | None:
        if not self._inbox and timeout_s > 0:
            self._verifier.step()
        return self._inbox.popleft() if self._inbox else None

    def close(self) -> None:
        self._inbox.clear()


def test_a_hundred_thousand_hostile_frames_change_nothing_for_the_healthy():
    verifier = Besieged(seed=7)
    decoders = [
        LinkedDecoder(
            verifier.link(b"robot %d" % number),
            verifier.draft,
            verifier.target.tokenizer,
            DecodingConfig(strategy=strategy, acceptance=STRATEGIES[strategy].acceptance),
            session=number,
            where="the besieged",
            clock=lambda: 0.0,
        )
        for number, strategy in enumerate(STRATEGIES)
    ]
    for decoder in decoders:  # every decoder takes a session before none is free
        decoder.decode(request(max_new_tokens=1))
    verifier.under_siege = True
    room_after_warming_up = None
    for number, decoder in enumerate(itertools.cycle(decoders)):
        asked = request(f"task {number}", max_new_tokens=24)
        assert decoder.decode(asked).token_ids == own_text(verifier.target, asked)
        if room_after_warming_up is None and verifier.seen["hostile"] > NUM_FRAMES // 5:
            room_after_warming_up = _resident_bytes()
        if verifier.seen["hostile"] >= NUM_FRAMES:
            break
    assert room_after_warming_up is not None
    assert _resident_bytes() - room_after_warming_up < ROOM_BYTES
    assert verifier.reasons["internal"] == 0
    assert verifier.service.stats.open_sessions <= CloudLimits().max_sessions
    _assert_it_was_a_real_siege(verifier)


def _assert_it_was_a_real_siege(verifier: Besieged) -> None:
    """Asserts that many frames were refused by the codec, and thousands reached the machine."""
    edge_types = {kind.cls.__name__ for kind in FRAME_TYPES} & set(verifier.seen)
    assert len(edge_types) >= 6
    assert all(verifier.seen[name] > 300 for name in edge_types)
    assert verifier.seen["malformed"] > NUM_FRAMES // 4
    assert min(verifier.seen_by_edges["Hint"], verifier.seen_by_edges["Verdict"]) > 1000
    for seen in (verifier.seen, verifier.seen_by_edges):
        assert seen["malformed short form"] > NUM_FRAMES // 20
    assert {"busy", "model", "protocol"} <= set(verifier.reasons)


def _resident_bytes() -> int:
    """Returns the resident memory of this process in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
