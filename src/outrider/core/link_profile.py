# SPDX-License-Identifier: Apache-2.0
"""The effects of a network on frames: pure and seeded, for the virtual clock and for live emulation.

Nothing here waits or sends. Times are seconds on any clock that starts at 0.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta, Struct

from outrider.core.errors import ConfigError

_BYTES_PER_MEGABIT = 125_000.0
MIN_RETRANSMIT_S = 0.2
"""The shortest retransmission timeout of Linux."""


@dataclass(frozen=True)
class LinkProfile:
    """One direction of the link. A lost frame arrives `retransmit_s` later, or never if that is None.

    `jitter_s` is the width of a uniform extra delay. `ordered`: no frame overtakes another, as over TCP.
    During bursts everything is lost, as in Gilbert's model (1960): they last `burst_s` on average,
    exponentially distributed, and the gaps between them `burst_every_s`. A frame sent in a burst arrives as
    if it had been sent at its end.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    retransmit_s: float | None = None
    bytes_per_s: float = math.inf
    ordered: bool = True
    burst_s: float = 0.0
    burst_every_s: float = math.inf

    def __post_init__(self) -> None:
        for name in ("delay_s", "jitter_s", "retransmit_s"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value < math.inf:
                raise ConfigError(f"{name}={value} must be a time of at least 0 s")
        if not 0.0 <= self.burst_s < math.inf or not self.burst_every_s > 0.0:
            raise ConfigError(f"bursts of {self.burst_s} s every {self.burst_every_s} s: give positive times")
        if not self.bytes_per_s > 0.0:
            raise ConfigError(f"bytes_per_s={self.bytes_per_s} must be positive")
        if not 0.0 <= self.loss <= 1.0 or (self.loss == 1.0 and self.retransmit_s is not None):
            raise ConfigError(f"loss={self.loss} must lie in [0, 1), or be 1 where nothing is retransmitted")


@dataclass(frozen=True)
class Outage:
    """The link is down from `start_s` to `end_s`; frames in flight are lost; the verifier may restart."""

    start_s: float
    end_s: float
    verifier_restarts: bool = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.start_s <= self.end_s:
            raise ConfigError(f"an outage from {self.start_s} s to {self.end_s} s ends before it starts")


def is_up(outages: tuple[Outage, ...], start_s: float, end_s: float) -> bool:
    """Return whether no outage overlaps the interval."""
    return all(end_s < outage.start_s or start_s >= outage.end_s for outage in outages)


class Channel:
    """Decides when a frame arrives: after a queue at the link's rate, the delay, jitter and losses."""

    def __init__(self, profile: LinkProfile, rng: random.Random) -> None:
        self._rng = rng
        self._free_s = 0.0
        self._last_arrival_s = 0.0
        self.follow(profile)

    def follow(self, profile: LinkProfile) -> None:
        """Apply another profile to frames from now on; if it is `ordered`,
        they do not overtake earlier ones.
        """
        self._profile = profile
        self._burst_s = (0.0, 0.0) if profile.burst_s else (math.inf, math.inf)
        """Start and end of the current burst, or the next one."""

    def arrival_s(self, now_s: float, num_bytes: int) -> float | None:
        """Return when a frame sent now arrives; None if it is lost for good."""
        profile = self._profile
        self._free_s = self._after_burst_s(max(self._free_s, now_s)) + num_bytes / profile.bytes_per_s
        arrival_s = self._free_s + profile.delay_s + self._rng.uniform(0.0, profile.jitter_s)
        while self._rng.random() < profile.loss:
            if profile.retransmit_s is None:
                return None
            arrival_s += profile.retransmit_s
        if profile.ordered:
            arrival_s = max(arrival_s, self._last_arrival_s)
        self._last_arrival_s = arrival_s
        return arrival_s

    def _after_burst_s(self, now_s: float) -> float:
        """Return when a frame that is due now leaves. Call it with times that never decrease."""
        profile, draw = self._profile, self._rng.expovariate
        while self._burst_s[1] <= now_s:
            start_s = self._burst_s[1] + draw(1.0 / profile.burst_every_s)
            self._burst_s = start_s, start_s + draw(1.0 / profile.burst_s)
        start_s, end_s = self._burst_s
        return end_s if start_s <= now_s else now_s


@dataclass(frozen=True)
class Network:
    """Both directions of a link. The outages repeat every `repeat_s`, or happen once if that is None."""

    name: str = "loopback"
    uplink: LinkProfile = LinkProfile()
    downlink: LinkProfile = LinkProfile()
    outages: tuple[Outage, ...] = ()
    repeat_s: float | None = None

    def __post_init__(self) -> None:
        last_s = max((outage.end_s for outage in self.outages), default=0.0)
        if self.repeat_s is not None and not max(last_s, 1e-3) <= self.repeat_s < math.inf:
            raise ConfigError(f"repeat_s={self.repeat_s} must not be shorter than the outages it repeats")

    @property
    def round_trip_s(self) -> float:
        """The shortest round trip."""
        return self.uplink.delay_s + self.downlink.delay_s

    def with_round_trip(self, round_trip_s: float) -> Network:
        """Return this network with another shortest round trip, half of it each way,
        and a name that says so.
        """

        def at(profile: LinkProfile) -> LinkProfile:
            late_s = None if profile.retransmit_s is None else max(round_trip_s, MIN_RETRANSMIT_S)
            return replace(profile, delay_s=round_trip_s / 2.0, retransmit_s=late_s)

        name = f"{self.name} at {round_trip_s * 1000.0:g} ms"
        return replace(self, name=name, uplink=at(self.uplink), downlink=at(self.downlink))

    def is_up(self, start_s: float, end_s: float) -> bool:
        """Return whether no outage overlaps the interval."""
        if self.repeat_s is None:
            return is_up(self.outages, start_s, end_s)
        rounds = range(int(start_s // self.repeat_s), int(end_s // self.repeat_s) + 1)
        shifts = (index * self.repeat_s for index in rounds)
        return all(is_up(self.outages, start_s - shift, end_s - shift) for shift in shifts)

    def outages_over(self, now_s: float) -> int:
        """Return how many outages have ended by now."""
        rounds = 0 if self.repeat_s is None else int(now_s // self.repeat_s)
        rest_s = now_s if self.repeat_s is None else now_s - rounds * self.repeat_s
        return rounds * len(self.outages) + sum(outage.end_s <= rest_s for outage in self.outages)


_Milliseconds = Annotated[float, Meta(ge=0.0, le=60_000.0)]
_Seconds = Annotated[float, Meta(ge=0.0, le=86_400.0)]
_Megabits = Annotated[float, Meta(gt=0.0, le=1e6)]


class Blackout(Struct, frozen=True, forbid_unknown_fields=True):
    """A period without a link."""

    start_s: _Seconds
    length_s: _Seconds


class NetworkDescription(Struct, frozen=True, forbid_unknown_fields=True):
    """A network as described in files, in the units of measurement reports.

    `source` says where the figures come from. `rtt_ms` is the shortest round trip, half of it each way;
    `jitter_ms` and `loss` apply to each direction. Without `retransmit_ms` a lost frame stays lost.
    """

    source: Annotated[str, Meta(min_length=1)]
    rtt_ms: _Milliseconds
    up_mbps: _Megabits
    down_mbps: _Megabits
    jitter_ms: _Milliseconds = 0.0
    loss: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.0
    retransmit_ms: _Milliseconds | None = None
    ordered: bool = True
    blackouts: tuple[Blackout, ...] = ()
    blackouts_repeat_s: _Seconds | None = None

    def network(self, name: str) -> Network:
        """Return the network with this name. Raises ConfigError for figures that contradict each other."""
        outages = tuple(Outage(b.start_s, b.start_s + b.length_s) for b in self.blackouts)
        uplink, downlink = self._direction(self.up_mbps), self._direction(self.down_mbps)
        return Network(name, uplink, downlink, outages, self.blackouts_repeat_s)

    def _direction(self, mbps: float) -> LinkProfile:
        return LinkProfile(
            delay_s=self.rtt_ms / 2000.0,
            jitter_s=self.jitter_ms / 1000.0,
            loss=self.loss,
            retransmit_s=None if self.retransmit_ms is None else self.retransmit_ms / 1000.0,
            bytes_per_s=mbps * _BYTES_PER_MEGABIT,
            ordered=self.ordered,
        )
