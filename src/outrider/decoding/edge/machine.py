# SPDX-License-Identifier: Apache-2.0
"""The edge's state machine: the text, its tree of drafts, and frames. No socket, no clock.

`SendPolicy` decides which drafts are sent, and when. Times are seconds of one monotonic clock; each event
comes with its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from outrider.core.endings import has_ended, until_end
from outrider.core.errors import OutriderError, ProtocolError
from outrider.core.frames import (
    CloudFrame,
    Draft,
    Hint,
    Opened,
    PrefillAgain,
    Proposal,
    Refused,
    Unsettled,
    Verdict,
)
from outrider.core.ports import Tokenizer
from outrider.core.values import Prompt, Successors
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drafting.draft_tree import DraftTree, Node
from outrider.decoding.edge.actions import EdgeAction, Fail, Send
from outrider.decoding.edge.drafting import Drafting, commit_of, last_sent_s
from outrider.decoding.edge.frame_builder import FrameBuilder
from outrider.decoding.edge.link_estimator import EdgeEstimator, VerdictObservation
from outrider.decoding.edge.send_policy import send_policy_of
from outrider.decoding.edge.text import EdgeText
from outrider.decoding.jobs import DraftTokens, EdgeJob, EdgeResult, NoRoom, PrefillDraft
from outrider.decoding.protocol.limits import check_request
from outrider.decoding.protocol.prefix_digest import DigestedText, prompt_digest
from outrider.decoding.protocol.refusals import error_of


class EdgeMachine:
    """Decodes one text after another in one session. Events in, actions out; `next_job` names the work.

    `next_job` has no side effects: a driver may call it before, after or instead of reporting events.
    """

    def __init__(self, session: int, config: DecodingConfig, tokenizer: Tokenizer, epoch: int = 0) -> None:
        """`epoch`: that of the session's last text, decoded by another machine."""
        self._session = session
        self._config = config
        self._vocab_size = tokenizer.vocab_size
        self._end_ids, self._knows_ends = tokenizer.end_ids, False
        """The target's end tokens, once it has sent them."""
        self._frames = FrameBuilder(session, config, tokenizer.fingerprint)
        self._policy = send_policy_of(config, EdgeEstimator(config))
        self.text = self._new_text(epoch, Prompt("", b""), 0)
        """The session's newest text."""
        self.text.done = True
        self._drafting = Drafting(config, tokenizer, self._policy.estimates.acceptance, self.text)

    def begin(self, prompt: Prompt, max_new_tokens: int, now_s: float) -> list[EdgeAction]:
        """Start the next text. From now on, anything that belongs to an earlier one is stale.

        Raises ConfigError for a request that is too large, and changes nothing then.
        """
        check_request(prompt, max_new_tokens)
        self.text = self._new_text(self.epoch + 1, prompt, max_new_tokens)
        self._drafting.begin(self.text)
        return [*self._reopen(now_s), *self._send_drafts(now_s)]

    def _new_text(self, epoch: int, prompt: Prompt, max_new_tokens: int) -> EdgeText:
        sampling = self._config.sampling_for(prompt, epoch)
        return EdgeText(epoch, prompt, max_new_tokens, sampling, DigestedText(prompt_digest(prompt)))

    @property
    def epoch(self) -> int:
        """The number of the newest text."""
        return self.text.epoch

    @property
    def done(self) -> bool:
        """Whether the text is complete, cancelled or failed, or none was begun."""
        return self.text.done

    @property
    def tokens(self) -> tuple[int, ...]:
        """The final tokens so far."""
        return self.text.committed.tokens

    def next_job(self) -> EdgeJob | None:
        """Return the draft model's next job, or None."""
        if self.text.done:
            return None
        return self._drafting.next_job(self.text.alone, self._policy.estimates.waits_for_others)

    def should_abort(self, job: EdgeJob) -> bool:
        """Return whether the model should abort a running job: a frame may have made it useless."""
        if self.text.done or job.epoch != self.epoch:
            return True
        return isinstance(job, DraftTokens) and not self._drafting.is_useful(job)

    def complete(self, job: EdgeJob, result: EdgeResult, now_s: float, compute_s: float) -> list[EdgeAction]:
        """Handle the result of a job; it is dropped if the text has moved away from the job."""
        if self.text.done or job.epoch != self.epoch:
            return []
        if isinstance(job, PrefillDraft):
            self._drafting.on_prefilled(result)
            return self._send_drafts(now_s)
        assert not isinstance(result, (Successors, NoRoom))
        self._policy.estimates.draft.add(compute_s)
        self._drafting.on_drafted(job, result)
        if self.text.alone and self._tree.root.drafted:
            return self._commit(self._tree.root.choices[:1], None, now_s)
        return self._send_drafts(now_s)

    def receive(self, frame: CloudFrame, now_s: float) -> list[EdgeAction]:
        """Handle a frame from the cloud, however late, duplicated or out of order."""
        if self.text.done or (frame.session, frame.epoch) != (self._session, self.epoch):
            return []
        if isinstance(frame, (Verdict, Unsettled)):
            return self._on_verdict(frame, now_s)
        if isinstance(frame, Hint):
            return self._on_hint(frame, now_s)
        if isinstance(frame, Opened):
            self._on_opened(frame, now_s)
        if isinstance(frame, PrefillAgain):
            return self._on_prefill_again(now_s)
        if isinstance(frame, Refused):
            return self._on_refused(frame, now_s)
        return []

    def _on_refused(self, frame: Refused, now_s: float) -> list[EdgeAction]:
        """Handle a refusal. A busy verifier is asked again later; until then the link counts as lost."""
        if frame.reason != "busy":
            return self._fail(error_of(frame))
        self.text.busy_error = error_of(frame)
        self.text.opened = False
        return self.continue_alone(now_s)

    def retry(self, now_s: float) -> list[EdgeAction]:
        """Repeat what may be lost: the link came up or was silent for too long. Harmless at any time."""
        if self.text.done:
            return []
        self.text.alone = False
        self.text.sent_at = -1
        for node in self._tree:
            node.sent_s = None
        ask = [Send(self._frames.resume(self.text))] if self.text.opened else self._reopen(now_s)
        return [*ask, *self._send_drafts(now_s)]

    def continue_alone(self, now_s: float) -> list[EdgeAction]:
        """Continue without the target until `retry`, if the policy for a lost link is `draft_only`."""
        if self.text.done or self.text.alone or self._config.link_loss != "draft_only":
            return []
        self.text.alone = True
        self.text.opened = False
        drafted = [node.token for node in self._tree.own_path()]
        actions = self._commit(drafted, None, now_s) if drafted else []
        self._drafting.clear()
        return actions

    def cancel(self) -> list[EdgeAction]:
        """Cancel this text."""
        if self.text.done:
            return []
        self.text.done = True
        return [Send(self._frames.cancel(self.text))]

    def forget(self) -> None:
        """Forget the texts so far. Call it between texts only, when the last one has ended."""
        self._drafting.forget()
        self.text.prompt = Prompt("", b"")

    @property
    def _tree(self) -> DraftTree:
        return self._drafting.tree

    def _send_drafts(self, now_s: float) -> list[EdgeAction]:
        if self.text.done or self.text.alone:
            return []
        self._drafting.branches.retrieve()
        has_sent = self.text.sent_at == len(self.text.committed)
        nodes = self._policy.plan(self._drafting.branches, has_sent, now_s)
        return [] if nodes is None else [Send(self._drafted(nodes, now_s))]

    def _drafted(self, nodes: Sequence[Node], now_s: float) -> Draft | Proposal:
        """Return the frame for these nodes, and mark them as sent."""
        self.text.sent_at = len(self.text.committed)
        if self._config.scheme.deterministic:
            frame: Draft | Proposal = self._frames.draft(self.text, self._tree, nodes)
        else:
            frame = self._frames.proposal(self.text, self._tree, nodes)
        self._policy.estimates.on_sent(now_s)
        for step in self._tree.with_ancestors(nodes):
            if step.sent_s is None and step.length > frame.base:
                step.sent_s = now_s
        return frame

    def _reopen(self, now_s: float) -> list[EdgeAction]:
        self.text.opened_s = now_s
        return [Send(self._frames.open(self.text))]

    def _on_opened(self, frame: Opened, now_s: float) -> None:
        text = self.text
        text.opened, text.busy_error, text.target = True, None, frame.model
        text.target_prefill_s = frame.prefill_us / 1e6
        self._policy.estimates.round_trip.add(now_s - text.opened_s, text.target_prefill_s)
        self._policy.estimates.on_opened(now_s)
        self._end_ids, self._knows_ends = frozenset(frame.end_ids), True
        self._drafting.end_with(self._end_ids)
        self.text.done = self._is_complete  # alone, it may have gone past the target's end token

    def _on_prefill_again(self, now_s: float) -> list[EdgeAction]:
        """Handle a cloud that does not hold the text (any more). Its forwards for this epoch still count."""
        if not self.text.opened and (self.text.busy_error is not None or self._just_opened(now_s)):
            return []
        if self.text.opened:
            self.text.passes_before = self.text.target_passes
        self.text.opened = False
        return self.retry(now_s)

    def _contradict(self, now_s: float) -> list[EdgeAction]:
        """Handle a cloud that holds another text: send it this one, unless that happened just now."""
        if self._just_opened(now_s):
            return []
        self.text.opened = False
        return self.retry(now_s)

    def _just_opened(self, now_s: float) -> bool:
        return now_s - self.text.opened_s < self._config.silence_s / 4.0

    def _on_hint(self, hint: Hint, now_s: float) -> list[EdgeAction]:
        """Handle a hint. It is advisory: it only affects what is drafted and sent next."""
        if hint.base != len(self.text.committed) or not hint.tokens:
            return []
        if max(hint.tokens) >= self._vocab_size or self._config.plan.hints == "none":
            return []
        confidence = hint.confidence / 100.0
        self.text.hinted.setdefault(hint.tokens, hint.exit)
        self._drafting.branches.hint(hint.tokens, confidence)
        return self._send_drafts(now_s)

    def _on_verdict(self, verdict: Verdict | Unsettled, now_s: float) -> list[EdgeAction]:
        """Commit the new tokens of a verdict. After a gap or a contradiction, restate this side's text."""
        text = self.text.committed
        if not self._knows_ends:  # the target's end tokens were lost or have not come yet
            return self._contradict(now_s)
        if verdict.base > len(text):
            return self._on_gap(verdict, now_s)
        overlap = len(text) - verdict.base
        known = text.tokens[verdict.base :]
        if (
            verdict.digest != text.digest_at(verdict.base)
            or verdict.tokens[:overlap] != known[: len(verdict.tokens)]
        ):
            return self._contradict(now_s)
        self.text.opened = True
        if verdict.base + len(verdict.tokens) >= len(text):
            self.text.settled = None
        new = verdict.tokens[overlap:]
        if isinstance(verdict, Unsettled) and overlap <= len(verdict.tokens):
            return self._settle(new, verdict, now_s)
        return self._commit(new, verdict, now_s) if new else []

    def _on_gap(self, verdict: Verdict | Unsettled, now_s: float) -> list[EdgeAction]:
        """Keep an early verdict, and ask for the tokens in between, unless that happened just now."""
        text = self.text
        text.early[verdict.base] = verdict
        if text.resumed_at == len(text.committed) and now_s - text.resumed_s < self._config.silence_s / 4.0:
            return []
        text.resumed_at, text.resumed_s = len(text.committed), now_s
        return [Send(self._frames.resume(text))]

    def _settle(self, new: tuple[int, ...], verdict: Unsettled, now_s: float) -> list[EdgeAction]:
        """Draw the last token of an unsettled verdict, or ask for more draws."""
        parent = self._tree.find(new)
        rejected = parent.best_child if parent is not None else None
        if rejected is None or rejected.row is None:
            return self._contradict(now_s)
        position = len(self.text.committed) + len(new)
        try:
            drawn = self._config.scheme.resample(verdict.residue, rejected.row, position, self.text.sampling)
        except ProtocolError as error:
            return self._fail(error)
        if drawn.token is None:
            return [Send(self._frames.more_draws(self.text, drawn.draws))]
        return self._commit((*new, drawn.token), verdict, now_s)

    def _commit(
        self, new: Sequence[int], verdict: Verdict | Unsettled | None, now_s: float
    ) -> list[EdgeAction]:
        text = self.text
        new = until_end(new, self._end_ids)[: text.max_new_tokens - len(text.committed)]
        if max(new) >= self._vocab_size:
            return self._fail(ProtocolError(f"the verifier sent token {max(new)}, beyond the vocabulary"))
        commit = commit_of(new, verdict, self._drafting.branches, text.hinted.get(new))
        chunk_sent_s = last_sent_s(commit, self._tree)
        text.committed.extend(new)
        self._drafting.commit(new)
        text.hinted.clear()
        commit = replace(commit, ahead=self._tree.main_tokens())
        if verdict is not None:
            if text.begun_by is None:
                text.begun_by = text.target
            if chunk_sent_s is not None:
                self._policy.estimates.round_trip.add(now_s - chunk_sent_s, verdict.verify_us / 1e6)
            self._learn_from(verdict, new, now_s)
        text.settled = new[-1] if isinstance(verdict, Unsettled) else None
        text.done = self._is_complete
        if text.done and text.settled is not None:  # the cloud lacks the last token
            return [commit, Send(self._frames.cancel(text))]
        if text.done or text.alone:
            return [commit]
        early = text.early.pop(len(text.committed), None)
        after = self._on_verdict(early, now_s) if early is not None else self._send_drafts(now_s)
        return [commit, *after]

    def _learn_from(self, verdict: Verdict | Unsettled, new: tuple[int, ...], now_s: float) -> None:
        text = self.text
        before = text.target_passes
        text.target_passes = max(before, text.passes_before + verdict.passes)
        compute_s = verdict.verify_us / 1e6
        ahead = [node.sent_s for node in self._tree.root.children.values() if node.sent_s is not None]
        timed = compute_s if len(text.committed) > len(new) else None
        passes, next_sent_s = text.target_passes - before, min(ahead, default=None)
        observation = VerdictObservation(len(new), verdict.drafted, timed, next_sent_s, passes)
        self._policy.estimates.on_verdict(now_s, observation)

    @property
    def _is_complete(self) -> bool:
        tokens = self.text.committed.tokens
        return has_ended(tokens, self._end_ids) or len(tokens) >= self.text.max_new_tokens

    def _fail(self, error: OutriderError) -> list[EdgeAction]:
        self.text.done = True
        return [Fail(error)]
