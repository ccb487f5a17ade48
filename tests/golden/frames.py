"""Golden frames: the bytes on the wire.

`frames.json` holds the frames of a session of each strategy, recorded on the virtual clock, and handmade
frames of every kind. Record them again only after a change of the protocol or of behaviour:

    python -m tests.golden.regenerate
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from outrider.core import frames
from outrider.core.frames import Frame
from outrider.core.link_profile import LinkProfile
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.evaluation.decoding.comparison import synthetic_requests
from outrider.wire.codec import decode_cloud_frame, decode_edge_frame, encode

from .schedules import SEED, frame_bytes, toy_pair

FILE = Path(__file__).parent / "frames.json"
TOKENS = 16
BY_HAND = "one of every kind"
GREEDY = frames.Rules("wait", "greedy", 0.0, 1.0, 0, 0, True, "none")
SAMPLED = frames.Rules("adaptive", "coupled", 0.7, 0.9, 40, -(1 << 63), False, "useful")
PEERS = frames.AggregationRules("speculative", "coupled", "scheduled", 8, 1.0, 0.95, 40, 99)
UP: tuple[frames.EdgeFrame, ...] = (
    frames.Open(1, 2, 3, "find the bottle", b"\xff\xd8 jpeg", (), 96, "fingerprint", GREEDY),
    frames.Open(1, 2, 3, "find the bottle", b"\xff\xd8 jpeg", (5, 600), 96, "", SAMPLED, "target"),
    frames.Resume(1, 2, 7, 0xFFFFFFFF, 3),
    frames.Draft(1, 2, 7, None, b"\x01\x02\x03"),
    frames.Draft(300, 70000, 4096, 0xDEADBEEF, b""),
    frames.Proposal(1, 2, 7, 9, None, (1, 2, 151000), b"evidence"),
    frames.Proposal(1, 2, 7, 9, 300, (), b""),
    frames.StandBy(1, 2),
    frames.Cancel(1, 2),
    frames.Close(1, 2),
    frames.Ping(1, 2),
    frames.Join(1, 2, 3, "what did you see?", b"", 64, "fingerprint", PEERS, -70000, (2, 300), "reader"),
    frames.Drafted(1, 2, 7, 9, (1, 300), 8400, b"row"),
    frames.Settled(1, 2, 7, 9, (1, 300), "device", 25000),
    frames.Behind(1, 2, 7, 9),
)
DOWN: tuple[frames.CloudFrame, ...] = (
    frames.Opened(1, 2, 0, 3, 50000, (151643, 151645)),
    frames.Hint(1, 2, 7, 4, 88, (1, 300)),
    frames.Verdict(1, 2, 7, 9, (1, 300), 4, 11, 30000),
    frames.Verdict(1, 2, 7, 9, (), 0, 11, 0, (2, 4)),
    frames.Unsettled(1, 2, 7, 9, (1,), 4, 11, 30000, b"residue", (2, 4)),
    frames.PrefillAgain(1, 2),
    frames.Refused(1, 2, "busy", "all 8 sessions are taken"),
    frames.Pong(1, 2, "target", 151657, 3, 8),
    frames.Joined(1, 2, 32768, 60000, 3),
)


class Sent(NamedTuple):
    """One frame on the wire, as a line of the file: its direction, its kind and its bytes in hex."""

    direction: str
    kind: str
    hex: str

    @property
    def line(self) -> str:
        return " ".join(self)

    @property
    def data(self) -> bytes:
        return bytes.fromhex(self.hex)

    def decoded(self) -> Frame:
        decode = decode_edge_frame if self.direction == "up" else decode_cloud_frame
        return decode(self.data)


def sent(frame: Frame) -> Sent:
    direction = "up" if isinstance(frame, frames.EdgeFrame) else "down"
    return Sent(direction, type(frame).__name__, encode(frame).hex())


def record_all() -> dict[str, list[Sent]]:
    """Returns the frames of each strategy, greedy and sampled, and the handmade frames."""
    sessions = {
        f"{strategy} at {temperature:g}": record(DecodingConfig(strategy, temperature=temperature))
        for strategy in STRATEGIES
        for temperature in (0.0, 0.8)
    }
    return {BY_HAND: [sent(frame) for frame in (*UP, *DOWN)], **sessions}


def record(config: DecodingConfig) -> list[Sent]:
    """Returns the frames of one text in one session, in the order in which they are sent."""
    seen: list[Sent] = []

    def noted_bytes(frame: Frame) -> int:
        seen.append(sent(frame))
        return frame_bytes(frame)

    link = LinkProfile(delay_s=0.03, jitter_s=0.01)
    target, draft = toy_pair()
    decoder = VirtualDecoder(
        target, draft, config, VirtualWorld(noted_bytes, ComputeProfile(), link, link, seed=SEED)
    )
    decoder.decode(synthetic_requests(1, TOKENS)[0])
    return seen


def read() -> dict[str, list[Sent]]:
    """Returns the recorded frames by session."""
    stored = json.loads(FILE.read_text())
    return {name: [Sent(*line.split(" ")) for line in lines] for name, lines in stored.items()}


def write(recorded: Mapping[str, Sequence[Sent]]) -> None:
    lines = {name: [one.line for one in session] for name, session in recorded.items()}
    FILE.write_text(json.dumps(lines, indent=1) + "\n")
