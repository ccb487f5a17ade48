"""How the cloud spends its time on one session: verify how much of a draft, wait for one, or step alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal

from outrider.decoding.estimates import Mean, Odds, Speed
from outrider.decoding.theory import expected_tokens
from outrider.decoding.trust import Trust

LATE = 0.5
"""How much later than usual a draft may be before the cloud goes on alone, in steps."""
LOST_BY_WRONG_AIM = 1.0
"""Tokens that would have come had the verification not been given up for another outcome."""
RECENT_VERIFICATIONS = 100
"""A time that is not seen again among so many forwards is forgotten: it was a hiccup's, or the machine's that
is another now."""
RECENT_LEAVES = 8
"""To begin again takes the least time of so many: in the others something else came between."""
Reason = Literal["hinted", "alive", "surprise"]
Ending = Literal["step", "whole", "fell"]
"""Of a verification: it had no draft, all of it stood, or not all."""


class _Waits:
    """For one reason: how often a draft came before the next step would have ended, and how late it was."""

    def __init__(self) -> None:
        self.chance = Mean()
        self.delay = Mean()

    def on_outcome(self, delay_s: float | None) -> None:
        self.chance.add(float(delay_s is not None))
        if delay_s is not None:
            self.delay.add(delay_s)


class Pace:
    """One session's estimates at the cloud, over all its texts. Times in seconds of the cloud's clock.

    Why a draft may soon come: the outcome had been hinted at; the text moved along a branch whose rest may be
    on its way; or, a surprise, only because the edge will answer the verdict.
    """

    def __init__(self) -> None:
        self.trust = Trust()
        self._speed = Speed()
        self._odds = Odds()
        self._second = Odds((0.4,))
        self._step = Mean()
        self._verify: dict[int, Mean] = {}
        self._wide: dict[int, Mean] = {}
        """By all tokens of a forward with drafts beside: cut otherwise, a draft as long may take longer."""
        self._wide_at: dict[int, int] = {}
        self._verified = 0
        self._begins = True
        self._nearest: dict[int, Mean] = {}
        """By the length of a draft, of which none need have been verified."""
        self._length = Mean()
        self._leaving: deque[float] = deque(maxlen=RECENT_LEAVES)
        self._left_at = 0
        self._ready: dict[Ending, Mean] = {ending: Mean() for ending in ("step", "whole", "fell")}
        self._waits: dict[Reason, _Waits] = {reason: _Waits() for reason in ("hinted", "alive", "surprise")}
        self._awaited: tuple[Reason, float] | None = None

    def begin_text(self) -> None:
        """The time since the last text says nothing about how long drafts take."""
        self._awaited = None
        self._begins = True
        self._speed.begin_text()

    def on_committed(self, num_tokens: int, now_s: float) -> None:
        """The text has grown."""
        self._speed.on_commit(num_tokens, now_s)

    def on_verified(self, num_drafted: int, compute_s: float, num_beside: int = 0) -> None:
        """A forward over a draft (or a step, with none) and so many tokens of others took so long."""
        self._verified += 1
        if self._verified - self._left_at > RECENT_VERIFICATIONS:
            self._leaving.clear()
        if not num_drafted:
            self._step.add(compute_s)
            return
        self._length.add(num_drafted)
        self._forget_wide()
        if num_beside:
            self._on_wide(num_drafted + num_beside, compute_s)
            return
        if num_drafted not in self._verify:
            self._verify[num_drafted] = Mean()
            self._nearest.clear()
        self._verify[num_drafted].add(compute_s)

    def _on_wide(self, num_tokens: int, compute_s: float) -> None:
        """The first one of a text has also brought its prompt to where the others are verified."""
        if not self._begins:
            self._wide.setdefault(num_tokens, Mean()).add(compute_s)
            self._wide_at[num_tokens] = self._verified
        self._begins = False

    def _forget_wide(self) -> None:
        oldest = self._verified - RECENT_VERIFICATIONS
        for size in [size for size, seen_at in self._wide_at.items() if seen_at <= oldest]:
            del self._wide[size], self._wide_at[size]

    def on_begun_again(self, after_s: float) -> None:
        """So long after it was given up a verification has begun again, aimed better."""
        self._leaving.append(after_s)
        self._left_at = self._verified

    def on_draft_judged(self, stood: int, fell: bool) -> None:
        """So many tokens of a draft stood, and whether the next one did not."""
        for _ in range(stood):
            self._odds.on_outcome(0)
        if fell:
            self._odds.on_outcome(None)

    def on_second_judged(self, stood: bool) -> None:
        """Whether another draft that was verified beside one went on where that one fell."""
        self._second.on_outcome(0 if stood else None)

    def on_stepped_beside(self, agreed: bool) -> None:
        """A step was taken although a draft lay there, whose first token it did or did not write."""
        self._odds.on_outcome(0 if agreed else None)

    def on_ready(self, num_ready: int, num_drafted: int, stood: int) -> None:
        """Of so many drafted tokens so many stood; of a draft that goes on from there so much lay ready."""
        self._ready[_ending(num_drafted, stood)].add(num_ready)

    def on_draft(self, now_s: float) -> None:
        """A draft that fits has come."""
        if self._awaited is not None:
            reason, since_s = self._awaited
            self._waits[reason].on_outcome(now_s - since_s)
            self._awaited = None

    def on_starved(self, reason: Reason, since_s: float, stepped: bool) -> None:
        """The text has moved on and no draft fits it; the edge knows since then what it should draft.

        A step taken meanwhile does not delay the draft that answers a surprise.
        """
        if stepped and reason != "hinted" and self._awaited is not None and since_s <= self._late_s():
            return
        self._give_up()
        self._awaited = reason, since_s

    def on_fed(self) -> None:
        """The text has moved on to where a draft lies."""
        self._give_up()

    def expected_tokens(self, num_drafted: int) -> float:
        """What the verification of so many yields on average."""
        return expected_tokens(self._odds.rate(), num_drafted)

    def part_of(self, num_drafted: int, running_s: float) -> float:
        """What part of the verification of so many has been done after so long, as far as is known."""
        known = self._verify if num_drafted else self._step.known
        return min(1.0, running_s / self._time(num_drafted)) if known else 1.0

    def chunk_length(self, num_offered: int) -> int:
        """How many of the offered tokens to verify; 0 to take a step instead."""
        if not self._step.known or not self._verify:
            return num_offered
        rate, best, most = self._odds.rate(), 0, 0.0
        tokens = survives = 1.0  # `expected_tokens` of every length, in one sum
        for length in range(num_offered + 1):
            gain = tokens / self._time(length)
            if gain >= most:
                best, most = length, gain
            survives *= rate
            tokens += survives
        return best

    def num_beside(self, num_drafted: int, leaves: Sequence[tuple[int, int]]) -> int:
        """How many of the drafts that leave one of so many tokens to verify beside it, each given by where it
        leaves and its length. What they yield is weighed against what is written in the time they take.
        """
        if not self._step.known or not self._verify:
            return 0
        rate, second, alone_s = self._odds.rate(), self._second.rate(), self._time(num_drafted)
        speed = max(self._speed.value, 1.0 / self._step.value)
        times = self._verify | self._wide
        best, most, tokens, rows = 0, 0.0, 0.0, num_drafted
        places: set[int] = set()
        for count, (left_at, length) in enumerate(leaves, 1):
            if left_at not in places:  # `second` is the chance of all that leave there
                tokens += rate**left_at * (1.0 - rate) * second * expected_tokens(rate, length - left_at - 1)
            places.add(left_at)
            rows += length + 1
            gain = tokens - speed * (_nearest_to(rows, times).value - alone_s)
            if gain >= most:
                best, most = count, gain
        return best

    def gain_of_aim(
        self, chance: float, num_drafted: int, num_named: int, num_ready: int, elapsed_s: float
    ) -> float:
        """Tokens gained by giving up a verification after so long for one of its likely outcome, of so many
        tokens, and so many more that lie ready, or none.

        With that `chance` one forward does for two, but for what would have come to those ready before the
        second, as much as usually lies ready by then; else whatever else the draft had right is lost. To
        begin again takes its time too.
        """
        if not self._step.known or not self._verify:
            return 0.0
        rate, running_s = self._odds.rate(), self._time(num_drafted)
        whole_s = self._time(num_named + num_ready)
        speed = max(self._speed.value, 1.0 / self._step.value)
        usual = self._ready[_ending(num_drafted, num_named - 1)].value
        to_come = max(0.0, usual - num_ready) * max(0.0, 1.0 - elapsed_s / running_s)
        fewer = expected_tokens(rate, num_ready + to_come) - expected_tokens(rate, num_ready)
        right = speed * (running_s + self._time(num_ready) - whole_s) - fewer
        wrong = LOST_BY_WRONG_AIM + speed * max(0.0, whole_s - running_s)
        return chance * right - (1.0 - chance) * wrong - speed * (elapsed_s + min(self._leaving, default=0.0))

    def wait_until_s(self, now_s: float) -> float:
        """Until when to wait for a draft before taking a step; now or earlier: do not wait."""
        if self._awaited is None or not (self._step.known and self._verify):
            return now_s
        reason, since_s = self._awaited
        waits = self._waits[reason]
        if not waits.delay.known:
            return now_s
        until_s = self._late_s()
        return until_s if self._pays(waits, since_s, until_s, now_s) else now_s

    def _late_s(self) -> float:
        """When a draft that is awaited would be unusually late."""
        assert self._awaited is not None
        reason, since_s = self._awaited
        return since_s + self._waits[reason].delay.value + LATE * self._step.value

    def _pays(self, waits: _Waits, since_s: float, until_s: float, now_s: float) -> bool:
        """Whether waiting, maybe in vain, beats a step, which may contradict the draft awaited.

        Both are valued as tokens, less what is written in such a time on average.
        """
        chance, rate, step_s = waits.chance.value, self._odds.rate(), self._step.value
        num_drafted = max(1, round(self._length.value))
        verify_s = self._time(num_drafted)
        speed = max(self._speed.value, 1.0 / step_s)
        came = expected_tokens(rate, num_drafted) - speed * verify_s
        came -= speed * max(0.0, since_s + waits.delay.value - now_s)
        step = 1.0 - speed * step_s
        missed = step - speed * max(0.0, until_s - now_s)
        rest = expected_tokens(rate, num_drafted - 1) - speed * verify_s
        return chance * came + (1.0 - chance) * missed > step + chance * rate * rest

    def _give_up(self) -> None:
        """What was waited for has not come in time."""
        if self._awaited is not None:
            self._waits[self._awaited[0]].on_outcome(None)
            self._awaited = None

    def _time(self, num_drafted: int) -> float:
        if num_drafted == 0:
            return self._step.value
        mean = self._nearest.get(num_drafted)
        if mean is None:
            mean = self._nearest[num_drafted] = _nearest_to(num_drafted, self._verify)
        return mean.value


def _ending(num_drafted: int, stood: int) -> Ending:
    if not num_drafted:
        return "step"
    return "whole" if stood >= num_drafted else "fell"


def _nearest_to(length: int, times: Mapping[int, Mean]) -> Mean:
    return times[min(times, key=lambda n: abs(n - length))]
