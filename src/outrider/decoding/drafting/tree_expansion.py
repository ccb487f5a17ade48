# SPDX-License-Identifier: Apache-2.0
"""Decides where the edge's draft tree grows: by the draft model, by retrieval, and by what verdicts teach."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from outrider.core.frames import HintOrder
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drafting.draft_tree import DraftTree, Node
from outrider.decoding.drafting.retrieval.drafts import RetrievedDrafts
from outrider.decoding.policy.estimators import CalibratedAcceptance

CHUNKS_PER_TURN = 2
"""How many chunks a robot drafts while it waits; in a batch with other robots,
more tokens cost little time.
"""
_QUEUES: dict[HintOrder, Callable[[Node], float]] = {
    "confidence": lambda node: -node.likelihood,
    "fifo": lambda node: float(node.branch),
    "random": lambda node: node.random_key,
}


class TreeExpander:
    """One text's draft tree. `acceptance`: the session's rates; `retrieved`: its texts so far."""

    def __init__(
        self,
        config: DecodingConfig,
        retrieved: RetrievedDrafts,
        acceptance: CalibratedAcceptance,
        tree: DraftTree,
        max_length: int,
        end_ids: frozenset[int],
        vocab_size: int,
    ) -> None:
        """`max_length`: the most tokens that the text may have."""
        self._ahead = config.plan.ahead
        self._tuning = config.tuning
        self.needs_model = config.needs_model
        self._scheme = config.scheme
        self._queued_at = _QUEUES[config.edge_hint_order]
        self._workers = config.workers
        self._retrieved = retrieved
        self._acceptance = acceptance
        self._max_length = max_length
        self.end_ids = end_ids
        self._vocab_size = vocab_size
        self._room = config.num_draft_tokens * config.plan.window
        self._open: list[Node] | None = None
        """Cache of the open ends, valid until the tree changes."""
        self.tree = tree
        self.turn_tokens = CHUNKS_PER_TURN * config.num_draft_tokens
        """If robots take turns, the likeliest branch gets this many tokens before any other branch."""

    def next_leaves(self, waits_for_others: bool = False) -> list[Node]:
        """Return the leaves that the draft model should extend next, the most useful first,
        `workers` at most.
        """
        if not self.needs_model:
            return []
        if waits_for_others and self._ahead:
            path = self.tree.main_path()
            if len(path) < self.turn_tokens and self.can_extend(path):
                return [path[-1] if path else self.tree.root]
        return sorted(self._open_ends(), key=self._urgency)[: self._workers]

    def can_extend(self, path: Sequence[Node]) -> bool:
        """Return whether the draft model may extend a path.

        Retrieved tokens are added at once, so they do not count.
        """
        return self.needs_model and not self._ends(path[-1] if path else self.tree.root)

    def grow(self, node: Node, choices: Choices) -> None:
        """Add the draft model's choices after a node."""
        self._open = None
        node.choices, node.confidence = choices.tokens, choices.confidence
        for rank, token in enumerate(choices.tokens):
            chance = self._acceptance.chance(rank, choices.confidence)
            child = self.tree.add(node, token, chance, "guess" if rank else "draft")
            if rank == 0:
                child.row = choices.row

    def hint(self, tokens: Sequence[int], confidence: float) -> None:
        """Add a hint: the running verification may end with these tokens."""
        self._open = None
        node = self.tree.root
        for token in tokens:
            node = self.tree.add(node, token, self._tuning.stale_hint_prob, "hint")
        self.tree.claim(node, confidence)

    def commit(self, tokens: Sequence[int], digest: int) -> None:
        """Commit tokens to the text, which then has this digest."""
        self._open = None
        self.tree.commit(tokens, digest)

    def retrieve(self) -> None:
        """Extend every open branch by retrieved tokens that are likelier right than the draft model's own."""
        if not self._retrieved:
            return
        length = self.tree.root.length
        for node in [node for node in self._open_ends() if node.consulted_at != length]:
            node.consulted_at = length
            self._open = None
            self._fill(node)

    def contradicted(self, new: Sequence[int]) -> tuple[int, ...]:
        """Return the main branch from its first difference to these tokens; empty if there is none."""
        drafted = self.tree.main_tokens()
        differing = (i for i, (ours, final) in enumerate(zip(drafted, new, strict=False)) if ours != final)
        return drafted[next(differing, len(drafted)) :]

    def keep_rejected(self, new: Sequence[int], num_judged: int, kept: tuple[int, ...]) -> None:
        """Keep a run of a rejected draft, (start, end) in `kept`, for reuse.

        The verdict does not say which draft it judged; this assumes the main branch.
        """
        chunk = self.tree.main_tokens()[:num_judged]
        if len(kept) == 2 and chunk[: len(new) - 1] == tuple(new[:-1]):
            self._retrieved.keep(chunk[slice(*kept)])

    def judge(self, new: Sequence[int]) -> list[int | None]:
        """Return for each token its rank among the draft's choices there;
        None if the draft did not propose it.

        The rates learn from each outcome up to the first that is not the draft's first choice.
        """
        ranks: list[int | None] = []
        node: Node | None = self.tree.root
        is_first_choice = True
        for token in new:
            choices = () if node is None else node.choices
            rank = choices.index(token) if token in choices else None
            if is_first_choice and node is not None and node.drafted and not node.retrieved:
                self._acceptance.on_verdict(rank, node.confidence)
            is_first_choice = is_first_choice and rank == 0
            ranks.append(rank)
            node = None if node is None else node.children.get(token)
        return ranks

    def _open_ends(self) -> list[Node]:
        if self._open is None:
            least = self._tuning.min_branch_prob if self._ahead else 0.0
            nodes = self.tree.likely(least)
            self._open = [node for node in nodes if not node.choices and self._may_grow(node)]
        return self._open

    def _may_grow(self, node: Node) -> bool:
        if self._ends(node):
            return False
        if self._ahead and node.likelihood < self._tuning.min_branch_prob:
            return False
        return node.length - node.anchor < self._room

    def _ends(self, node: Node) -> bool:
        """Return whether nothing may follow a node.

        The last token is never drafted: a verdict adds one itself.
        """
        return node.token in self.end_ids or node.length + 1 >= self._max_length

    def _urgency(self, node: Node) -> tuple[float, float, float]:
        """Return the sort key of a leaf: the draft's own branch first,
        then those on hints in the configured order.

        Branches already begun come first, as with FSD's threads, unless branches are drafted ahead of any
        verdict.
        """
        on_hint = not self._ahead and node.anchor > self.tree.root.length
        begun = on_hint and node.length > node.anchor
        return float(on_hint), float(not begun), self._queued_at(node)

    def _fill(self, node: Node) -> None:
        """Extend a node by retrieved tokens.

        Every scheme treats them as draft tokens drawn with certainty.
        """
        room = self._room - (node.length - node.anchor)
        least = self._acceptance.rate() if self.needs_model else 0.0
        for token, chance in self._retrieved.likely(self.tree.tokens(node), room):
            if chance < least or not self._may_grow(node):
                break
            node.choices, node.retrieved = (token,), True
            node = self.tree.add(node, token, chance, "draft")
            node.row = self._scheme.certain_row(token, self._vocab_size)
