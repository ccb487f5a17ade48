# SPDX-License-Identifier: Apache-2.0
"""The policy of the strategy `outrider`: it reads early exits, sends hints and restarts verifications."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.core.frames import Rules
from outrider.decoding.acceptance.schemes import SCHEMES, Evidence
from outrider.decoding.jobs import ExitHint, Verify
from outrider.decoding.policy.cloud_drafting import Prospect
from outrider.decoding.policy.exit_predictions import ExitPredictions
from outrider.decoding.policy.session_estimates import SessionEstimates, VerificationOutcome
from outrider.decoding.policy.speculation import (
    DraftView,
    FixedPolicy,
    Outcome,
    Plan,
)
from outrider.decoding.protocol.prefix_digest import Tokens
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

ROUNDING = 1e-9
"""Chances that differ by less count as equal: exp and log differ that much between processors."""


class HintFilter:
    """Chooses which predicted outcomes are sent to the edge as hints: new ones, and those much surer."""

    def __init__(self, tuning: AdaptiveTuning = DEFAULT_TUNING) -> None:
        self._tuning = tuning
        self._chances: dict[Tokens, float] = {}

    def accepts(self, tokens: Tokens, chance: float) -> bool:
        """Return whether to send an outcome of that chance as a hint."""
        surer_by = self._tuning.hint_repeat_gain - ROUNDING
        if not self._tuning.send_hints or chance < self._chances.get(tokens, -surer_by) + surer_by:
            return False
        self._chances[tokens] = chance
        return True

    def forget(self) -> None:
        """Forget the hints that were sent: the verification has ended."""
        self._chances = {}


class AdaptivePolicy(FixedPolicy):
    """Decides for one text by its session's estimates. It always has a next forward, a step if no draft
    pays; in a batch, that step may still have to wait for other robots' work.
    """

    def __init__(self, hinted: bool, estimates: SessionEstimates, cloud_drafts: bool = False) -> None:
        """`hinted`: whether the edge asks for hints; without them no exits are read. `cloud_drafts`:
        whether the cloud has a draft model of its own.
        """
        super().__init__(False, hinted, estimates)
        self._cloud_drafts = cloud_drafts
        self._predictions = ExitPredictions(estimates)
        self._restart = self._predictions.restart
        self._filter = HintFilter(estimates.tuning)
        self._exit_outcomes: Sequence[Outcome] = ()
        """The outcomes of the running verification that the last exit predicted."""
        self._exits_used = False
        """Whether exit predictions have changed what the cloud drafts ahead."""
        self._probed = False
        """Whether the cloud has drafted a token here that seems not to pay, to test whether it does."""

    @property
    def assumed(self) -> Tokens:
        """The tokens predicted by exits that the next verification begins with."""
        return self._restart.tokens

    def draft_after(self, view: DraftView) -> Tokens | None:
        """Return the tokens after which one more token of the cloud's draft is worth its time, else None."""
        if not self._cloud_drafts or not self.estimates.times.any_known:
            return None
        ready, evidence = self._ready(view)
        extent = self.estimates.extent(evidence, len(self.assumed), view.room)
        after = ready[: extent.ready]
        if not view.continues(after) or len(after) >= view.room:
            return None
        if extent.more:
            return after
        unused = not self._probed and evidence[: extent.ready].count(None) == extent.ready
        self._probed = self._probed or (unused and self.estimates.probe_due(len(after)))
        return after if unused and self._probed else None

    def draft_ahead(self, view: DraftView, running: Tokens) -> tuple[Tokens, ...]:
        """Return the likeliest ends of the draft tree, as many as are worth drafting in one batch."""
        if not self._cloud_drafts or not self.estimates.times.any_known:
            return ()
        estimates = self.estimates
        beyond = estimates.cloud.length_ahead(view.room, estimates.times.draft_s)
        most = estimates.tuning.ahead_positions
        self._exits_used = self._exits_used or bool(self._exit_outcomes)
        ends = view.open_ends(running, self._exit_outcomes, beyond, most, estimates.chance_of)
        positions = estimates.cloud.num_positions([chance for _, chance in ends])
        return tuple(path for path, _ in ends[:positions])

    def on_drafted(self, able: bool, seconds: float, num_positions: int) -> None:
        if able:
            self.estimates.on_cloud_drafted(seconds, num_positions)
        else:
            self._cloud_drafts = False

    def _ready(self, view: DraftView) -> tuple[Tokens, tuple[Evidence, ...]]:
        """Return the ready draft, after the exit-predicted tokens if the verification has any."""
        ready, evidence = view.best(self.assumed)
        return self.assumed + ready, (None,) * len(self.assumed) + evidence

    def plan(self, view: DraftView) -> Plan | None:
        """Return a verification of as much of the best draft as pays, else a step."""
        draft, evidence = self._draft(view)
        return Plan(draft, evidence, self._read_exits and self.estimates.exit_gate.reads)

    def _draft(self, view: DraftView) -> tuple[Tokens, tuple[Evidence, ...]]:
        if self._cloud_drafts and self.estimates.times.any_known:
            draft, evidence = self._ready(view)
            length = self.estimates.extent(evidence, len(self.assumed), view.room, may_draft=False).ready
            if self._probed and length < len(draft) and evidence[length] is not None:
                length += 1
            return draft[:length], evidence[:length]
        if self.assumed:
            draft = self.assumed + self._worth_verifying(view, self.assumed)
            return draft, (None,) * len(draft)
        draft, evidence = view.best()
        length = self.estimates.num_worth_verifying(len(draft))
        return draft[:length], evidence[:length]

    def _worth_verifying(self, view: DraftView, after: Tokens) -> Tokens:
        """Return the part worth verifying of the ready branch after `after`; at least one token if any."""
        ready, _ = view.best(after)
        return ready[: max(1, self.estimates.num_worth_verifying(len(ready)))]

    def on_begin(self, now_s: float) -> None:
        self._exit_outcomes = ()
        self._restart.begin(now_s)

    def on_exit(
        self, job: Verify, hint: ExitHint, view: DraftView, longest: int, now_s: float
    ) -> Sequence[Outcome]:
        """Return the outcomes to send as hints; check whether to restart for one of them."""
        observed = self._predictions.observe(hint)
        outcomes = self._predictions.outcomes(observed, job.draft)
        self._exit_outcomes = outcomes
        starts = [
            (tokens, chance)
            for tokens, chance in outcomes
            if len(tokens) <= longest and view.continues(tokens)
        ]
        self._restart.consider(job.draft, starts, lambda after: self._worth_verifying(view, after), now_s)
        announced = [(view.announced(tokens), chance) for tokens, chance in outcomes]
        return [(tokens, chance) for tokens, chance in announced if self._filter.accepts(tokens, chance)]

    @property
    def should_abort(self) -> bool:
        return self._restart.should_abort

    def on_abort(self, job: Verify, is_current: bool, now_s: float) -> float:
        """As `FixedPolicy`. Exit predictions are kept, to be compared with the next verification's result."""
        share = self.estimates.times.part_of(len(job.draft), self._restart.running_s(now_s))
        if is_current:
            self._predictions.on_aborted(job.draft)
        return share

    def on_reset(self) -> None:
        self._exit_outcomes = ()
        self._predictions.forget()
        self._filter.forget()

    def num_exit_tokens(self, draft: Tokens, accepted: int) -> int | None:
        """As `FixedPolicy`. A batch may have cut the draft within the assumed tokens."""
        if not self.assumed or draft[: len(self.assumed)] != self.assumed[: len(draft)]:
            return None
        return self._predictions.num_exit_tokens(accepted, len(draft))

    def on_verdict(self, outcome: VerificationOutcome) -> None:
        self._probed = False
        self._filter.forget()
        known = len(self.assumed)
        self._predictions.learn_from_aborted(outcome.new)
        self.estimates.on_verdict(outcome, known, self._exits_used)
        self._exits_used = False
        self._predictions.on_judged(outcome.job.draft, outcome.new)

    def prospect(self, view: DraftView, num_drafted: int, longest: int) -> Prospect:
        if not self._cloud_drafts or not self.estimates.times.any_known:
            return Prospect(self.estimates.expected_tokens(min(num_drafted, longest)))
        _, evidence = self._ready(view)
        return self.estimates.prospect(evidence, len(self.assumed), min(view.room, longest))


def policy_of(rules: Rules, estimates: SessionEstimates, cloud_drafts: bool = False) -> FixedPolicy:
    """Return the policy for a session's next text, as an edge's rules ask for.

    `cloud_drafts`: whether the cloud has a draft model of its own. It drafts nothing for a scheme that
    tests each token by the edge's evidence.
    """
    cloud_drafts = cloud_drafts and SCHEMES[rules.acceptance].deterministic
    estimates.begin_text()
    hinted = rules.hints != "none"
    if rules.when_idle == "adaptive":
        return AdaptivePolicy(hinted, estimates, cloud_drafts)
    return FixedPolicy(rules.when_idle == "step", hinted, estimates)
