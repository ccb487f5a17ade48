# SPDX-License-Identifier: Apache-2.0
"""One session's text at the cloud: what is committed, what was offered, what should run next."""

from __future__ import annotations

from msgspec import structs

from outrider.core.errors import ConfigError, ProtocolError
from outrider.core.frames import (
    MAX_CHUNK_TOKENS,
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
from outrider.core.language.endings import has_ended, until_end
from outrider.core.ports import Tokenizer
from outrider.core.values import Prompt
from outrider.decoding.acceptance.schemes import SCHEMES, Evidence, Residue
from outrider.decoding.adaptive.foretold import Foretold
from outrider.decoding.adaptive.hint_filter import HintFilter
from outrider.decoding.adaptive.policy import AdaptivePolicy
from outrider.decoding.cloud.branch_cache import BranchCache
from outrider.decoding.jobs import (
    CATCH_UP_TOKENS,
    CloudJob,
    ExitHint,
    Judgement,
    PrefillTarget,
    SessionKey,
    Verify,
)
from outrider.decoding.protocol.branch_codec import unpack_runs
from outrider.decoding.protocol.prefix_digest import DigestedText, common_length, extend_digest, prompt_digest
from outrider.decoding.protocol.sampling_rules import Sampling


class TargetSequence:
    """The text of one epoch. Of the branches that fit the committed text the likeliest is verified next."""

    def __init__(self, key: SessionKey, frame: Open, tokenizer: Tokenizer, pace: AdaptivePolicy) -> None:
        """Raises ProtocolError for a broken frame."""
        self._key = key
        self._end_ids = tokenizer.end_ids
        self._vocab_size = tokenizer.vocab_size
        self.epoch = frame.epoch
        self._prompt = Prompt(frame.text, frame.jpeg)
        self._max_new_tokens = frame.max_new_tokens
        self._rules = frame.rules
        self._scheme = SCHEMES[frame.rules.acceptance]
        self._sampling = _sampling(frame)
        self._pace = pace
        self._pace.begin_text()
        self._root_digest = prompt_digest(self._prompt)
        self._text = DigestedText(self._root_digest)
        self._pool = BranchCache(pace.tuning)
        self._step_wanted: int | None = None
        self._residue: Residue | None = None
        self._foretold = Foretold(pace)
        self._telling = HintFilter(frame.rules.hints, tokenizer.vocab_size, pace.tuning)
        self._grown = False
        """Whether drafts have come since the running verification began."""
        self._ready: dict[tuple[int, ...], tuple[int, ...]] = {}
        """What `_after` has found, until the text or the branches change."""
        self._prefill_us: int | None = None
        self._taken_in = 0
        """How many of the text's tokens the target has in its cache, or about to be."""
        self._passes = 0.0
        """Forwards, of each that was left the part of the time that it would have taken."""
        self.adopt(frame)

    def adopt(self, frame: Open) -> None:
        """The edge's word on what is final wins, unless it is only behind. Raises ProtocolError."""
        self._check_tokens(frame.tokens)
        if len(frame.tokens) > self._max_new_tokens:
            raise ProtocolError(f"Open holds {len(frame.tokens)} tokens, {self._max_new_tokens} are allowed")
        theirs = DigestedText(self._root_digest)
        theirs.extend(frame.tokens)
        if theirs.digest != frame.digest:
            raise ProtocolError("the digest of Open does not match its prompt and tokens")
        if frame.tokens != self._text.tokens[: len(frame.tokens)]:
            self._taken_in = min(self._taken_in, common_length(self._text.tokens, frame.tokens))
            self._text = theirs
            if self._lacks_much:
                self._prefill_us = None
            self._residue = None
            self._foretold.forget()
            self._telling.forget()
            self._ready.clear()
            self._pool.drop_before(len(self._text))

    def on_open(self, frame: Open) -> list[CloudFrame]:
        """An Open of the running epoch, doubled or after a reconnect."""
        self.adopt(frame)
        if self._prefill_us is None:
            return []
        return [self._opened(), *self._missed_after(len(frame.tokens), 0)]

    def on_resume(self, frame: Resume) -> list[CloudFrame]:
        """Repeat what the edge has missed; an empty verdict where it has missed nothing."""
        if not self._holds(frame.base, frame.digest):
            return [PrefillAgain(frame.session, frame.epoch)]
        return self._missed_after(frame.base, frame.draws) or [self._verdict(frame.base, 0, 0)]

    def on_draft(self, frame: Draft) -> None:
        """Keep branches that may fit the text now or later; none at all asks for a step."""
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
        if not runs:
            self._step_wanted = digest
        self._pool.add_runs(frame.base, digest, runs)
        self._note_arrival()

    def on_proposal(self, frame: Proposal) -> None:
        """Settle the text where the edge has done so, and keep the branch that follows."""
        if self._scheme.deterministic:
            raise ProtocolError(f"acceptance={self._scheme.name} knows no Proposal: send Draft")
        self._check_tokens(frame.tokens)
        base, digest = frame.base, frame.digest
        if frame.settled is not None:
            self._check_tokens((frame.settled,))
            if self._residue is not None and (base, digest) == (len(self._text), self._text.digest):
                self._extend((frame.settled,))
                self._residue = None
            base, digest = base + 1, extend_digest(digest, (frame.settled,))
        evidence = self._scheme.unpack_evidence(frame.evidence, len(frame.tokens), self._vocab_size)
        if not frame.tokens:
            self._step_wanted = digest
        self._pool.add_branch(base, digest, frame.tokens, evidence)
        self._note_arrival()

    def next_job(self) -> CloudJob | None:
        """What the target should run for this text now, if anything."""
        if self._prefill_us is None:
            return PrefillTarget(self._key, self.epoch, self._prompt, self._max_new_tokens, self._text.tokens)
        if self.finished or self._residue is not None:
            return None
        draft, evidence = self._offered()
        return self._verification(draft, evidence) if draft or self._may_step() else None

    def _offered(self) -> tuple[tuple[int, ...], tuple[Evidence, ...]]:
        """The draft to verify next, with its evidence; none for a step."""
        if self._foretold.tokens:
            draft = self._foretold.tokens + self._after(self._foretold.tokens)
            return draft, (None,) * len(draft)
        draft, evidence = self._pool.best(self._text.digest, self._room)
        if self._rules.when_idle == "adaptive":
            draft = draft[: self._pace.chunk_length(len(draft))]
        return draft, evidence

    def _verification(self, draft: tuple[int, ...], evidence: tuple[Evidence, ...]) -> Verify:
        rules = self._rules
        return Verify(
            self._key,
            self.epoch,
            self._text.tokens,
            draft,
            evidence[: len(draft)],
            self._scheme,
            self._sampling,
            rules.bonus or not draft,
            self._hears(),
        )

    def _hears(self) -> bool:
        """Whether the exits of the next forward are asked."""
        always = self._rules.when_idle != "adaptive"
        return self._rules.hints != "none" and (always or self._pace.exit_gate.reads)

    def widened(self, job: Verify, most: int, longest: int) -> Verify:
        """With at most so many other branches beside it, each of at most so many tokens, where that pays."""
        if self._rules.when_idle != "adaptive" or not job.scheme.deterministic or not job.draft:
            return job
        beside = self._beside(job.draft, most, min(longest, self._room))
        leaves = [(common_length(draft, job.draft), len(draft)) for draft in beside]
        return job._replace(beside=beside[: self._pace.num_beside(len(job.draft), leaves)])

    def _beside(self, draft: tuple[int, ...], most: int, limit: int) -> tuple[tuple[int, ...], ...]:
        """Branches that fit the text and leave a draft somewhere; after what was foretold, those first."""
        known, root = self._foretold.tokens, self._text.digest
        found = self._pool.others(root, limit, most)
        if known:
            found.insert(0, self._pool.best(root, limit)[0])
            beyond = self._pool.digest_after(root, known)
            found[:0] = [known + after for after in self._pool.others(beyond, limit - len(known), most)]
        leaving = [one for one in found if common_length(one, draft) < min(len(one), len(draft))]
        return tuple(dict.fromkeys(leaving))[:most]

    def on_prefilled(self, job: PrefillTarget, compute_us: int) -> list[CloudFrame]:
        """Unless the text has meanwhile become another, of which the target has little."""
        self._taken_in = common_length(self._text.tokens, job.tokens)
        if self._lacks_much:
            return []
        self._prefill_us = compute_us
        return [self._opened()]

    def on_begun(self, now_s: float) -> None:
        """A verification of this text begins."""
        self._grown = False
        self._foretold.begin(now_s)

    def on_hint(self, job: Verify, hint: ExitHint, longest: int, now_s: float) -> list[Hint]:
        """The frames for what an exit says that is worth sending; no draft is verified that is longer."""
        if job.tokens != self._text.tokens:
            return []
        if self._rules.hints == "all":
            outcomes = [((*job.draft[: hint.accepted], hint.next_token), hint.confidence)]
        else:
            heard = self._foretold.hear(hint)
            outcomes = self._foretold.outcomes(heard, job.drafts)
            if self._rules.when_idle == "adaptive":
                goes_on = [(tokens, chance) for tokens, chance in outcomes if self._goes_on(tokens, longest)]
                self._foretold.look(job.drafts, goes_on, self._after, now_s)
                if self._grown:
                    self._foretold.look_at_more(heard, job.draft, self._offered()[0][:longest], now_s)
        said = []
        for tokens, chance in outcomes:
            frame = self._say(hint.exit, until_end(tokens, self._end_ids), chance)
            if frame is not None:
                said.append(frame)
        return said

    def gives_up(self, job: Verify) -> bool:
        """Whether the running verification is of no use any more, or one that is aimed better of more."""
        return self._foretold.is_better or job.tokens != self._text.tokens

    def on_given_up(self, job: Verify, now_s: float) -> None:
        """It has been left; what exits said of it will be compared with what comes of the next one."""
        self._passes += self._pace.times.part_of(len(job.draft), self._foretold.running_s(now_s))
        if job.tokens == self._text.tokens:
            self._foretold.leave(job.drafts)

    def _say(self, exit_index: int, tokens: tuple[int, ...], chance: float) -> Hint | None:
        """Name an outcome of the running verification; None where it is not worth its bytes."""
        tokens = tokens[:MAX_CHUNK_TOKENS]
        if not self._telling.tells(tokens, chance):
            return None
        confidence = round(100 * chance)
        return Hint(self._key.session, self.epoch, len(self._text), exit_index, confidence, tokens)

    def on_judged(
        self, job: Verify, judgement: Judgement, compute_us: int, now_s: float, alone: bool = True
    ) -> list[CloudFrame]:
        """Commit a judgement, unless the edge has meanwhile moved the text elsewhere. `alone`: without other
        robots' work in the same forward.
        """
        self._telling.forget()
        forwarded = job.needs_forward
        self._passes += forwarded
        if job.tokens != self._text.tokens:
            self._foretold.forget()
            return []
        base, known = len(self._text), self._foretold.tokens
        draft = job.branch(judgement.branch).draft
        own = () if judgement.next_token is None else (judgement.next_token,)
        new = (*draft[: judgement.accepted], *own)
        aimed = bool(known) and draft[: len(known)] == known[: len(draft)]  # it may be cut within them
        drafted = len(draft) - (self._foretold.num_own(judgement.accepted, len(draft)) if aimed else 0)
        self._taken_in = base
        self._learn_from(job, new, compute_us / 1e6 if forwarded else 0.0, alone)
        # Of a draft that begins with what an exit foretold the edge cannot tell what is kept.
        kept = () if aimed else judgement.kept
        new = until_end(new, self._end_ids)
        self._extend(new)
        self._pace.on_committed(len(new), now_s)
        self._pace.exit_gate.on_commit(len(new), now_s, job.hints if alone and forwarded else None)
        if not self.finished:
            ready = self._pool.best(self._text.digest, self._room)[0]
            self._pace.on_ready(len(ready), drafted, judgement.accepted)
        if judgement.residue is not None and not self.finished:
            self._residue = judgement.residue
            return [self._unsettled(base, drafted, compute_us, 0, kept)]
        self._telling.on_verdict(len(new))
        return [self._verdict(base, drafted, compute_us, kept)]

    @property
    def digest(self) -> int:
        """Of the text."""
        return self._text.digest

    @property
    def finished(self) -> bool:
        """Whether the text is complete."""
        tokens = self._text.tokens
        return len(tokens) >= self._max_new_tokens or has_ended(tokens, self._end_ids)

    @property
    def always_ready(self) -> bool:
        """Whether it waits for no drafts: the target goes on alone at once."""
        return self._rules.when_idle == "step"

    def _may_step(self) -> bool:
        if self._rules.when_idle != "wait":
            return True
        # What was drafted for the last token of all, by an edge that was alone, only asks for that one.
        last = not self._room and bool(self._pool.best(self._text.digest, 1)[0])
        return last or self._step_wanted == self._text.digest

    def _note_arrival(self) -> None:
        self._ready.clear()
        self._grown = True

    def _learn_from(self, job: Verify, new: tuple[int, ...], compute_s: float, alone: bool) -> None:
        if compute_s > 0.0:
            num_beside = job.num_rows - 1 - len(job.draft)
            heard = job.hints if alone else None
            self._pace.on_verified(len(job.draft), compute_s, num_beside, heard)
            self._learn_from_beside(job, new)
        self._foretold.on_judged(job.drafts, new, compute_s > 0.0)
        offered = self._pool.best(self._text.digest, 1)[0]
        if not job.draft and offered and new:
            self._pace.on_stepped_beside(offered[0] == new[0])

    def _learn_from_beside(self, job: Verify, new: tuple[int, ...]) -> None:
        """Where the draft fell, whether the other choice that lay beside it stood."""
        stood = common_length(job.draft, new)
        others = [draft[stood] for draft in job.beside if draft[:stood] == job.draft[:stood]]
        if stood < len(job.draft) and others:
            self._pace.on_second_judged(new[stood] in others)

    @property
    def _room(self) -> int:
        """A verification itself adds a token."""
        return min(self._max_new_tokens - len(self._text) - 1, MAX_CHUNK_TOKENS)

    def _after(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """What is worth verifying of the branch that lies ready after tokens that would follow the text."""
        ready = self._ready.get(tokens)
        if ready is None:
            digest = self._pool.digest_after(self._text.digest, tokens)
            ready = self._pool.best(digest, self._room - len(tokens))[0]
            self._ready[tokens] = ready = ready[: max(1, self._pace.chunk_length(len(ready)))]
        return ready

    def _goes_on(self, tokens: tuple[int, ...], longest: int) -> bool:
        """Whether the text would not end with these tokens after it, and they may be verified as a draft."""
        return len(tokens) <= min(self._room, longest) and self._end_ids.isdisjoint(tokens)

    def _extend(self, tokens: tuple[int, ...]) -> None:
        self._text.extend(tokens)
        self._ready.clear()
        self._pool.drop_before(len(self._text))

    @property
    def _lacks_much(self) -> bool:
        """Whether the target lacks more of the text than a verification may take in."""
        return len(self._text) - self._taken_in > CATCH_UP_TOKENS

    def _holds(self, base: int, digest: int) -> bool:
        return base <= len(self._text) and self._text.digest_at(base) == digest

    def _missed_after(self, base: int, draws: int) -> list[CloudFrame]:
        """What was committed after `base`; the residue too where the text is unsettled."""
        if self._residue is not None:
            return [self._unsettled(base, 0, 0, draws)]
        return [self._verdict(base, 0, 0)] if base < len(self._text) else []

    def _opened(self) -> Opened:
        return Opened(
            self._key.session,
            self.epoch,
            len(self._text),
            self._text.digest,
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


def _sampling(frame: Open) -> Sampling:
    rules = frame.rules
    try:
        return Sampling(rules.temperature, rules.top_p, rules.seed, rules.top_k)
    except ConfigError as error:
        raise ProtocolError(str(error)) from None
