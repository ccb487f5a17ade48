# SPDX-License-Identifier: Apache-2.0
"""What decides about a text at the cloud: `FixedPolicy`, and `adaptive.AdaptivePolicy`, which overrides it.

`cloud.target_sequence` asks its policy at five moments of a verification, in this order:

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
"""How a verification may end, as the tokens after the text, and the chance of that."""


class Plan(NamedTuple):
    """The next forward: a draft with its evidence, or a step where it is empty. `read_exits`: whether the
    early exits are read on the way.
    """

    draft: Tokens
    evidence: tuple[Evidence, ...]
    read_exits: bool


class DraftView(Protocol):
    """A text's drafts, as a policy sees them."""

    @property
    def room(self) -> int:
        """Return how many tokens may still be drafted: a verification itself adds one."""

    @property
    def step_requested(self) -> bool:
        """Return whether the edge waits for a token of the target's own."""

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
        first, with likelihoods. None is more than `beyond` tokens longer than what the verification of the
        `running` draft may write, of which exits predict the `outcomes`. `chances`: of a token by its rank
        and evidence, given the text before it.
        """

    def continues(self, tokens: Tokens) -> bool:
        """Return whether the text would go on after these tokens, so that they may be a draft."""

    def announced(self, tokens: Tokens) -> Tokens:
        """Return what a hint may name of these tokens: none past the text's end, nor more than fit it."""


class FixedPolicy:
    """What the cloud does next for one text: here the papers' strategies. Times are seconds of the cloud's
    clock. A draft that fits is verified at once.

    `steps` (`ar`): without one the target writes alone. The others wait, but for a step that the edge asks
    for. `read_exits` (`fsd`): the edge is told what every early exit predicts.
    """

    def __init__(self, steps: bool, read_exits: bool, estimates: SessionEstimates) -> None:
        self.never_waits = steps
        """Whether the text goes on without drafts."""
        self._read_exits = read_exits
        self.estimates = estimates
        self._begun_s = 0.0

    def draft_after(self, view: DraftView) -> Tokens | None:
        """Return the tokens after the text where the cloud's own draft should go on now, None for nowhere."""
        return None

    def draft_ahead(self, view: DraftView, running: Tokens) -> tuple[Tokens, ...]:
        """Return the texts after this one where the cloud's draft should go on, as one batch, while a
        verification runs on another device.
        """
        return ()

    def on_drafted(self, able: bool, seconds: float, places: int) -> None:
        """The cloud's draft has gone on at so many places in one batch, which took so long, or it is not able
        to draft this text.
        """

    def plan(self, view: DraftView) -> Plan | None:
        """Return the next forward, or None to wait for a draft."""
        draft, evidence = view.best()
        if draft or self.never_waits or view.step_requested:
            return Plan(draft, evidence, self._read_exits)
        return None

    def on_begin(self, now_s: float) -> None:
        """A verification begins."""
        self._begun_s = now_s

    def on_exit(
        self, job: Verify, hint: ExitHint, view: DraftView, longest: int, now_s: float
    ) -> Sequence[Outcome]:
        """Return the outcomes to tell the edge. No draft longer than `longest` tokens can be verified."""
        return [(view.announced((*job.draft[: hint.accepted], hint.next_token)), hint.confidence)]

    @property
    def should_abort(self) -> bool:
        """Whether a better verification than the running one is known. It is asked at exits, and only where
        the job is alone in its batch.
        """
        return False

    def on_abort(self, job: Verify, is_current: bool, now_s: float) -> float:
        """Note an abort; `is_current`: the text has not changed since. Return the share that had run."""
        return self.estimates.times.part_of(len(job.draft), now_s - self._begun_s)

    def on_reset(self) -> None:
        """The text has become another: what was predicted of it holds no more."""

    def num_exit_tokens(self, draft: Tokens, accepted: int) -> int | None:
        """Return how many tokens of a verified draft early exits had put there instead of the edge; None
        where the draft is the edge's own.
        """
        return None

    def on_verdict(self, outcome: VerificationOutcome) -> None:
        """Learn from what has come of a verification."""
        self.estimates.on_verdict(outcome)

    def prospect(self, view: DraftView, num_drafted: int, longest: int) -> Prospect:
        """Return what the next verification yields, of `num_drafted` tokens by now and `longest` at most."""
        return Prospect(self.estimates.expected_tokens(min(num_drafted, longest)))
