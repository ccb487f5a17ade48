# SPDX-License-Identifier: Apache-2.0
"""Where the edge's tree of drafts grows: by the draft model, what is retrieved, and what verdicts teach."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from outrider.core.frames import HintOrder
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drafting.draft_tree import DraftTree, Node
from outrider.decoding.drafting.retrieval.drafts import RetrievedDrafts
from outrider.decoding.policy.estimators import CalibratedAcceptance

CHUNKS_PER_TURN = 2
"""How many chunks a robot drafts while it waits: beside others' drafts a verification takes little more."""
_QUEUES: dict[HintOrder, Callable[[Node], float]] = {
    "confidence": lambda node: -node.likelihood,
    "fifo": lambda node: float(node.turn),
    "random": lambda node: node.lot,
}


class TreeExpander:
    """One text's tree of drafts. `odds` are the session's, and `retrieved` what it has read and written."""

    def __init__(
        self,
        config: DecodingConfig,
        retrieved: RetrievedDrafts,
        odds: CalibratedAcceptance,
        tree: DraftTree,
        max_length: int,
        end_ids: frozenset[int],
        vocab_size: int,
    ) -> None:
        """`max_length`: tokens that the text may have at most."""
        self._ahead = config.plan.ahead
        self._tuning = config.tuning
        self.needs_model = config.needs_model
        self._scheme = config.scheme
        self._queued_at = _QUEUES[config.edge_hint_order]
        self._workers = config.workers
        self._retrieved = retrieved
        self._odds = odds
        self._max_length = max_length
        self.end_ids = end_ids
        self._vocab_size = vocab_size
        self._room = config.num_draft_tokens * config.plan.window
        self._open: list[Node] | None = None
        """The open ends, until the tree changes: they are asked for more often than that."""
        self.tree = tree
        self.turn_tokens = CHUNKS_PER_TURN * config.num_draft_tokens
        """Where robots take turns, this many tokens of the likeliest branch come before any other branch."""

    def next_leaves(self, takes_turns: bool = False) -> list[Node]:
        """Where the draft model should go on, the most useful first; no more than it drafts on at a time."""
        if not self.needs_model:
            return []
        if takes_turns and self._ahead:
            path = self.tree.main_path()
            if len(path) < self.turn_tokens and self.can_extend(path):
                return [path[-1] if path else self.tree.root]
        return sorted(self._open_ends(), key=self._urgency)[: self._workers]

    def can_extend(self, path: Sequence[Node]) -> bool:
        """Whether more may yet be drafted after a path. What retrieval offers is there at once."""
        return self.needs_model and not self._ends(path[-1] if path else self.tree.root)

    def grow(self, node: Node, choices: Choices) -> None:
        """The draft model has gone on there."""
        self._open = None
        node.choices, node.confidence = choices.tokens, choices.confidence
        for rank, token in enumerate(choices.tokens):
            chance = self._odds.chance(rank, choices.confidence)
            child = self.tree.add(node, token, chance, "guess" if rank else "draft")
            if rank == 0:
                child.row = choices.row

    def hint(self, tokens: Sequence[int], confidence: float) -> None:
        """The running verification may end with these."""
        self._open = None
        node = self.tree.root
        for token in tokens:
            node = self.tree.add(node, token, self._tuning.stale_hint_prob, "hint")
        self.tree.claim(node, confidence)

    def commit(self, tokens: Sequence[int], digest: int) -> None:
        """They are part of the text now, which has this digest."""
        self._open = None
        self.tree.commit(tokens, digest)

    def retrieve(self) -> None:
        """Grow every branch by the retrieved tokens that are likelier right than the draft model's own."""
        if not self._retrieved:
            return
        length = self.tree.root.length
        for node in [node for node in self._open_ends() if node.consulted_at != length]:
            node.consulted_at = length
            self._open = None
            self._fill(node)

    def contradicted(self, new: Sequence[int]) -> tuple[int, ...]:
        """The draft's main branch from where these tokens leave it; nothing where they do not."""
        drafted = self.tree.main_tokens()
        differing = (i for i, (ours, final) in enumerate(zip(drafted, new, strict=False)) if ours != final)
        return drafted[next(differing, len(drafted)) :]

    def keep_rejected(self, new: Sequence[int], num_judged: int, kept: tuple[int, ...]) -> None:
        """A run of a rejected draft, its start and end in `kept`, may yet come true. Which draft it was is
        not said: most likely the main one.
        """
        chunk = self.tree.main_tokens()[:num_judged]
        if len(kept) == 2 and chunk[: len(new) - 1] == tuple(new[:-1]):
            self._retrieved.keep(chunk[slice(*kept)])

    def judge(self, new: Sequence[int]) -> list[int | None]:
        """Of each token which choice of the draft it is in its place; None where it did not draft it.

        The odds learn from each outcome up to the first that is not the draft's first choice.
        """
        ranks: list[int | None] = []
        node: Node | None = self.tree.root
        is_first_choice = True
        for token in new:
            choices = () if node is None else node.choices
            rank = choices.index(token) if token in choices else None
            if is_first_choice and node is not None and node.drafted and not node.retrieved:
                self._odds.on_verdict(rank, node.confidence)
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
        """A verdict itself adds a token, so the last one is never drafted."""
        return node.token in self.end_ids or node.length + 1 >= self._max_length

    def _urgency(self, node: Node) -> tuple[float, float, float]:
        """Sorts leaves: the draft's own branch, then those on hints in the order of the configured queue.

        What is begun is finished, as by FSD's threads, unless branches are drafted ahead of any verdict.
        """
        on_hint = not self._ahead and node.anchor > self.tree.root.length
        begun = on_hint and node.length > node.anchor
        return float(on_hint), float(not begun), self._queued_at(node)

    def _fill(self, node: Node) -> None:
        """Under every scheme a retrieved token is a draft like any other, drawn with certainty."""
        room = self._room - (node.length - node.anchor)
        least = self._odds.rate() if self.needs_model else 0.0
        for token, chance in self._retrieved.likely(self.tree.tokens(node), room):
            if chance < least or not self._may_grow(node):
                break
            node.choices, node.retrieved = (token,), True
            node = self.tree.add(node, token, chance, "draft")
            node.row = self._scheme.certain_row(token, self._vocab_size)
