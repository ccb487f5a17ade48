# SPDX-License-Identifier: Apache-2.0
"""Decides which drafts the edge sends, and when.

`WholeChunks` (sd, dssd, fsd) and `Stream` (picospec) are the papers' rules; `SendAhead` is `outrider`. The
machine reports what it observes to `estimates`, and calls `plan` after every event.
"""

from __future__ import annotations

from collections.abc import Sequence

from outrider.core.frames import MAX_CHUNK_TOKENS, MAX_RUNS_BYTES
from outrider.core.varints import MAX_BYTES
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drafting.draft_tree import DraftTree, Node, branches_to
from outrider.decoding.drafting.tree_expansion import TreeExpander
from outrider.decoding.edge.link_estimator import EdgeEstimator
from outrider.decoding.protocol.branch_codec import pack_runs

SURELY_FIT = MAX_RUNS_BYTES // (2 * MAX_BYTES)
"""This many tokens surely fit one frame, even if each is a run of its own."""


class SendPolicy:
    """Sends nothing, as in `ar`. Subclasses send drafts."""

    def __init__(self, config: DecodingConfig, estimates: EdgeEstimator) -> None:
        self.estimates = estimates
        self._num_draft_tokens = config.num_draft_tokens
        self._min_branch_prob = config.tuning.min_branch_prob

    def plan(self, drafts: TreeExpander, has_sent: bool, now_s: float) -> list[Node] | None:
        """Return the drafts to send now. An empty list asks for a token of the target's own.

        None sends nothing. `has_sent`: whether something was sent since the last commit.
        """
        return None


class WholeChunks(SendPolicy):
    """Sends the next whole chunk once the one before has been verified."""

    def plan(self, drafts: TreeExpander, has_sent: bool, now_s: float) -> list[Node] | None:
        path = drafts.tree.main_path()[: self._num_draft_tokens]
        is_whole = len(path) == self._num_draft_tokens or not drafts.can_extend(path)
        return None if has_sent or not is_whole else path


class Stream(SendPolicy):
    """Sends the main branch in chunks: each once it is full or ends, or once waiting no longer pays."""

    def plan(self, drafts: TreeExpander, has_sent: bool, now_s: float) -> list[Node] | None:
        path = drafts.tree.main_path()
        unsent = [node for node in path if node.sent_s is None]
        can_extend = drafts.can_extend(path)
        if not path and not can_extend:
            return None if has_sent else []
        is_due = not can_extend or len(unsent) >= self._num_draft_tokens
        if unsent and (is_due or self.estimates.should_send(len(unsent), now_s)):
            return unsent[:MAX_CHUNK_TOKENS]
        return None


class SendAhead(SendPolicy):
    """Sends all drafts that are likely enough, as soon as a branch is worth a frame.

    This includes second choices that nothing follows yet. If robots take turns, the likeliest branch grows
    long while it waits: then it is sent alone, in whole chunks.
    """

    def plan(self, drafts: TreeExpander, has_sent: bool, now_s: float) -> list[Node] | None:
        tree = drafts.tree
        if self.estimates.waits_for_others:
            return self._next_chunk(drafts)
        can_begin = tree.root.drafted or drafts.can_extend(())
        unsent = self._unsent(tree) if can_begin else []
        if not self._hold_a_useful_branch(unsent):
            return None
        unsent.sort(key=lambda node: -node.likelihood)
        return _fitting(tree, unsent) or None

    def _hold_a_useful_branch(self, nodes: Sequence[Node]) -> bool:
        """Return whether a branch is worth a frame. Its first unsent token only names the outcome that it
        belongs to; those after it save time.
        """
        lengths: dict[int, list[int]] = {}
        for node in nodes:
            lengths.setdefault(node.branch, []).append(node.length)
        longest = max((max(group) - min(group) for group in lengths.values()), default=0)
        return longest > 0 and longest >= self.estimates.min_useful_tokens

    def _unsent(self, tree: DraftTree) -> list[Node]:
        """Return the unsent nodes that are likely enough to be verified."""
        likely: Sequence[Node] = tree.likely(self._min_branch_prob)
        return [node for node in likely if node.sent_s is None and node is not tree.root]

    def _next_chunk(self, drafts: TreeExpander) -> list[Node] | None:
        """Return the unsent rest of the likeliest branch once it is a whole chunk, completes a turn, or the
        branch ends.
        """
        path = drafts.tree.main_path()
        unsent = [node for node in path if node.sent_s is None]
        fills_turn = len(path) >= drafts.turn_tokens > len(path) - len(unsent)
        is_whole = len(unsent) >= self._num_draft_tokens or not drafts.can_extend(path)
        if not unsent or not (is_whole or fills_turn):
            return None
        return _fitting(drafts.tree, unsent)


def send_policy_of(config: DecodingConfig, estimates: EdgeEstimator) -> SendPolicy:
    """Return the policy of a configuration's strategy."""
    plan = config.plan
    if not plan.drafts:
        return SendPolicy(config, estimates)
    if plan.ahead:
        return SendAhead(config, estimates)
    return (Stream if plan.streams else WholeChunks)(config, estimates)


def _fitting(tree: DraftTree, nodes: list[Node]) -> list[Node]:
    """Return as many of the first nodes as one frame holds with the nodes that connect them."""
    while len(tree.with_ancestors(nodes)) > SURELY_FIT:
        if len(pack_runs(branches_to(tree, nodes)[1])) <= MAX_RUNS_BYTES:
            break
        nodes = nodes[: len(nodes) // 2]
    return nodes
