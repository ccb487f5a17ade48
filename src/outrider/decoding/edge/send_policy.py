# SPDX-License-Identifier: Apache-2.0
"""What the edge sends of its drafts, and when.

`WholeChunks` (sd, dssd, fsd) and `Stream` (picospec) are the papers' rules; `SendAhead` is `outrider`.
The machine reports to `estimates` what it observes, and asks `plan` after every event.
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
"""So many tokens fit one frame, were each a run of its own."""


class SendPolicy:
    """Sends nothing, as `ar`. What drafts overrides this."""

    def __init__(self, config: DecodingConfig, estimates: EdgeEstimator) -> None:
        self.estimates = estimates
        self._num_draft_tokens = config.num_draft_tokens

    def plan(self, drafts: TreeExpander, is_told: bool, now_s: float) -> list[Node] | None:
        """Return the drafts to send now. An empty list asks for a token of the target's own.

        None sends nothing. `is_told`: whether something was sent since the last commit.
        """
        return None


class WholeChunks(SendPolicy):
    """The next whole chunk, once the one before is verified."""

    def plan(self, drafts: TreeExpander, is_told: bool, now_s: float) -> list[Node] | None:
        path = drafts.tree.main_path()[: self._num_draft_tokens]
        is_whole = len(path) == self._num_draft_tokens or not drafts.can_extend(path)
        return None if is_told or not is_whole else path


class Stream(SendPolicy):
    """The main branch in chunks, each once it is full, ends, or is worth more now than a token later."""

    def plan(self, drafts: TreeExpander, is_told: bool, now_s: float) -> list[Node] | None:
        path = drafts.tree.main_path()
        unsent = [node for node in path if node.sent_s is None]
        can_extend = drafts.can_extend(path)
        if not path and not can_extend:
            return None if is_told else []
        is_due = not can_extend or len(unsent) >= self._num_draft_tokens
        if unsent and (is_due or self.estimates.is_time(len(unsent), now_s)):
            return unsent[:MAX_CHUNK_TOKENS]
        return None


class SendAhead(SendPolicy):
    """All that is worth its bytes, as soon as a branch is worth a frame.

    Second choices that nothing follows yet go along. Where robots wait for their turns, the likeliest branch
    grows long meanwhile: it goes up alone, in whole chunks.
    """

    def plan(self, drafts: TreeExpander, is_told: bool, now_s: float) -> list[Node] | None:
        tree = drafts.tree
        if self.estimates.takes_turns:
            return self._next_chunk(drafts)
        can_begin = tree.root.drafted or drafts.can_extend(())
        unsent = self._unsent(tree) if can_begin else []
        if not self._hold_a_useful_branch(unsent):
            return None
        unsent.sort(key=lambda node: -node.likelihood)
        affordable = int(min(max(0.0, self.estimates.affords), len(unsent)))
        return _fitting(tree, unsent[:affordable]) or None

    def _hold_a_useful_branch(self, nodes: Sequence[Node]) -> bool:
        """Return whether a branch is worth a frame. The first unsent token of one only says which outcome it
        is for; those after it save time.
        """
        lengths: dict[int, list[int]] = {}
        for node in nodes:
            lengths.setdefault(node.turn, []).append(node.length)
        longest = max((max(some) - min(some) for some in lengths.values()), default=0)
        return longest > 0 and longest >= self.estimates.least_useful

    def _unsent(self, tree: DraftTree) -> list[Node]:
        """Return what is worth its bytes and has not been sent."""
        likely: Sequence[Node] = tree.likely(self.estimates.least_worth)
        return [node for node in likely if node.sent_s is None and node is not tree.root]

    def _next_chunk(self, drafts: TreeExpander) -> list[Node] | None:
        """Return what goes on from the likeliest branch, once it is a whole chunk, enough for a turn, or the
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
    """Return as many of the first as one frame holds, with what connects them."""
    while len(tree.joined(nodes)) > SURELY_FIT:
        if len(pack_runs(branches_to(tree, nodes)[1])) <= MAX_RUNS_BYTES:
            break
        nodes = nodes[: len(nodes) // 2]
    return nodes
