# SPDX-License-Identifier: Apache-2.0
"""One session's text at the cloud: the committed tokens, the drafts offered, and the job to run next."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from outrider.core.endings import has_ended, until_end
from outrider.core.errors import ProtocolError
from outrider.core.frames import (
    CloudFrame,
    Draft,
    Hint,
    Open,
    Opened,
    PrefillAgain,
    Proposal,
    Resume,
    Unsettled,
    Verdict,
)
from outrider.core.pairs import checksum
from outrider.core.ports import Tokenizer
from outrider.core.values import Prompt
from outrider.decoding.acceptance.schemes import SCHEMES, Choices, Residue
from outrider.decoding.cloud.drafted_text import DraftedText
from outrider.decoding.jobs import (
    CATCH_UP_TOKENS,
    CloudDraft,
    CloudJob,
    ExitHint,
    Judgement,
    PrefillTarget,
    SessionKey,
    Verify,
)
from outrider.decoding.policy.adaptive import policy_of
from outrider.decoding.policy.cloud_drafting import NUM_CHOICES, NUM_CHOICES_AHEAD, Prospect
from outrider.decoding.policy.session_estimates import SessionEstimates, VerificationOutcome
from outrider.decoding.protocol.branch_codec import unpack_runs
from outrider.decoding.protocol.prefix_digest import (
    DigestedText,
    Tokens,
    common_length,
    extend_digest,
    prompt_digest,
)
from outrider.decoding.protocol.sampling_rules import sampling_of


class TargetSequence:
    """The text of one epoch. The likeliest of the branches that fit the committed text is verified next."""

    def __init__(
        self,
        key: SessionKey,
        frame: Open,
        name: str,
        tokenizer: Tokenizer,
        estimates: SessionEstimates,
        cloud_drafts: bool = False,
    ) -> None:
        """`name`: the target's. `cloud_drafts`: whether the cloud has a draft model.

        Raises ProtocolError for a broken frame.
        """
        self._key, self._name = key, name
        self._end_ids = tokenizer.end_ids
        self._vocab_size = tokenizer.vocab_size
        self.epoch = frame.epoch
        self._prompt = Prompt(frame.text, frame.jpeg)
        self._max_new_tokens = frame.max_new_tokens
        self._rules = frame.rules
        self._scheme = SCHEMES[frame.rules.acceptance]
        self._sampling = sampling_of(frame.rules)
        self.policy = policy_of(frame.rules, estimates, cloud_drafts)
        self._root_digest = prompt_digest(self._prompt)
        self._drafts = DraftedText(self._root_digest, frame.max_new_tokens, tokenizer.end_ids)
        self._residue: Residue | None = None
        self._prefill_us: int | None = None
        self._num_cached = 0
        """Number of the text's tokens that are in the target's cache."""
        self.on_standby = False
        """Whether to run nothing but the prompt until the edge asks again."""
        self._passes = 0.0
        """Number of forwards; an aborted one counts as the share of its time that it ran."""
        self.adopt(frame)

    def adopt(self, frame: Open) -> None:
        """Adopt the edge's final tokens, unless it is only behind. Raises ProtocolError."""
        self._check_tokens(frame.tokens)
        if len(frame.tokens) > self._max_new_tokens:
            raise ProtocolError(f"Open holds {len(frame.tokens)} tokens, {self._max_new_tokens} are allowed")
        edge_text = DigestedText(self._root_digest)
        edge_text.extend(frame.tokens)
        if edge_text.digest != frame.digest:
            raise ProtocolError("the digest of Open does not match its prompt and tokens")
        if frame.tokens != self._text.tokens[: len(frame.tokens)]:
            self._num_cached = min(self._num_cached, common_length(self._text.tokens, frame.tokens))
            self._drafts.replace(edge_text)
            if self._needs_prefill:
                self._prefill_us = None
            self._residue = None
            self.policy.on_reset()

    def on_open(self, frame: Open) -> list[CloudFrame]:
        """Handle an Open of the running epoch, duplicated or after a reconnect."""
        self.on_standby = False
        self.adopt(frame)
        if self._prefill_us is None:
            return []
        return [self._opened(), *self._missed_after(len(frame.tokens), 0)]

    def stand_by(self) -> None:
        """Run nothing but the prompt until the edge asks again."""
        self.on_standby = True

    def on_resume(self, frame: Resume) -> list[CloudFrame]:
        """Repeat what the edge has missed; return an empty verdict if it has missed nothing."""
        self.on_standby = False
        if frame.base > len(self._text) or self._text.digest_at(frame.base) != frame.digest:
            return [PrefillAgain(frame.session, frame.epoch)]
        return self._missed_after(frame.base, frame.draws) or [self._verdict(frame.base, 0, 0)]

    def on_draft(self, frame: Draft) -> None:
        """Keep branches that may fit the text now or later. Without branches, the frame asks for a step."""
        self.on_standby = False
        if not self._scheme.deterministic:
            raise ProtocolError(f"acceptance={self._scheme.name} needs evidence: send Proposal")
        runs = unpack_runs(frame.runs)
        for run in runs:
            self._check_tokens(run.tokens)
        digest = frame.digest
        if digest is None:
            if frame.base > len(self._text):
                return
            digest = self._text.digest_at(frame.base)
        self._drafts.offer_runs(frame.base, digest, runs)

    def on_proposal(self, frame: Proposal) -> None:
        """Commit the edge's settled token, if any, and keep the branch that follows."""
        self.on_standby = False
        if self._scheme.deterministic:
            raise ProtocolError(f"acceptance={self._scheme.name} knows no Proposal: send Draft")
        self._check_tokens(frame.tokens)
        base, digest = frame.base, frame.digest
        if frame.settled is not None:
            self._check_tokens((frame.settled,))
            # Without a residue too: a verifier that was restarted has lost it.
            if (base, digest) == (len(self._text), self._text.digest):
                self._drafts.extend((frame.settled,))
                self._residue = None
            base, digest = base + 1, extend_digest(digest, (frame.settled,))
        evidence = self._scheme.unpack_evidence(frame.evidence, len(frame.tokens), self._vocab_size)
        self._drafts.offer_branch(base, digest, frame.tokens, evidence)

    def next_job(self) -> CloudJob | None:
        """Return the job to run for this text now, or None."""
        if self._prefill_us is None:
            return PrefillTarget(self._key, self.epoch, self._prompt, self._max_new_tokens, self._text.tokens)
        if self.finished or self.on_standby or self._residue is not None:
            return None
        after = self.policy.draft_after(self._drafts)
        if after is not None:
            return self._cloud_draft(self._text.tokens + after, NUM_CHOICES)
        return self.verification()

    def draft_ahead(self, running: Tokens) -> list[CloudDraft]:
        """Return where the cloud's draft should grow, as one batch, while a verification of the text runs."""
        ahead = () if self.finished or self.on_standby else self.policy.draft_ahead(self._drafts, running)
        return [self._cloud_draft(self._text.tokens + after, NUM_CHOICES_AHEAD) for after in ahead]

    def verification(self) -> Verify | None:
        """Return the next verification of the ready drafts, or a step; None to wait for a draft."""
        plan = self.policy.plan(self._drafts)
        if plan is None:
            return None
        return Verify(
            self._key,
            self.epoch,
            self._text.tokens,
            plan.draft,
            plan.evidence,
            self._scheme,
            self._sampling,
            self._rules.bonus or not plan.draft,
            plan.read_exits,
        )

    def prospect(self, num_drafted: int, longest: int) -> Prospect:
        """Return the prospect of the next verification; see `FixedPolicy.prospect`."""
        return self.policy.prospect(self._drafts, num_drafted, longest)

    def _cloud_draft(self, prefix: Tokens, num_choices: int) -> CloudDraft:
        fixed = self._prompt, self._max_new_tokens, prefix, num_choices, self._scheme, self._sampling
        return CloudDraft(self._key, self.epoch, *fixed)

    def on_drafted(self, drafted: Sequence[tuple[CloudDraft, Choices | None]], seconds: float) -> None:
        """Keep the results of a batch of the cloud's drafts and its time; None where it cannot draft."""
        for job, choices in drafted:
            if choices is not None:
                self._drafts.offer_choices(job.prefix, choices)
        able = any(choices is not None for _, choices in drafted)
        self.policy.on_drafted(able, seconds, len(drafted))

    def on_prefilled(self, job: PrefillTarget, compute_us: int) -> list[CloudFrame]:
        """Return an Opened frame; none if the text has changed and the target lacks much of it."""
        self._num_cached = common_length(self._text.tokens, job.tokens)
        if self._needs_prefill:
            return []
        self._prefill_us = compute_us
        return [self._opened()]

    def on_begun(self, now_s: float) -> None:
        """Note that a verification of this text begins."""
        self.policy.on_begin(now_s)

    def on_hint(self, job: Verify, hint: ExitHint, longest: int, now_s: float) -> list[Hint]:
        """Return the frames for what an exit predicts; no draft longer than `longest` can be verified."""
        if job.tokens != self._text.tokens:
            return []
        session, base = self._key.session, len(self._text)
        outcomes = self.policy.on_exit(job, hint, self._drafts, longest, now_s)
        return [
            Hint(session, self.epoch, base, hint.exit, round(100 * chance), tokens)
            for tokens, chance in outcomes
        ]

    def should_abort(self, job: Verify) -> bool:
        """Return whether the running verification should be aborted: it is useless, or another is better."""
        return self.policy.should_abort or self.on_standby or job.tokens != self._text.tokens

    def on_aborted(self, job: Verify, now_s: float) -> None:
        """Note that a verification was aborted."""
        self._passes += self.policy.on_abort(job, job.tokens == self._text.tokens, now_s)

    def on_judged(
        self,
        job: Verify,
        judgement: Judgement,
        compute_us: int,
        now_s: float,
        alone: bool = True,
        part_alone: float = 1.0,
    ) -> list[CloudFrame]:
        """Commit a judgement and return the verdict; nothing if the edge has replaced the text. `alone`: no
        other robot's work was in the forward; `part_alone`: the share of its time that it takes alone.
        """
        self._passes += job.needs_forward
        if job.tokens != self._text.tokens:
            self.policy.on_reset()
            return []
        base, draft = len(self._text), job.draft
        next_tokens = () if judgement.next_token is None else (judgement.next_token,)
        new = (*draft[: judgement.accepted], *next_tokens)
        committed, offered = until_end(new, self._end_ids), self._drafts.first_offered()
        of_exits = self.policy.num_exit_tokens(draft, judgement.accepted)
        of_cloud = self._num_cloud_drafts(job)
        drafted = max(0, len(draft) - (of_exits or 0) - of_cloud)
        self._num_cached = base
        self._drafts.extend(committed)
        outcome = VerificationOutcome(
            job=job,
            new=new,
            num_committed=len(committed),
            accepted=judgement.accepted,
            num_drafted=drafted,
            compute_s=part_alone * compute_us / 1e6 if job.needs_forward else 0.0,
            alone=alone,
            offered=offered,
            num_ready=None if self.finished else len(self._drafts.best()[0]),
            now_s=now_s,
        )
        self.policy.on_verdict(outcome)
        # For a draft that is not the edge's alone, the edge cannot interpret `kept`.
        kept = () if of_exits is not None or of_cloud else judgement.kept
        if judgement.residue is not None and not self.finished:
            self._residue = judgement.residue
            return [self._unsettled(base, drafted, compute_us, 0, kept)]
        return [self._verdict(base, drafted, compute_us, kept)]

    def _num_cloud_drafts(self, job: Verify) -> int:
        """Return how many tokens of the draft are the cloud's own, if its scheme needs no evidence."""
        if not self._scheme.deterministic:
            return 0
        return sum([sure is not None for sure in job.evidence])

    @property
    def _text(self) -> DigestedText:
        return self._drafts.committed

    @property
    def digest(self) -> int:
        """The digest of the text."""
        return self._text.digest

    @property
    def finished(self) -> bool:
        """Whether the text is complete."""
        tokens = self._text.tokens
        return len(tokens) >= self._max_new_tokens or has_ended(tokens, self._end_ids)

    @property
    def _needs_prefill(self) -> bool:
        """Whether the target lacks more of the text than one verification may catch up on."""
        return len(self._text) - self._num_cached > CATCH_UP_TOKENS

    def _missed_after(self, base: int, draws: int) -> list[CloudFrame]:
        """Return what was committed after `base`, with the residue if the text is unsettled."""
        if self._residue is not None:
            return [self._unsettled(base, 0, 0, draws)]
        return [self._verdict(base, 0, 0)] if base < len(self._text) else []

    def _opened(self) -> Opened:
        return Opened(
            self._key.session,
            self.epoch,
            len(self._text),
            checksum(self._name),
            self._prefill_us or 0,
            tuple(sorted(self._end_ids)),
        )

    def _verdict(self, base: int, drafted: int, compute_us: int, kept: tuple[int, ...] = ()) -> Verdict:
        return Verdict(
            self._key.session,
            self.epoch,
            base,
            self._text.digest_at(base),
            self._text.tokens[base:],
            drafted,
            round(self._passes),
            compute_us,
            kept=kept,
        )

    def _unsettled(
        self, base: int, drafted: int, compute_us: int, draws: int, kept: tuple[int, ...] = ()
    ) -> Unsettled:
        assert self._residue is not None
        verdict = self._verdict(base, drafted, compute_us, kept)
        return Unsettled(**structs.asdict(verdict), residue=self._scheme.pack_residue(self._residue, draws))

    def _check_tokens(self, tokens: tuple[int, ...]) -> None:
        if tokens and max(tokens) >= self._vocab_size:
            raise ProtocolError(f"token {max(tokens)} is beyond the vocabulary of {self._vocab_size}")
