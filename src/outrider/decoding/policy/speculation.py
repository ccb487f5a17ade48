# SPDX-License-Identifier: Apache-2.0
"""The cloud's decisions about one text: `FixedPolicy`, and its subclass `adaptive.AdaptivePolicy`.

`cloud.target_sequence` calls its policy at these moments of a verification, in this order:

    plan -> on_begin -> on_exit (for each early exit) -> on_abort or on_verdict

A policy sees the drafts through `DraftView`. It holds no frames and changes no text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from outrider.decoding.acceptance.schemes import Evidence
from outrider.decoding.jobs import ExitHint, Verify
from outrider.decoding.policy.cloud_drafting import Prospect
from outrider.decoding.policy.session_estimates import SessionEstimates, VerificationOutcome
from outrider.decoding.protocol.prefix_digest import Tokens

Outcome = tuple[Tokens, float]
"""A possible end of a verification: the tokens after the text, and their chance."""


class Plan(NamedTuple):
    """The next forward: a draft with its evidence; an empty draft is a step. `read_exits`: whether the
    forward's early exits are read.
    """

    draft: Tokens
    evidence: tuple[Evidence, ...]
    read_exits: bool


class DraftView(Protocol):
    """A text's drafts, as a policy sees them."""

    @property
    def room(self) -> int:
        """Return how many tokens may still be drafted; the verification itself adds one more."""

    @property
    def step_requested(self) -> bool:
        """Return whether the edge asks for a token of the target's own."""

    def best(self, after: Tokens = ()) -> tuple[Tokens, tuple[Evidence, ...]]:
        """Return the likeliest draft after the text and these tokens, with its evidence."""

    def open_ends(
        self,
        running: Tokens,
        outcomes: Sequence[Outcome],
        beyond: int,
        most: int,
        chances: Callable[[int, Evidence], float],
    ) -> list[tuple[Tokens, float]]:
        """Return the `most` likeliest texts from this one on after which nothing is drafted yet, likeliest
        first, with their likelihoods. None goes more than `beyond` tokens further than the verification of
        the `running` draft may reach. `outcomes`: of that verification, as exits predict them; `chances`:
        of a token by its rank and evidence, given the text before it.
        """

    def continues(self, tokens: Tokens) -> bool:
        """Return whether the text goes on after these tokens and they fit, so that they may be a draft."""

    def announced(self, tokens: Tokens) -> Tokens:
        """Return the tokens that a hint may name: none after the text's end, and no more than fit a hint."""


class FixedPolicy:
    """Decides what the cloud does next for one text, as in the papers. Times are seconds of the cloud's
    clock. A draft that fits is verified at once.

    `steps` (`ar`): without a draft, take a step. Otherwise, wait for a draft, unless the edge asks for a
    step. `read_exits` (`fsd`): send the edge what every early exit predicts.
    """

    def __init__(self, steps: bool, read_exits: bool, estimates: SessionEstimates) -> None:
        self.never_waits = steps
        """Whether to take a step if there is no draft."""
        self._read_exits = read_exits
        self.estimates = estimates
        self._begun_s = 0.0

    def draft_after(self, view: DraftView) -> Tokens | None:
        """Return the tokens after which the cloud's own draft should grow now; None if nowhere."""
        return None

    def draft_ahead(self, view: DraftView, running: Tokens) -> tuple[Tokens, ...]:
        """Return the texts after this one where the cloud's draft should grow, as one batch, while a
        verification runs on another device.
        """
        return ()

    def on_drafted(self, able: bool, seconds: float, num_positions: int) -> None:
        """Record a batch of the cloud's draft, one token at each of `num_positions`, and its time; `able`:
        whether the cloud can draft this text at all.
        """

    def plan(self, view: DraftView) -> Plan | None:
        """Return the next forward, or None to wait for a draft."""
        draft, evidence = view.best()
        if draft or self.never_waits or view.step_requested:
            return Plan(draft, evidence, self._read_exits)
        return None

    def on_begin(self, now_s: float) -> None:
        """Note that a verification begins."""
        self._begun_s = now_s

    def on_exit(
        self, job: Verify, hint: ExitHint, view: DraftView, longest: int, now_s: float
    ) -> Sequence[Outcome]:
        """Return the outcomes to send to the edge. No draft longer than `longest` tokens can be verified."""
        return [(view.announced((*job.draft[: hint.accepted], hint.next_token)), hint.confidence)]

    @property
    def should_abort(self) -> bool:
        """Whether a better verification than the running one is known. Queried at exits; the answer
        counts only for a job that is alone in its batch.
        """
        return False

    def on_abort(self, job: Verify, is_current: bool, now_s: float) -> float:
        """Note an abort; `is_current`: the text has not changed since. Return the share that had run."""
        return self.estimates.times.part_of(len(job.draft), now_s - self._begun_s)

    def on_reset(self) -> None:
        """Drop all predictions: the text has been replaced."""

    def num_exit_tokens(self, draft: Tokens, accepted: int) -> int | None:
        """Return how many tokens of a verified draft came from early exits rather than from the edge; None
        if the draft is the edge's own.
        """
        return None

    def on_verdict(self, outcome: VerificationOutcome) -> None:
        """Learn from the result of a verification."""
        self.estimates.on_verdict(outcome)

    def prospect(self, view: DraftView, num_drafted: int, longest: int) -> Prospect:
        """Return the prospect of the next verification: `num_drafted` tokens are ready, `longest` allowed."""
        return Prospect(self.estimates.expected_tokens(min(num_drafted, longest)))
