# SPDX-License-Identifier: Apache-2.0
"""How much time has passed for the memories, by a clock that may be wrong for a while. Pure functions.

A robot without a battery for its clock wakes up in 1970, and may be years ahead once. So no record's age is
the difference between two stamps. Time is counted as it is seen to pass, from one look at the clock to the
next: a step back, and one forward longer than `longest_step_s`, says that the clock was set, and counts
nothing. Since one wrong step may still be counted, records live as much longer than their age.
"""

from __future__ import annotations

from dataclasses import dataclass

DAY_S = 86_400.0
LONGEST_STEP_S = 30 * DAY_S
FIRST_STAMP_S = 1e9
"""In 2001, after the years that clocks without a battery begin with: 1970, 1980 and 2000."""
AHEAD_S = 60.0


@dataclass(frozen=True)
class Passed:
    """The last look at the clock (seconds since the epoch), and the time seen to pass until then."""

    clock_s: float
    lived_s: float = 0.0

    def at(self, clock_s: float, max_age_s: float) -> Passed:
        """The state after another look."""
        step_s = clock_s - self.clock_s
        counted_s = step_s if 0.0 <= step_s <= longest_step_s(max_age_s) else 0.0
        return Passed(clock_s, self.lived_s + counted_s)

    def oldest_s(self, max_age_s: float) -> float:
        """What was told before this point of `lived_s` is to be forgotten."""
        return self.lived_s - max_age_s - longest_step_s(max_age_s)


def is_possible(stamp_s: float, now_s: float) -> bool:
    """Whether a stamp can be right by the clock now: not of the future, nor of 1970 as seen from today."""
    return stamp_s <= now_s + AHEAD_S and (stamp_s >= FIRST_STAMP_S or now_s < FIRST_STAMP_S)


def longest_step_s(max_age_s: float) -> float:
    """The longest time between two looks that is taken to have passed: half the age, at most 30 days."""
    return min(LONGEST_STEP_S, max_age_s / 2.0)
