# SPDX-License-Identifier: Apache-2.0
"""The edge's state machine: grows a tree of drafts, sends it up, commits verdicts. No socket, no clock.

Times are seconds of one monotonic clock, given with every event.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from outrider.core.errors import (
    OutriderError,
    ProtocolError,
)
from outrider.core.frames import (
    MAX_CHUNK_TOKENS,
    CloudFrame,
    Draft,
    EdgeFrame,
    Hint,
    Opened,
    PrefillAgain,
    Proposal,
    Refused,
    Unsettled,
    Verdict,
)
from outrider.core.language.endings import has_ended, until_end
from outrider.core.ports import Tokenizer
from outrider.core.values import Prompt, Successors
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drafting.draft_tree import DraftTree, Node
from outrider.decoding.drafting.retrieval.drafts import CALIBRATION, NUM_EXPECTED, RetrievedDrafts
from outrider.decoding.drafting.tree_expansion import TreeExpander, confirmed, is_worth_less
from outrider.decoding.edge.frame_builder import FrameBuilder
from outrider.decoding.edge.link_estimator import EdgeEstimator, VerdictObservation
from outrider.decoding.edge.send_policy import due_ahead
from outrider.decoding.jobs import DraftTokens, EdgeJob, EdgeResult, NoRoom, PrefillDraft
from outrider.decoding.protocol.branch_codec import token_bytes
from outrider.decoding.protocol.prefix_digest import DigestedText, prompt_digest
from outrider.decoding.protocol.refusals import error_of
from outrider.decoding.protocol.sampling_rules import Sampling, mixed_seed


@dataclass(frozen=True)
class Send:
    """Put a frame on the wire; it may get lost."""

    frame: EdgeFrame


@dataclass(frozen=True)
class Commit:
    """Tokens that are final now; without a `verdict` the edge is alone. Of what the edge had `drafted` for it
    those tokens stood that are marked in `stood`, one mark a token.

    `foreseen`: whether what follows them was being drafted already; `exit`: the first early exit that had
    hinted at them. For observers: on its main branch the draft had the first `followed` of them, `rejected`
    in place of the others, and has `ahead` after them now.
    """

    tokens: tuple[int, ...]
    drafted: int
    stood: tuple[bool, ...]
    verdict: Verdict | Unsettled | None
    foreseen: bool = False
    exit: int | None = None
    followed: int = field(default=0, compare=False)
    rejected: tuple[int, ...] = field(default=(), compare=False)
    ahead: tuple[int, ...] = field(default=(), compare=False)

    @property
    def accepted(self) -> int:
        """How many drafts stood."""
        return sum(self.stood)


@dataclass(frozen=True)
class Fail:
    """The text cannot be finished."""

    error: OutriderError


EdgeAction = Send | Commit | Fail


class EdgeMachine:
    """Decodes one text after another in one session. Events in, actions out; `next_job` names the work.

    Asking for work changes nothing, so a driver may do it before, instead of or after handing in news.
    """

    def __init__(self, session: int, config: DecodingConfig, tokenizer: Tokenizer) -> None:
        self._session = session
        self._config = config
        self._plan = config.plan
        self._guessable = config.scheme.deterministic
        self._vocab_size = tokenizer.vocab_size
        self._end_ids = tokenizer.end_ids
        """The target's, once it has told them."""
        self._fingerprint = tokenizer.fingerprint
        self._encode = tokenizer.encode
        self._retrieved = RetrievedDrafts(config.sources, self._end_ids)
        self._outlook = EdgeEstimator(config, token_bytes(tokenizer.vocab_size))
        self._rng = random.Random(config.seed)
        self._epoch = 0
        self.done = True

    def begin(self, prompt: Prompt, max_new_tokens: int, now_s: float) -> list[EdgeAction]:
        """Start the next text; whatever belongs to an earlier one is stale from here on."""
        self._epoch += 1
        self._prompt = prompt
        self._max_new_tokens = max_new_tokens
        self._needs_model = self._config.needs_model
        root = prompt_digest(prompt)
        self._sampling = self._config.sampling_for(prompt, self._epoch)
        if self._retrieved:
            self._retrieved.begin(self._encode(prompt.text))
        self._text = DigestedText(root)
        fixed = self._session, self._epoch, self._config, self._sampling, self._fingerprint
        self._wording = FrameBuilder(*fixed, max_new_tokens, self._text)
        self._growth = self._sprout()
        self._early: dict[int, Verdict | Unsettled] = {}
        self._hinted: dict[tuple[int, ...], int] = {}
        self._settled: int | None = None
        self._asked_at = self._chunk_at = -1
        self._asked_s = 0.0
        self._look_s: float | None = None
        self._draft_ready = self._alone = self._opened = self.done = False
        self.turned_away: OutriderError | None = None
        """The verifier's words, where it has no room at present."""
        self.target_prefill_s = 0.0
        self.target_passes = self._passes_before = 0
        return [*self._reopen(now_s), *self._send_drafts(now_s)]

    @property
    def tokens(self) -> tuple[int, ...]:
        """What is final so far."""
        return self._text.tokens

    def next_job(self) -> EdgeJob | None:
        """What the draft model should do now, if anything."""
        if self.done or not self._needs_model:
            return None
        if not self._draft_ready:
            num_expected = NUM_EXPECTED if CALIBRATION in self._config.drafters else 0
            return PrefillDraft(self._epoch, self._prompt, self._max_new_tokens, num_expected)
        leaves = [self._tree.root] if self._alone else self._growth.next_leaves()
        if not leaves:
            return None
        prefixes = tuple(self._text.tokens + self._tree.tokens(leaf) for leaf in leaves)
        guesses = self._guessable and self._config.tuning.second_choices
        num_choices = 1 + self._plan.num_guesses if guesses else 1
        return DraftTokens(self._epoch, prefixes, num_choices, self._config.scheme, self._draft_sampling())

    def gives_up(self, job: EdgeJob, elapsed_s: float) -> bool:
        """Whether the model should leave a job that it began so long ago: news may have made it useless or,
        where branches are drafted ahead, less likely of use than another is in spite of its time.
        """
        if self.done or job.epoch != self._epoch:
            return True
        if not isinstance(job, DraftTokens):
            return False
        nodes = (self._node_after(prefix) for prefix in job.prefixes)
        useful = [node for node in nodes if node is not None and not node.drafted]
        if not useful or self._alone or not self._plan.ahead or not self._config.tuning.abort_drafts:
            return not useful
        usual_s = self._outlook.draft.value
        left = 1.0 - elapsed_s / usual_s if usual_s else 1.0
        return is_worth_less(useful, self._growth.next_leaves(), left)

    def _draft_sampling(self) -> Sampling:
        """Rejected draws may come back as retrieved drafts, so after a verdict the model draws afresh."""
        if self._guessable or not self._retrieved:
            return self._sampling
        return replace(self._sampling, seed=mixed_seed(self._sampling.seed, len(self._text)))

    def complete(self, job: EdgeJob, result: EdgeResult, now_s: float, compute_s: float) -> list[EdgeAction]:
        """The result of a job; that of a job the text has moved away from is dropped."""
        if self.done or job.epoch != self._epoch:
            return []
        if isinstance(job, PrefillDraft):
            self._draft_ready = True
            if isinstance(result, Successors):
                self._retrieved.calibrate(result)
            if isinstance(result, NoRoom):
                self._needs_model = self._growth.needs_model = False
                return self._send_drafts(now_s)
            return []
        assert not isinstance(result, (Successors, NoRoom))
        self._outlook.draft.add(compute_s)
        for prefix, choices in zip(job.prefixes, result, strict=True):
            node = self._node_after(prefix)
            if node is not None and not node.drafted:
                self._growth.grow(node, choices)
        if self._alone and self._tree.root.drafted:
            return self._commit(self._tree.root.choices[:1], None, now_s)
        return self._send_drafts(now_s)

    def receive(self, frame: CloudFrame, now_s: float) -> list[EdgeAction]:
        """A frame from the cloud, however late, doubled or out of order."""
        if self.done or (frame.session, frame.epoch) != (self._session, self._epoch):
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
        """A verifier without room is asked again after a while; until then the link is as good as lost."""
        if frame.reason != "busy":
            return self._fail(error_of(frame))
        self.turned_away = error_of(frame)
        self._opened = False
        return self.go_alone(now_s)

    @property
    def next_look_s(self) -> float | None:
        """When to call `look` although nothing has happened; None where only an event can change things."""
        return None if self.done else self._look_s

    def look(self, now_s: float) -> list[EdgeAction]:
        """Time has passed."""
        self._look_s = None
        return self._send_drafts(now_s)

    def ask_again(self, now_s: float) -> list[EdgeAction]:
        """The link came up or was silent for too long: repeat what may be lost. Harmless at any time."""
        if self.done:
            return []
        self._alone = False
        self._chunk_at = -1
        for node in self._tree:
            node.sent_s = None
        ask = [Send(self._wording.resume(self._settled))] if self._opened else self._reopen(now_s)
        return [*ask, *self._send_drafts(now_s)]

    def go_alone(self, now_s: float) -> list[EdgeAction]:
        """The link is lost and the policy lets the edge finish without the target, until `ask_again`."""
        if self.done or self._alone or self._config.link_loss != "draft_only":
            return []
        self._alone = True
        self._opened = False
        drafted = [node.token for node in self._tree.own_path()]
        actions = self._commit(drafted, None, now_s) if drafted else []
        self._growth = self._sprout()
        return actions

    def cancel(self) -> list[EdgeAction]:
        """The owner no longer wants this text."""
        if self.done:
            return []
        self.done = True
        return [Send(self._wording.cancel())]

    def forget(self) -> None:
        """Keep nothing of the texts so far; for use between texts, of which the last must have ended."""
        self._retrieved.forget()
        self._prompt = Prompt("", b"")

    def _sprout(self) -> TreeExpander:
        """A tree without drafts above the text."""
        tree = DraftTree(len(self._text), self._text.digest, self._rng, self._config.tuning)
        sizes = self._max_new_tokens, self._end_ids, self._vocab_size
        growth = TreeExpander(self._config, self._retrieved, self._outlook.odds, tree, *sizes)
        growth.needs_model = self._needs_model
        return growth

    @property
    def _tree(self) -> DraftTree:
        return self._growth.tree

    def _node_after(self, prefix: tuple[int, ...]) -> Node | None:
        committed = self._text.tokens
        if prefix[: len(committed)] != committed:
            return None
        return self._tree.find(prefix[len(committed) :])

    def _send_drafts(self, now_s: float) -> list[EdgeAction]:
        if self.done or self._alone or not self._plan.drafts:
            return []
        self._growth.retrieve()
        nodes = self._due_in_stream(now_s) if self._plan.streams else self._due_as_chunk()
        if nodes is None:
            return []
        self._chunk_at = len(self._text)
        if self._guessable:
            frame: Draft | Proposal = self._wording.draft(self._tree, nodes)
        else:
            frame = self._wording.proposal(self._tree, nodes, self._settled)
        self._outlook.on_sent(len(frame.runs) if isinstance(frame, Draft) else len(frame.evidence), now_s)
        for step in self._tree.joined(nodes):
            if step.sent_s is None and step.length > frame.base:
                step.sent_s = now_s
        return [Send(frame)]

    def _due_as_chunk(self) -> list[Node] | None:
        """The next whole chunk, once the one before is judged."""
        if self._chunk_at == len(self._text):
            return None
        path = self._tree.main_path()[: self._config.num_draft_tokens]
        tip = path[-1] if path else self._tree.root
        whole = len(path) == self._config.num_draft_tokens or not self._growth.can_follow(tip)
        return path if whole else None

    def _due_in_stream(self, now_s: float) -> list[Node] | None:
        """What the cloud may need before another token could reach it; None for nothing yet."""
        root = self._tree.root
        if not root.drafted and not self._growth.can_follow(root):
            asked = self._chunk_at == len(self._text) or self._plan.when_idle != "wait"
            return None if asked else []
        if self._plan.ahead:
            due = due_ahead(self._tree, self._outlook, self._growth.goes_on, now_s)
            self._look_s = due.look_s
            return due.nodes or None
        path = self._tree.main_path()
        unsent = [node for node in path if node.sent_s is None]
        full = len(unsent) >= self._config.num_draft_tokens
        ended = not self._growth.can_follow(path[-1] if path else root)
        due_now = unsent and (full or ended or self._outlook.is_time(len(unsent), now_s))
        return unsent[:MAX_CHUNK_TOKENS] if due_now else None

    def _reopen(self, now_s: float) -> list[EdgeAction]:
        self._opened_at_s = now_s
        return [Send(self._wording.open(self._prompt))]

    def _on_opened(self, frame: Opened, now_s: float) -> None:
        self._opened, self.turned_away = True, None
        self.target_prefill_s = frame.prefill_us / 1e6
        self._outlook.round_trip.add(now_s - self._opened_at_s, self.target_prefill_s)
        self._outlook.on_opened(now_s)
        self._end_ids = self._retrieved.end_ids = self._growth.end_ids = frozenset(frame.end_ids)
        self.done = self._is_complete  # it may have gone on alone past the target's end token

    def _on_prefill_again(self, now_s: float) -> list[EdgeAction]:
        """The cloud has no such text (any more); what it did for this epoch before still counts."""
        if not self._opened and (self.turned_away is not None or self._just_opened(now_s)):
            return []
        if self._opened:
            self._passes_before = self.target_passes
        self._opened = False
        return self.ask_again(now_s)

    def _contradict(self, now_s: float) -> list[EdgeAction]:
        """The cloud holds another text: tell it this one, unless it was told just now."""
        if self._just_opened(now_s):
            return []
        self._opened = False
        return self.ask_again(now_s)

    def _just_opened(self, now_s: float) -> bool:
        return now_s - self._opened_at_s < self._config.silence_s / 4.0

    def _on_hint(self, hint: Hint, now_s: float) -> list[EdgeAction]:
        """Advisory: it changes only what is drafted next."""
        if hint.base != len(self._text) or not hint.tokens:
            return []
        if max(hint.tokens) >= self._vocab_size or self._plan.hints == "none":
            return []
        confidence = hint.confidence / 100.0
        self._hinted.setdefault(hint.tokens, hint.exit)
        self._growth.hint(hint.tokens, confidence)
        return self._send_drafts(now_s)

    def _on_verdict(self, verdict: Verdict | Unsettled, now_s: float) -> list[EdgeAction]:
        """Commit what is new in it; after a gap or a contradiction tell the cloud where this side stands."""
        text = self._text
        if verdict.base > len(text):
            return self._on_gap(verdict, now_s)
        overlap = len(text) - verdict.base
        known = text.tokens[verdict.base :]
        if (
            verdict.digest != text.digest_at(verdict.base)
            or verdict.tokens[:overlap] != known[: len(verdict.tokens)]
        ):
            return self._contradict(now_s)
        self._opened = True
        if verdict.base + len(verdict.tokens) >= len(text):
            self._settled = None
        new = verdict.tokens[overlap:]
        if isinstance(verdict, Unsettled) and overlap <= len(verdict.tokens):
            return self._settle(new, verdict, now_s)
        return self._commit(new, verdict, now_s) if new else []

    def _on_gap(self, verdict: Verdict | Unsettled, now_s: float) -> list[EdgeAction]:
        """Keep a verdict that came too early, and ask for what lies between, if not just done."""
        self._early[verdict.base] = verdict
        if self._asked_at == len(self._text) and now_s - self._asked_s < self._config.silence_s / 4.0:
            return []
        self._asked_at, self._asked_s = len(self._text), now_s
        return [Send(self._wording.resume(self._settled))]

    def _settle(self, new: tuple[int, ...], verdict: Unsettled, now_s: float) -> list[EdgeAction]:
        """Draw the last token of an unsettled verdict, or ask for more draws."""
        parent = self._tree.find(new)
        rejected = parent.best_child if parent is not None else None
        if rejected is None or rejected.row is None:
            return self._contradict(now_s)
        position = len(self._text) + len(new)
        try:
            drawn = self._config.scheme.resample(verdict.residue, rejected.row, position, self._sampling)
        except ProtocolError as error:
            return self._fail(error)
        if drawn.token is None:
            return [Send(self._wording.more_draws(drawn.draws))]
        return self._commit((*new, drawn.token), verdict, now_s)

    def _commit(
        self, new: Sequence[int], verdict: Verdict | Unsettled | None, now_s: float
    ) -> list[EdgeAction]:
        new = self._until_end(new)
        if max(new) >= self._vocab_size:
            return self._fail(ProtocolError(f"the verifier sent token {max(new)}, beyond the vocabulary"))
        commit = self._commitment(new, verdict)
        rejected = self._growth.contradicted(new)
        reached = self._tree.find(new)
        awaited = commit.exit is not None or (reached is not None and reached.sent_s is not None)
        chunk_sent_s = self._chunk_sent_s(commit)
        self._text.extend(new)
        self._retrieved.extend(new)
        self._growth.commit(new, self._text.digest)
        self._hinted.clear()
        commit = replace(commit, rejected=rejected, ahead=self._tree.main_tokens())
        if verdict is not None:
            if chunk_sent_s is not None:
                self._outlook.round_trip.add(now_s - chunk_sent_s, verdict.verify_us / 1e6)
            self._learn_from(verdict, new, awaited, now_s)
        self._settled = new[-1] if isinstance(verdict, Unsettled) else None
        self.done = self._is_complete
        if self.done and self._settled is not None:  # the cloud does not know the last token
            return [commit, Send(self._wording.cancel())]
        if self.done or self._alone:
            return [commit]
        early = self._early.pop(len(self._text), None)
        after = self._on_verdict(early, now_s) if early is not None else self._send_drafts(now_s)
        return [commit, *after]

    def _commitment(self, new: tuple[int, ...], verdict: Verdict | Unsettled | None) -> Commit:
        """What a verdict says about the drafts: a token that only a hint had named is none."""
        if verdict is None:
            return Commit(new, 0, (False,) * len(new), None)
        if verdict.base == len(self._text):
            self._growth.keep_rejected(new, verdict.drafted, verdict.kept)
        followed, ranks = self._growth.judge(new), self._growth.ranks(new)
        judged = self._num_judged(verdict)
        told = sum([rank is None for rank in ranks[:-1][:judged]])
        reached = self._tree.find(new)
        foreseen = reached is not None and reached.drafted
        return Commit(
            new,
            judged - told,
            confirmed(ranks, judged),
            verdict,
            foreseen,
            self._hinted.get(new),
            followed,
        )

    def _num_judged(self, verdict: Verdict | Unsettled | None) -> int:
        """How many drafts of a verdict follow the text: it may begin before what the edge wrote alone."""
        return 0 if verdict is None else max(0, verdict.base + verdict.drafted - len(self._text))

    def _chunk_sent_s(self, commit: Commit) -> float | None:
        """When the last token left that a verdict has surely verified; None where it verified none."""
        num_verified = min(commit.followed, self._num_judged(commit.verdict), len(commit.tokens) - 1)
        last = self._tree.find(commit.tokens[:num_verified]) if num_verified > 0 else None
        return last.sent_s if last is not None else None

    def _learn_from(
        self, verdict: Verdict | Unsettled, new: tuple[int, ...], awaited: bool, now_s: float
    ) -> None:
        self.target_passes = max(self.target_passes, self._passes_before + verdict.passes)
        compute_s = verdict.verify_us / 1e6
        ahead = [node.sent_s for node in self._tree.root.children.values() if node.sent_s is not None]
        timed = compute_s if len(self._text) > len(new) else None
        news = VerdictObservation(len(new), verdict.drafted, timed, min(ahead, default=None), awaited)
        self._outlook.on_verdict(now_s, news)

    def _until_end(self, new: Sequence[int]) -> tuple[int, ...]:
        """Nothing counts after the end token or beyond the length asked for."""
        return until_end(new, self._end_ids)[: self._max_new_tokens - len(self._text)]

    @property
    def _is_complete(self) -> bool:
        return has_ended(self._text.tokens, self._end_ids) or len(self._text) >= self._max_new_tokens

    def _fail(self, error: OutriderError) -> list[EdgeAction]:
        self.done = True
        return [Fail(error)]
