# SPDX-License-Identifier: Apache-2.0
"""Small immutable values that are passed between packages. Units are metres, radians and seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum


def wrap_angle(angle_rad: float) -> float:
    """Return the same angle in (-pi, pi]."""
    return math.pi - (math.pi - angle_rad) % (2.0 * math.pi)


@dataclass(frozen=True)
class Pose2D:
    """A pose on the floor: x ahead, y left, yaw counter-clockwise."""

    x: float
    y: float
    yaw: float

    def bearing_to(self, x: float, y: float) -> float:
        """Return the angle from the robot's heading to a point, left positive, in (-pi, pi]."""
        return wrap_angle(math.atan2(y - self.y, x - self.x) - self.yaw)

    def distance_to(self, x: float, y: float) -> float:
        """Return the distance in metres from this position to (x, y)."""
        return math.hypot(x - self.x, y - self.y)

    def is_beyond(self, other: Pose2D, metres: float, radians: float) -> bool:
        """Return whether another pose is more than `metres` away, or turned by more than `radians`."""
        return self.distance_to(other.x, other.y) > metres or abs(wrap_angle(other.yaw - self.yaw)) > radians

    def compose(self, offset: Pose2D) -> Pose2D:
        """Return the pose whose offset from this one is `offset`."""
        cos, sin = math.cos(self.yaw), math.sin(self.yaw)
        x, y = self.x + offset.x * cos - offset.y * sin, self.y + offset.x * sin + offset.y * cos
        return Pose2D(x, y, wrap_angle(self.yaw + offset.yaw))


@dataclass(frozen=True)
class Sighting:
    """A remembered thing at a place on the floor, in the odometry frame.

    Memories enter a prompt only in this form, because it holds no words of a person.
    """

    what: str
    x: float
    y: float


@dataclass(frozen=True)
class Velocity:
    """Body velocity: vx ahead and vy left in m/s, yaw rate wz in rad/s (left positive)."""

    vx: float = 0.0
    vy: float = 0.0
    wz: float = 0.0

    def exceeds(self, mps: float, rps: float) -> bool:
        """Return whether the speed over the floor exceeds `mps`, or the yaw rate `rps`."""
        return math.hypot(self.vx, self.vy) > mps or abs(self.wz) > rps


STANDSTILL = Velocity()
STILL_MPS, STILL_RPS = 0.05, 0.1
"""Speeds up to which odometry counts as standing still, because it is noisy."""


@dataclass(frozen=True)
class Odometry:
    """Pose in the odometry frame, body velocity, and the time of the measurement on the owner's clock."""

    pose: Pose2D
    velocity: Velocity
    stamp_s: float
    frame_id: str = "odom"

    @property
    def is_finite(self) -> bool:
        """Whether all numbers are finite; a failed source may report others."""
        pose, velocity = self.pose, self.velocity
        numbers = (pose.x, pose.y, pose.yaw, velocity.vx, velocity.vy, velocity.wz, self.stamp_s)
        return all(map(math.isfinite, numbers))

    @property
    def stands(self) -> bool:
        """Whether the odometry shows a robot that stands still."""
        velocity = self.velocity
        return max(abs(velocity.vx), abs(velocity.vy)) <= STILL_MPS and abs(velocity.wz) <= STILL_RPS


@dataclass(frozen=True)
class RangeScan:
    """A planar scan: metres at bearings `angle_min + i * angle_step` (left positive) of the lidar.

    `mount` is the lidar's pose on the base. A range is inf where it is free, -inf where something is nearer
    than `range_min`, the least that is measured (REP 117), and NaN where nothing is known.
    """

    ranges: tuple[float, ...]
    angle_min: float
    angle_step: float
    stamp_s: float
    range_min: float = 0.0
    mount: Pose2D = Pose2D(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Prompt:
    """The input of both sides: chat text with one image placeholder, and the camera frame as JPEG bytes."""

    text: str
    jpeg: bytes


@dataclass(frozen=True)
class Successors:
    """The tokens that a model expects after each of a prompt's last tokens.

    For each of those tokens in order: the likeliest ids, best first, and their probabilities.
    """

    ids: Sequence[Sequence[int]] = ()
    probs: Sequence[Sequence[float]] = ()


class LinkState(str, Enum):
    """The state of the edge's connection to the verifier.

    `refused`: the verifier does not accept this robot's key. `mismatched`: something answers but ends the
    handshake. It has another verifier's keys, or keys where the robot has none, or none where the robot has
    some, or it is not a verifier.
    """

    CONNECTED = "connected"
    CONNECTING = "connecting"
    LOST = "lost"
    REFUSED = "refused"
    MISMATCHED = "mismatched"
    LOCAL = "local"


@dataclass(frozen=True)
class RoundStats:
    """One draft-verify round. Times in seconds on the edge's monotonic clock, measured from the request.

    `drafted`: how many of the verified tokens the edge itself had drafted; `accepted` of them were
    accepted. `draft_s`: the drafting time until the round's last draft was sent; later drafting overlaps
    verification.
    """

    index: int
    drafted: int
    accepted: int
    emitted: int
    draft_s: float
    verify_s: float
    round_trip_s: float
    started_s: float
    finished_s: float
    bytes_up: int
    bytes_down: int


class TokenFate(Enum):
    """The outcome of a token; mirrors the constants of DecodedTokens."""

    ACCEPTED = 0
    """Drafted, and confirmed by the target."""
    WRITTEN = 1
    """Not drafted: written by the target, or by the edge while it is alone."""
    REJECTED = 2
    """Drafted, and not part of the text."""
    AHEAD = 3
    """Drafted beyond the text, and not judged yet."""


@dataclass(frozen=True)
class Verified:
    """Tokens that have just become final, the whole verified text so far, and seconds since the request.

    `trace` shows a person the outcome of drafts, in text order: the words of these tokens, of the rejected
    drafts where they occurred, and of those drafted ahead.
    """

    token_ids: tuple[int, ...]
    text: str
    elapsed_s: float
    trace: tuple[tuple[str, TokenFate], ...] = ()


@dataclass(frozen=True)
class DecodeRequest:
    """One text to decode. `deadline_s` bounds the total time."""

    prompt: Prompt
    max_new_tokens: int = 96
    deadline_s: float = 30.0


@dataclass(frozen=True)
class SpeculationStats:
    """How well a text was predicted. A round counts if it verified a draft and did not end the text.

    `hint_hits`: what followed was already being drafted because an early exit had hinted at it; `hit_exits`
    holds the index of the first such exit for each. `guess_hits`: it was being drafted without a hint.
    `bytes_up` and `bytes_down` are those of decoding; `prompt_bytes` those of sending the prompt.
    `drafted_tokens` counts all draft tokens, needed or not; `draft_busy_s` is the time for them, aborted
    drafts included.
    """

    drafted_tokens: int = 0
    hint_hits: int = 0
    guess_hits: int = 0
    misses: int = 0
    hit_exits: tuple[int, ...] = ()
    bytes_up: int = 0
    bytes_down: int = 0
    prompt_bytes: int = 0
    draft_busy_s: float = 0.0


@dataclass(frozen=True)
class Decoded:
    """A finished text with its statistics.

    `target_passes` counts the target's forward passes after its prefill, an aborted one by the fraction of
    its time that it ran. `prefill_s` is the time of the target's prefill. `unverified_tokens` counts those
    that the edge wrote alone while the link was lost (policy `draft_only`); with 0 the text is exactly the
    target's own.
    """

    text: str
    token_ids: tuple[int, ...]
    finished: bool
    elapsed_s: float
    prefill_s: float
    target_passes: int
    rounds: tuple[RoundStats, ...] = field(default_factory=tuple)
    link: LinkState = LinkState.LOCAL
    unverified_tokens: int = 0
    speculation: SpeculationStats = SpeculationStats()

    @property
    def tokens_per_s(self) -> float:
        """The tokens per second of the whole text; 0 if no time passed."""
        return len(self.token_ids) / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def tokens_per_round(self) -> float:
        """Mean emitted tokens per verification (the papers' tau)."""
        return sum(r.emitted for r in self.rounds) / len(self.rounds) if self.rounds else 0.0


class RecordKind(str, Enum):
    """The origin of a memory: a person said it, or the robot saw it."""

    TOLD = "told"
    SEEN = "seen"


class Visibility(str, Enum):
    """Who may see a memory: `private` ones never leave the robot in any form."""

    PRIVATE = "private"
    SHAREABLE = "shareable"


@dataclass(frozen=True)
class Place:
    """A point on the floor in metres. `home` names where x and y apply; elsewhere they mean nothing."""

    x: float
    y: float
    home: str = ""


@dataclass(frozen=True)
class Record:
    """A memory in the robot's store.

    Times are seconds since the epoch; `updated_s` is that of the last sighting.
    The text may be private: what leaves the robot is made from `Sighting`s, never from records.
    """

    id: int
    text: str
    kind: RecordKind
    visibility: Visibility
    created_s: float
    updated_s: float
    place: Place | None = None
    has_thumbnail: bool = False


@dataclass(frozen=True)
class Recalled:
    """A record that answers a query: the cosine similarity of the texts (-1..1), and the score for ranking.

    `passage`: the part of the text that answers; the whole of a short text.
    """

    record: Record
    similarity: float
    score: float
    passage: str = ""

    @property
    def is_part(self) -> bool:
        """Whether the passage is only a part of the text."""
        return self.passage not in ("", self.record.text)
