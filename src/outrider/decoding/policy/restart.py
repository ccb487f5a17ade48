# SPDX-License-Identifier: Apache-2.0
"""When a running verification, or step, should be aborted for one that knows more.

`TargetSequence.should_abort` asks here; the forward ends at an exit (`execution.batch_verification`).

Early exits predict how a verification ends. One forward can judge that end and what comes after it: it
begins again, with the end predicted as its draft and the branch that lies ready after it, or none. That costs
the time since the verification began and saves the next one where the exits were right. Where they were not,
the target has its word all the same: what is predicted is judged like any draft. Where no branch lies ready,
above all where the edge is far away, the target so drafts for itself with its own first layers (as Kangaroo,
arXiv 2404.18911, and LayerSkip, arXiv 2404.16710).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from outrider.decoding.policy.session_estimates import SessionEstimates
from outrider.decoding.protocol.prefix_digest import Tokens


class _Better(NamedTuple):
    """The tokens to begin with that no draft need hold, and their chance; when that was found, and the tokens
    it gains.
    """

    tokens: Tokens
    chance: float
    found_s: float
    gain: float


class RestartRule:
    """What one text's next verification begins with. Times in seconds of the cloud's clock."""

    def __init__(self, estimates: SessionEstimates) -> None:
        self._estimates = estimates
        self._begun_s = 0.0
        self.drop()

    def drop(self) -> None:
        """Nothing is predicted any more."""
        self.tokens: Tokens = ()
        self.chance = 1.0
        self._better: _Better | None = None
        self._aborted_s: float | None = None
        self.ends: tuple[int, ...] = ()
        """Of `tokens` the places whose token is an exit's own: it contradicted the draft or went on."""

    def begin(self, now_s: float) -> None:
        """A verification begins, maybe the one that another was aborted for."""
        if self._aborted_s is not None:
            self._estimates.times.on_begun_again(now_s - self._aborted_s)
        self._begun_s, self._aborted_s = now_s, None
        self._better = None

    @property
    def is_better(self) -> bool:
        """Whether the running verification should be aborted for another."""
        return self._better is not None

    def running_s(self, now_s: float) -> float:
        """For how long the verification has run."""
        return now_s - self._begun_s

    def look(
        self,
        draft: Tokens,
        outcomes: Iterable[tuple[Tokens, float]],
        after: Callable[[Tokens], Tokens],
        now_s: float,
    ) -> None:
        """How the verification of a draft may end, each with its chance; `after` gives the branch that lies
        ready after one, or nothing.
        """
        for tokens, chance in outcomes:
            ready = after(tokens)
            whole = tokens + ready
            if draft[: len(whole)] == whole:
                continue
            gain = self._estimates.gain_of_restart(
                chance, len(draft), len(tokens), len(ready), self.running_s(now_s)
            )
            self._weigh(_Better(tokens, chance, now_s, gain))

    def _weigh(self, found: _Better) -> None:
        """Leaving must gain some tokens: less is lost in what is not known, and the next exit knows more."""
        least = self._estimates.tuning.min_restart_gain if self._better is None else self._better.gain
        if found.gain > least:
            self._better = found

    def take(self) -> None:
        """The verification has been aborted: what was better is what the next one begins with."""
        if self._better is None:
            return
        self.tokens, self.chance, self._aborted_s, _ = self._better
        self.ends = (*self.ends, len(self.tokens) - 1)
