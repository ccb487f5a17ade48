"""Whether a draft that the cloud waits for comes, and when, by what happened to those before it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from outrider.decoding.estimates import Mean
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

Reason = Literal["hinted", "alive", "surprise"]


class Awaited(NamedTuple):
    """A draft comes with this `chance`, and `delay_s` after the edge knew what to draft; it is late after
    `until_s` of the cloud's clock.
    """

    chance: float
    since_s: float
    delay_s: float
    until_s: float


class _Waits:
    """For one reason: how often a draft came before the next step would have ended, and how late it was."""

    def __init__(self, tuning: AdaptiveTuning) -> None:
        self.chance = Mean(tuning)
        self.delay = Mean(tuning)

    def on_outcome(self, delay_s: float | None) -> None:
        self.chance.add(float(delay_s is not None))
        if delay_s is not None:
            self.delay.add(delay_s)


class Waiting:
    """For the next draft of a session. Times in seconds of the cloud's clock; `step_s` is what a step takes.

    Why a draft may soon come: the outcome had been hinted at; the text moved along a branch whose rest may be
    on its way; or, a surprise, only because the edge will answer the verdict.
    """

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._late_steps = tuning.late_steps
        self._waits: dict[Reason, _Waits] = {
            reason: _Waits(tuning) for reason in ("hinted", "alive", "surprise")
        }
        self._awaited: tuple[Reason, float] | None = None

    def begin_text(self) -> None:
        """The time since the last text says nothing about how long drafts take."""
        self._awaited = None

    def on_draft(self, now_s: float) -> None:
        """A draft that fits has come."""
        if self._awaited is not None:
            reason, since_s = self._awaited
            self._waits[reason].on_outcome(now_s - since_s)
            self._awaited = None

    def on_starved(self, reason: Reason, since_s: float, stepped: bool, step_s: float) -> None:
        """The text has moved on and no draft fits it; the edge knows since then what it should draft.

        A step taken meanwhile does not delay the draft that answers a surprise.
        """
        if stepped and reason != "hinted" and self._awaited is not None and since_s <= self._late_s(step_s):
            return
        self.on_fed()
        self._awaited = reason, since_s

    def on_fed(self) -> None:
        """The text has moved on to where a draft lies: what was waited for has not come in time."""
        if self._awaited is not None:
            self._waits[self._awaited[0]].on_outcome(None)
            self._awaited = None

    def awaited(self, step_s: float) -> Awaited | None:
        """What is waited for; None for nothing, or where no such draft has ever come."""
        if self._awaited is None:
            return None
        reason, since_s = self._awaited
        waits = self._waits[reason]
        if not waits.delay.known:
            return None
        return Awaited(waits.chance.value, since_s, waits.delay.value, self._late_s(step_s))

    def _late_s(self, step_s: float) -> float:
        """When a draft that is awaited would be unusually late."""
        assert self._awaited is not None
        reason, since_s = self._awaited
        return since_s + self._waits[reason].delay.value + self._late_steps * step_s
