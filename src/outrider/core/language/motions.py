# SPDX-License-Identifier: Apache-2.0
"""Motions with numbers: reads the slots of a clause as a turn, a move, a point on the floor or a pause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outrider.core.language import plan as p
from outrider.core.language.names import Clause
from outrider.core.language.words.phrasebook import Phrasebook

TURN_DEG = {"small": 15.0, "": 30.0, "large": 45.0}
MOVE_M = {"small": 0.25, "": 0.5, "large": 0.75}
PAUSE_S = 5.0
WRITE_PLAIN = "write it like 1.5 or 1000"
_EITHER_SIDE_DEG = (180.0, 360.0)

Slots = dict[str, str]
"""The words of a clause, by the slot of its phrase."""


class Motions:
    """Builds motions from slots. Reasons why there is no step are added to `problems`."""

    book: Phrasebook
    problems: list[str]

    def turn(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return a turn in degrees, left positive; add a problem if it cannot be carried out."""
        units = dict.fromkeys(self.book.words("degrees"), 1.0)
        degrees = self._amount(slots.get("angle"), units, TURN_DEG[self._size(slots)])
        if degrees is None:
            return None
        if not 1.0 <= degrees <= p.MAX_TURN_DEG:
            return self._refuse(f"turns from 1 to {p.MAX_TURN_DEG:g} degrees, not {degrees:g}")
        if slots.get("side") is None and degrees not in _EITHER_SIDE_DEG:
            return self._refuse("names no side to turn to: say left or right")
        return self.turned(slots, degrees)

    def turned(self, slots: Slots, degrees: float) -> p.Turn:
        """Return a turn by `degrees`, to the left unless a side is named."""
        return p.Turn(self._sign(slots) * degrees)

    def forward(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return a move ahead in metres; add a problem for a distance out of range."""
        metres = self._amount(slots.get("distance"), self.book.metres, MOVE_M[self._size(slots)])
        if metres is None:
            return None
        if not 0.1 <= metres <= p.MAX_MOVE_M:
            return self._refuse(f"goes from 0.1 to {p.MAX_MOVE_M:g} m at once, not {metres:g} m")
        return p.Move(metres)

    def back(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return a move backwards, with the distance read as in `forward`."""
        step = self.forward(slots, clause)
        return p.Move(-step.metres) if isinstance(step, p.Move) else None

    def point(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return the step to a point on the floor; add a problem for one that is too far."""
        x, y = self._coordinate(slots["x"]), self._coordinate(slots["y"])
        if x is None or y is None:
            return None
        if max(abs(x), abs(y)) > p.MAX_POINT_M:
            point = f"{x:.10g} {y:.10g}"
            return self._refuse(f"goes to points up to {p.MAX_POINT_M:g} m from the start, not {point}")
        return p.Go(x, y)

    def wait(self, slots: Slots, clause: Clause) -> p.Step | None:
        """Return a pause in seconds; add a problem for one that is too long."""
        seconds = self._amount(slots.get("seconds"), self.book.seconds, PAUSE_S)
        if seconds is None:
            return None
        if not 0.0 < seconds <= p.MAX_WAIT_S:
            return self._refuse(f"waits for {p.MAX_WAIT_S:g} s at most, not {seconds:g} s")
        return p.Wait(seconds)

    # Slots.

    def _amount(self, words: str | None, units: Mapping[str, float], usual: float) -> float | None:
        """Return an amount, `usual` if none is said; None, and a problem, if it is not one plain number."""
        if words is None:
            return usual
        number = [word for word in words.split() if word not in units]
        return self._number(number, self.book.numerals.amount(words, units))

    def _coordinate(self, words: str) -> float | None:
        *sign, number = words.split()
        count = self._number([number], self.book.numerals.digits(number))
        return -count if count is not None and sign else count

    def _number(self, written: Sequence[str], count: float | None) -> float | None:
        if count is None:
            words = self.book.as_written(" ".join(written))
            self._refuse(f'says "{words}", which is not one plain number: {WRITE_PLAIN}')
        return count

    def _size(self, slots: Slots) -> str:
        size = slots.get("size")
        return self.book.key_of("sizes", size) if size else ""

    def _sign(self, slots: Slots) -> float:
        side = slots.get("side")
        return -1.0 if side and self.book.key_of("sides", side) == "right" else 1.0

    def _refuse(self, problem: str) -> p.Step | None:
        self.problems.append(problem)
        return None
