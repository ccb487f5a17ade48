# SPDX-License-Identifier: Apache-2.0
"""Watches the clock that motions use, dates messages on it, and maps the stamps of another computer to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

# How fast two clocks may drift apart (NTP slews them), and the longest delay that is not a clock jump.
DRIFT, MAX_DELAY_S = 5e-4, 5.0
# A clock was set if its stamps go back by more than BACKWARDS_S or deviate from time by CLOCK_JUMP_S.
BACKWARDS_S, CLOCK_JUMP_S = 0.1, 1.0
# The most simulated seconds per real second, and the most that may pass at once in addition.
MAX_PACE, JUMP_S = 20.0, 1.0
# Real seconds after which a clock stands still: PAUSES times its longest pause, but within these bounds.
STILL_S, PAUSES, LONGEST_STILL_S = 0.22, 3.0, 2.0
# Real seconds from a jump until the clock counts again.
SETTLE_S = 1.0
# How far a frame's stamp may be ahead of this clock, and the age from which a clock must be wrong.
AHEAD_S, CLOCK_OFF_S = 0.5, 3600.0
SYNCHRONISE = (
    "synchronise the clocks of the computers, give all nodes the same use_sim_time, or stamp the camera's "
    "pictures by this clock"
)
NO_CLOCK = "use_sim_time is set, but nobody publishes /clock: start its source, or set use_sim_time:=false"


@dataclass(frozen=True)
class Moment:
    """One moment on two clocks, which are the same unless time is simulated.

    `motion_s` is the clock that the robot moves by; ages of measurements are on it. `real_s` is monotonic.
    Silence of other processes is measured on it, because a process hangs in real time.
    """

    motion_s: float
    real_s: float


class ClockWatch:
    """Judges whether the clock of motions is usable: it runs, and neither jumps nor stands still."""

    def __init__(self) -> None:
        self._last: Moment | None = None
        self._ran_s = self._jumped_s = -math.inf
        self._pause_s = 0.0
        self._jump = ""

    def fault(self, now: Moment) -> str:
        """Returns what is wrong with the clock, or an empty text. Call it at every reading of the clock."""
        last, self._last = self._last, now
        if last is None or last.motion_s != now.motion_s:
            self._see_pause(now.real_s - self._ran_s)
            self._ran_s = now.real_s
        if last is not None and last.motion_s > 0.0:
            self._see_jump(now.motion_s - last.motion_s, now.real_s - last.real_s, now.real_s)
        if now.motion_s <= 0.0:
            return NO_CLOCK
        if now.real_s - self._jumped_s < SETTLE_S:
            return self._jump
        if now.real_s - self._ran_s > min(LONGEST_STILL_S, max(STILL_S, PAUSES * self._pause_s)):
            return "the simulated clock stands still: is the simulation paused, or gone?"
        return ""

    def _see_pause(self, pause_s: float) -> None:
        """Learn the longest gap between ticks of a slow simulation; one beyond LONGEST_STILL_S is a pause."""
        if pause_s < LONGEST_STILL_S:
            self._pause_s = max(self._pause_s, pause_s)

    def _see_jump(self, elapsed_s: float, real_s: float, now_s: float) -> None:
        if elapsed_s < 0.0:
            self._jump, self._jumped_s = f"the clock went back by {-elapsed_s:.1f} s", now_s
        elif elapsed_s > MAX_PACE * real_s + JUMP_S:
            self._jump, self._jumped_s = f"the clock jumped ahead by {elapsed_s:.1f} s", now_s


class Arrivals:
    """Dates the messages of one subscription on the clock of motions.

    Arrival times never decrease unless that clock was set back, whether messages were handled at once or
    waited.
    """

    def __init__(self) -> None:
        self._last_s = -math.inf

    def take(self, waits_s: Sequence[float], since: Moment, now: Moment) -> list[float]:
        """Returns when each message taken `now` arrived, oldest first.

        `waits_s` are the real seconds that each message has waited, all within the time from `since`. If
        they lie outside that time or are out of order, the messages count as evenly spaced.
        """
        span_s, number = now.real_s - since.real_s, len(waits_s)
        if any(longer < shorter for longer, shorter in pairwise([span_s, *waits_s, 0.0])):
            waits_s = [span_s * (number - 1 - i) / number for i in range(number)]
        # Motion-clock seconds per real second: not 1 if time is simulated.
        pace = max(0.0, now.motion_s - since.motion_s) / max(1e-9, span_s)
        arrived_s = []
        for wait_s in waits_s:
            self._last_s = min(now.motion_s, max(self._last_s, now.motion_s - wait_s * pace))
            arrived_s.append(self._last_s)
        return arrived_s


class ClockMapping:
    """Maps stamps of a remote clock to local times: the arrival, less the delay beyond the shortest one.

    The shortest `received - stamp` is the clocks' offset plus the unavoidable delay. It may grow only by
    DRIFT, so a delay that comes and stays is still a delay. A message that would be later than MAX_DELAY_S
    comes from a clock that was set, and begins a new mapping. So does a local clock that goes back.
    Simulated time has only one clock: the offset is then never negative, since a message may overtake the
    clock's own message.
    """

    def __init__(self, is_simulated: bool = False) -> None:
        self._least_s, self._drift = (0.0, 0.0) if is_simulated else (-math.inf, DRIFT)
        self._received_s = -math.inf
        self._shortest_s = math.inf

    def local_s(self, remote_s: float, received_s: float) -> float:
        """Returns the local time of an event stamped `remote_s` and received at `received_s`."""
        offset_s, elapsed_s = received_s - remote_s, received_s - self._received_s
        longest_s = self._shortest_s + self._drift * elapsed_s if elapsed_s >= 0.0 else math.inf
        if offset_s - longest_s > MAX_DELAY_S:
            longest_s = math.inf
        self._received_s = received_s
        self._shortest_s = max(self._least_s, min(offset_s, longest_s))
        return remote_s + self._shortest_s


def is_clock_jump(stamped_s: float, arrived_s: float) -> bool:
    """Whether a source's clock was set between two messages, by the differences of stamps and arrivals.

    Stamps that advance by less than the arrivals are no jump if these are at most MAX_DELAY_S apart:
    messages waited.
    """
    if 0.0 <= stamped_s <= arrived_s <= MAX_DELAY_S:
        return False
    return abs(stamped_s - arrived_s) > CLOCK_JUMP_S


def clock_off(frame_age_s: float) -> str:
    """Returns how the clock that stamped a frame of this age differs from this one, or an empty text."""
    if frame_age_s < -AHEAD_S:
        return f"its frame is stamped {-frame_age_s:.1f} s ahead of this clock: {SYNCHRONISE}"
    if frame_age_s > CLOCK_OFF_S:
        return f"its frame is stamped {frame_age_s:.0f} s ago: {SYNCHRONISE}"
    return ""
