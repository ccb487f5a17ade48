# SPDX-License-Identifier: Apache-2.0
"""The edge's drafts for one text after another: the draft model's jobs, and what a verdict shows of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from outrider.core.frames import Unsettled, Verdict
from outrider.core.ports import Tokenizer
from outrider.core.values import Successors
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drafting.draft_tree import DraftTree, Node
from outrider.decoding.drafting.retrieval.drafts import CALIBRATION, NUM_EXPECTED, RetrievedDrafts
from outrider.decoding.drafting.tree_expansion import TreeExpander
from outrider.decoding.edge.actions import Commit
from outrider.decoding.edge.text import EdgeText
from outrider.decoding.jobs import DraftTokens, EdgeJob, EdgeResult, NoRoom, PrefillDraft
from outrider.decoding.policy.estimators import CalibratedAcceptance
from outrider.decoding.protocol.sampling_rules import Sampling, mixed_seed


class Drafting:
    """Keeps a tree of drafts above a text that its owner extends."""

    def __init__(
        self, config: DecodingConfig, tokenizer: Tokenizer, acceptance: CalibratedAcceptance, text: EdgeText
    ) -> None:
        """`acceptance`: the session's rates. `text`: an empty one; `begin` starts the first to draft for."""
        self._config = config
        self._tokenizer = tokenizer
        self._acceptance = acceptance
        self._deterministic = config.scheme.deterministic
        guesses = self._deterministic and config.tuning.second_choices
        self._num_choices = 1 + config.plan.num_guesses if guesses else 1
        self._retrieved = RetrievedDrafts(config.sources, tokenizer.end_ids)
        self._end_ids = tokenizer.end_ids
        self._rng = random.Random(config.seed)
        self._text = text
        self._is_prefilled = False
        self._needs_model = config.needs_model
        self.branches = self._empty_tree()

    def begin(self, text: EdgeText) -> None:
        """Begin another text, which has no tokens yet."""
        self._text = text
        self._is_prefilled = False
        self._needs_model = self._config.needs_model
        if self._retrieved:
            self._retrieved.begin(self._tokenizer.encode(text.prompt.text))
        self.clear()

    def clear(self) -> None:
        """Drop all drafts."""
        self.branches = self._empty_tree()

    def _empty_tree(self) -> TreeExpander:
        text, committed = self._text, self._text.committed
        tree = DraftTree(len(committed), committed.digest, self._rng, self._config.tuning)
        sizes = text.max_new_tokens, self._end_ids, self._tokenizer.vocab_size
        expander = TreeExpander(self._config, self._retrieved, self._acceptance, tree, *sizes)
        expander.needs_model = self._needs_model
        return expander

    def forget(self) -> None:
        """Forget the texts so far."""
        self._retrieved.forget()

    def end_with(self, end_ids: frozenset[int]) -> None:
        """Draft nothing after these end tokens, which are the target's."""
        self._end_ids = self._retrieved.end_ids = self.branches.end_ids = end_ids

    @property
    def tree(self) -> DraftTree:
        """The drafts above the text."""
        return self.branches.tree

    def next_job(self, is_alone: bool, waits_for_others: bool = False) -> EdgeJob | None:
        """Return the draft model's next job, or None. `is_alone`: the edge writes the text itself;
        `waits_for_others`: robots share the target and wait for one another.
        """
        if not self._needs_model:
            return None
        if not self._is_prefilled:
            num_expected = NUM_EXPECTED if CALIBRATION in self._config.drafters else 0
            text = self._text
            return PrefillDraft(text.epoch, text.prompt, text.max_new_tokens, num_expected)
        leaves = [self.tree.root] if is_alone else self.branches.next_leaves(waits_for_others)
        if not leaves:
            return None
        prefixes = tuple(self._text.committed.tokens + self.tree.tokens(leaf) for leaf in leaves)
        scheme = self._config.scheme
        return DraftTokens(self._text.epoch, prefixes, self._num_choices, scheme, self._draft_sampling())

    def _draft_sampling(self) -> Sampling:
        """Return the draft's sampling, with another seed after each verdict if there are retrieved drafts:
        a rejected draw may come back as one.
        """
        if self._deterministic or not self._retrieved:
            return self._text.sampling
        return replace(
            self._text.sampling, seed=mixed_seed(self._text.sampling.seed, len(self._text.committed))
        )

    def is_useful(self, job: DraftTokens) -> bool:
        """Return whether any result of a job would still be new."""
        nodes = (self._node_after(prefix) for prefix in job.prefixes)
        return any(node is not None and not node.drafted for node in nodes)

    def _node_after(self, prefix: tuple[int, ...]) -> Node | None:
        committed = self._text.committed.tokens
        if prefix[: len(committed)] != committed:
            return None
        return self.tree.find(prefix[len(committed) :])

    def on_prefilled(self, result: EdgeResult) -> None:
        """Note that the draft model has read the prompt, or that it had no room for it."""
        self._is_prefilled = True
        if isinstance(result, Successors):
            self._retrieved.calibrate(result)
        if isinstance(result, NoRoom):
            self._needs_model = self.branches.needs_model = False

    def on_drafted(self, job: DraftTokens, results: Sequence[Choices]) -> None:
        """Add what the draft model wrote after the prefixes of a job."""
        for prefix, choices in zip(job.prefixes, results, strict=True):
            node = self._node_after(prefix)
            if node is not None and not node.drafted:
                self.branches.grow(node, choices)

    def commit(self, new: Sequence[int]) -> None:
        """Note that the text has grown by these tokens."""
        self._retrieved.extend(new)
        self.branches.commit(new, self._text.committed.digest)


def commit_of(
    new: tuple[int, ...], verdict: Verdict | Unsettled | None, drafts: TreeExpander, exit_index: int | None
) -> Commit:
    """Return the commit of new tokens, and let the drafts learn from them. `exit_index`: the exit that
    hinted at them. A token that only a hint named counts as no draft.
    """
    if verdict is None:
        return Commit(new, 0, (False,) * len(new), None)
    if verdict.base == drafts.tree.root.length:
        drafts.keep_rejected(new, verdict.drafted, verdict.kept)
    ranks = drafts.judge(new)
    num_verified = _num_verified(verdict, drafts.tree)
    reached = drafts.tree.find(new)
    return Commit(
        new,
        drafted=num_verified - ranks[:-1][:num_verified].count(None),
        is_accepted=_accepted(ranks, num_verified),
        verdict=verdict,
        foreseen=reached is not None and reached.drafted,
        exit=exit_index,
        followed=sum(1 for _ in takewhile(lambda rank: rank == 0, ranks)),
        rejected=drafts.contradicted(new),
    )


def last_sent_s(commit: Commit, tree: DraftTree) -> float | None:
    """Return when the last token was sent that a verdict surely verified; None if it verified none."""
    if commit.verdict is None:
        return None
    num_verified = min(commit.followed, _num_verified(commit.verdict, tree), len(commit.tokens) - 1)
    last = tree.find(commit.tokens[:num_verified]) if num_verified > 0 else None
    return last.sent_s if last is not None else None


def _num_verified(verdict: Verdict | Unsettled, tree: DraftTree) -> int:
    """Return how many draft tokens of a verdict follow the text. It may begin before text written alone."""
    return max(0, verdict.base + verdict.drafted - tree.root.length)


def _accepted(ranks: list[int | None], num_verified: int) -> tuple[bool, ...]:
    """Return which tokens are accepted draft tokens, by the rank of each among the draft's choices.

    After a rejected token comes the target's own, so the last one counts only as the first choice.
    """
    last = len(ranks) - 1
    return tuple(
        [
            at < num_verified and (rank == 0 or (rank is not None and at < last))
            for at, rank in enumerate(ranks)
        ]
    )
