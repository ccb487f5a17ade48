# SPDX-License-Identifier: Apache-2.0
"""What the edge sends of its drafts, and when.

`WholeChunks` (sd, dssd, fsd) and `Stream` (picospec) are the papers' rules; `SendAhead` is `outrider`.
The machine reports to `estimates` what it observes, and asks `plan` after every event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from outrider.core.frames import MAX_CHUNK_TOKENS, MAX_RUNS_BYTES
from outrider.core.varints import MAX_BYTES
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drafting.draft_tree import DraftTree, Node, branches_to
from outrider.decoding.drafting.tree_expansion import TreeExpander
from outrider.decoding.edge.link_estimator import EdgeEstimator
from outrider.decoding.protocol.branch_codec import pack_runs

SURELY_FIT = MAX_RUNS_BYTES // (2 * MAX_BYTES)
"""So many tokens fit one frame, were each a run of its own."""


class SendPlan(NamedTuple):
    """The drafts to send now: an empty list asks for a token of the target's own, None sends nothing.

    `wake_at_s`: when to plan again although nothing has happened; None where only an event can change things.
    """

    nodes: list[Node] | None = None
    wake_at_s: float | None = None


NOTHING = SendPlan()


class SendPolicy:
    """Sends nothing, as `ar`. What drafts overrides this."""

    def __init__(self, config: DecodingConfig, estimates: EdgeEstimator) -> None:
        self.estimates = estimates
        self._tuning = config.tuning
        self._num_draft_tokens = config.num_draft_tokens

    def plan(self, drafts: TreeExpander, is_told: bool, now_s: float) -> SendPlan:
        """Return what to send now. `is_told`: whether something was sent since the last commit."""
        return NOTHING

    def should_abort(self, drafting: Sequence[Node], drafts: TreeExpander, elapsed_s: float) -> bool:
        """Return whether to abort drafts that are still of use, begun so long ago, for likelier ones."""
        return False


class WholeChunks(SendPolicy):
    """The next whole chunk, once the one before is verified."""

    def plan(self, drafts: TreeExpander, is_told: bool, now_s: float) -> SendPlan:
        """See `SendPolicy`."""
        path = drafts.tree.main_path()[: self._num_draft_tokens]
        is_whole = len(path) == self._num_draft_tokens or not drafts.can_extend(path)
        return NOTHING if is_told or not is_whole else SendPlan(path)


class Stream(SendPolicy):
    """The main branch in chunks, each once it is full, ends, or is worth more now than a token later."""

    def plan(self, drafts: TreeExpander, is_told: bool, now_s: float) -> SendPlan:
        """See `SendPolicy`."""
        path = drafts.tree.main_path()
        unsent = [node for node in path if node.sent_s is None]
        can_extend = drafts.can_extend(path)
        if not path and not can_extend:
            return NOTHING if is_told else SendPlan([])
        is_due = not can_extend or len(unsent) >= self._num_draft_tokens
        if unsent and (is_due or self.estimates.is_time(len(unsent), now_s)):
            return SendPlan(unsent[:MAX_CHUNK_TOKENS])
        return NOTHING


class SendAhead(SendPolicy):
    """All that is worth its bytes, once some branch must leave to be there when the cloud may need it, or at
    once where drafts are scarce.

    Second choices that nothing follows yet go along: verified beside the first, one may win a token.
    """

    def plan(self, drafts: TreeExpander, is_told: bool, now_s: float) -> SendPlan:
        """See `SendPolicy`. As long as drafts grow, each new one is an occasion to send."""
        tree, estimates = drafts.tree, self.estimates
        can_begin = tree.root.drafted or drafts.can_extend(())
        branches = self._useful_branches(tree) if can_begin else []
        if not branches:
            return NOTHING
        if estimates.sends_just_in_time:
            if not drafts.goes_on and (leave_s := estimates.leave_s(now_s)) > now_s:
                return SendPlan(None, leave_s)
            if drafts.goes_on and not any(self._is_time(tree, branch, now_s) for branch in branches):
                return NOTHING
        nodes = sorted(self._unsent(tree), key=lambda node: -node.likelihood)
        affordable = int(min(max(0.0, estimates.affords), len(nodes)))
        return SendPlan(_fitting(tree, nodes[:affordable]) or None)

    def should_abort(self, drafting: Sequence[Node], drafts: TreeExpander, elapsed_s: float) -> bool:
        """See `SendPolicy`. A draft is worth the chance that the text comes that way."""
        if not self._tuning.abort_drafts:
            return False
        usual_s = self.estimates.draft.value
        left = 1.0 - elapsed_s / usual_s if usual_s else 1.0
        instead = drafts.next_leaves()
        return sum(node.likelihood for node in drafting) < left * sum(node.likelihood for node in instead)

    def _useful_branches(self, tree: DraftTree) -> list[list[Node]]:
        """Return what is worth sending of each branch that is worth a frame, from the root outward.

        The first unsent token of a branch only says which outcome it is for; those after it save time.
        """
        branches: dict[int, list[Node]] = {}
        for node in self._unsent(tree):
            branches.setdefault(node.turn, []).append(node)
        if not branches:
            return []
        least = self.estimates.least_useful
        found = [sorted(nodes, key=lambda node: node.length) for nodes in branches.values()]
        return [nodes for nodes in found if nodes[-1].length - nodes[0].length >= least]

    def _unsent(self, tree: DraftTree) -> list[Node]:
        """Return what is worth its bytes and has not been sent."""
        likely = tree.likely(self.estimates.least_worth)
        return [node for node in likely if node.sent_s is None and node is not tree.root]

    def _is_time(self, tree: DraftTree, branch: list[Node], now_s: float) -> bool:
        """Return whether a branch should leave now. One on an outcome of a later verification can wait."""
        first, parent = branch[0], branch[0].parent
        assert parent is not None
        begun_s = self.estimates.begun_s
        is_outcome = parent is tree.root or (parent.sent_s is not None and parent.sent_s <= begun_s)
        is_known = parent.length > first.anchor and parent.sent_s is not None
        return is_outcome and self.estimates.is_time(len(branch) - (not is_known), now_s)


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
    while len(tree.joined(nodes)) > SURELY_FIT and _num_bytes(tree, nodes) > MAX_RUNS_BYTES:
        nodes = nodes[: len(nodes) // 2]
    return nodes


def _num_bytes(tree: DraftTree, nodes: list[Node]) -> int:
    return len(pack_runs(branches_to(tree, nodes)[1]))
