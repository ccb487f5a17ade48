# SPDX-License-Identifier: Apache-2.0
"""Which side should aggregate: DRAGON section 5, greedy scheduling. Times in seconds.

l aggregates now, r is the other side. The formulas take every acceptance scenario to repeat for ever.
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
    """Seconds a token while the local side aggregates, eq. 7: only the remote's rejections cost a trip.

    At rate 0 it is that of a token without speculation (VDRAG).
    """
    return remote_rate * max(local_s, remote_s) + (1.0 - remote_rate) * max(local_s, remote_s + round_trip_s)


def gain_of_switching(
    local_s: float, remote_s: float, round_trip_s: float, local_rate: float, remote_rate: float
) -> float:
    """Seconds a token saved by aggregating at the remote side instead, eq. 8: above 0, switch."""
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
        """Of the estimate."""
        return self.value * (1.0 - self.value) / self.trials


class Profile:
    """What a side has seen: decode times, the round trip, how often each side's drafts stood of late."""

    def __init__(self) -> None:
        self._decode = {"device": ExponentialMean(), "cloud": ExponentialMean()}
        self._rates = {"device": _Rate(), "cloud": _Rate()}
        self.round_trip_s = 0.0

    def on_decoded(self, side: PeerSide, seconds: float) -> None:
        """Adds the decode time of one token, in seconds, to a side's mean."""
        self._decode[side].add(seconds)

    def on_outcome(self, side: PeerSide, accepted: bool) -> None:
        """Adds whether a side's draft was accepted to its acceptance rate."""
        self._rates[side].add(accepted)

    def decode_s(self, side: PeerSide) -> float:
        """Returns a side's mean decode time of a token, in seconds."""
        return self._decode[side].value

    def rate(self, side: PeerSide) -> float:
        """Returns a side's recent acceptance rate."""
        return self._rates[side].value

    def gain_of_leaving(self, side: PeerSide) -> float:
        """Eq. 8 for the side that aggregates now, less what the rates are uncertain by (one deviation).

        In eq. 8 the difference of two rates is multiplied by the round trip, so that over a slow link the
        luck of a few tokens would move the aggregator, which costs a round trip each time.
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
    """Who decides about the token at a position, as the one says who decided about the token before it."""
    if policy == "device" or policy == "cloud":
        return policy
    if policy == "random":
        return random.Random(f"{seed}/{position}").choice(("device", "cloud"))
    return other_side(now) if profile.gain_of_leaving(now) > 0.0 else now
