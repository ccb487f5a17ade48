# SPDX-License-Identifier: Apache-2.0
"""Chooses the side that aggregates: DRAGON section 5, greedy scheduling. Times are in seconds.

l is the side that aggregates now, r the other. The formulas assume that an acceptance scenario repeats
forever.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from outrider.core.frames import AggregatorPolicy, PeerSide
from outrider.decoding.aggregation.rule import other_side
from outrider.decoding.policy.estimators import ExponentialMean

PRIOR_RATE, PRIOR_TRIALS = 0.7, 4.0
MEMORY = 0.995


def token_s(local_s: float, remote_s: float, round_trip_s: float, remote_rate: float) -> float:
    """Return the seconds per token while the local side aggregates, eq. 7.

    Only rejections of the remote side's drafts cost a round trip. Rate 0 gives the time without speculation
    (VDRAG).
    """
    return remote_rate * max(local_s, remote_s) + (1.0 - remote_rate) * max(local_s, remote_s + round_trip_s)


def gain_of_switching(
    local_s: float, remote_s: float, round_trip_s: float, local_rate: float, remote_rate: float
) -> float:
    """Return the seconds per token saved by aggregating at the remote side, eq. 8; switch if above 0."""
    gap_s = remote_s - local_s
    if gap_s >= round_trip_s:
        return (1.0 - remote_rate) * round_trip_s
    if gap_s >= 0.0:
        return (1.0 - local_rate) * gap_s + (local_rate - remote_rate) * round_trip_s
    if gap_s >= -round_trip_s:
        return (1.0 - remote_rate) * gap_s + (local_rate - remote_rate) * round_trip_s
    return (local_rate - 1.0) * round_trip_s


@dataclass
class _Rate:
    hits: float = PRIOR_RATE * PRIOR_TRIALS
    trials: float = PRIOR_TRIALS

    def add(self, hit: bool) -> None:
        self.hits = MEMORY * self.hits + hit
        self.trials = MEMORY * self.trials + 1.0

    @property
    def value(self) -> float:
        return self.hits / self.trials

    @property
    def variance(self) -> float:
        """The variance of the estimated rate."""
        return self.value * (1.0 - self.value) / self.trials


class Profile:
    """A side's measurements: decode times, the round trip,
    and the recent acceptance rate of each side's drafts.
    """

    def __init__(self) -> None:
        self._decode = {"device": ExponentialMean(), "cloud": ExponentialMean()}
        self._rates = {"device": _Rate(), "cloud": _Rate()}
        self.round_trip_s = 0.0

    def on_decoded(self, side: PeerSide, seconds: float) -> None:
        """Add the decode time of one token, in seconds, to a side's mean."""
        self._decode[side].add(seconds)

    def on_outcome(self, side: PeerSide, accepted: bool) -> None:
        """Add to a side's acceptance rate whether its draft was accepted."""
        self._rates[side].add(accepted)

    def decode_s(self, side: PeerSide) -> float:
        """Return a side's mean decode time per token, in seconds."""
        return self._decode[side].value

    def rate(self, side: PeerSide) -> float:
        """Return a side's recent acceptance rate."""
        return self._rates[side].value

    def gain_of_leaving(self, side: PeerSide) -> float:
        """Return eq. 8 for the side that aggregates now,
        less one standard deviation of the rates' difference.

        Eq. 8 multiplies the difference of two rates by the round trip. Over a slow link a few lucky tokens
        would otherwise switch the aggregator, and each switch costs a round trip.
        """
        other = other_side(side)
        gain_s = gain_of_switching(
            self.decode_s(side), self.decode_s(other), self.round_trip_s, self.rate(side), self.rate(other)
        )
        variance = self._rates[side].variance + self._rates[other].variance
        return gain_s - self.round_trip_s * math.sqrt(variance)


def next_aggregator(
    policy: AggregatorPolicy, now: PeerSide, profile: Profile, seed: int, position: int
) -> PeerSide:
    """Return the side that decides the token at a position;
    the side that decided the last token calls this.
    """
    if policy == "device" or policy == "cloud":
        return policy
    if policy == "random":
        return random.Random(f"{seed}/{position}").choice(("device", "cloud"))
    return other_side(now) if profile.gain_of_leaving(now) > 0.0 else now
