# SPDX-License-Identifier: Apache-2.0
"""Counts the time that has passed for the records, by a clock that may be wrong at times. Pure functions.

A robot without a battery for its clock starts in 1970, and may once be years ahead. So a record's age is
never the difference between two stamps. Time is counted in steps from one reading of the clock to the next.
A step backwards, or one forwards that is longer than `longest_step_s`, means that the clock was set, and
counts nothing. Since one wrong step may still be counted, records are kept for that much longer than their
maximum age.
"""

from __future__ import annotations

from dataclasses import dataclass

DAY_S = 86_400.0
LONGEST_STEP_S = 30 * DAY_S
FIRST_STAMP_S = 1e9
"""In 2001, after the years in which clocks without a battery start: 1970, 1980 and 2000."""
AHEAD_S = 60.0


@dataclass(frozen=True)
class Passed:
    """The last reading of the clock (seconds since the epoch), and the time counted until then."""

    clock_s: float
    lived_s: float = 0.0

    def at(self, clock_s: float, max_age_s: float) -> Passed:
        """Returns the state after another reading."""
        step_s = clock_s - self.clock_s
        counted_s = step_s if 0.0 <= step_s <= longest_step_s(max_age_s) else 0.0
        return Passed(clock_s, self.lived_s + counted_s)

    def oldest_s(self, max_age_s: float) -> float:
        """Returns the value of `lived_s` before which records are to be forgotten."""
        return self.lived_s - max_age_s - longest_step_s(max_age_s)


def is_possible(stamp_s: float, now_s: float) -> bool:
    """Whether a stamp may be right by the present clock: not in the future, nor in 1970 as of today."""
    return stamp_s <= now_s + AHEAD_S and (stamp_s >= FIRST_STAMP_S or now_s < FIRST_STAMP_S)


def longest_step_s(max_age_s: float) -> float:
    """Returns the longest step that counts as passed time: half the age, at most 30 days."""
    return min(LONGEST_STEP_S, max_age_s / 2.0)
