# SPDX-License-Identifier: Apache-2.0
"""What of the edge's tree goes up ahead of a verdict, and when: just in time, for hints may yet change it,
unless drafts are scarce.
"""

from __future__ import annotations

from dataclasses import dataclass

from outrider.core.frames import MAX_RUNS_BYTES
from outrider.core.varints import MAX_BYTES
from outrider.decoding.drafting.draft_tree import DraftTree, Node, branches_to
from outrider.decoding.edge.link_estimator import EdgeEstimator
from outrider.decoding.protocol.branch_codec import pack_runs

SURELY_FIT = MAX_RUNS_BYTES // (2 * MAX_BYTES)
"""So many tokens fit one frame, were each a run of its own."""


@dataclass(frozen=True)
class SendPlan:
    """The nodes to send now, if any; else `look_s` says when to ask again, where time alone decides."""

    nodes: list[Node]
    look_s: float | None = None


def due_ahead(tree: DraftTree, outlook: EdgeEstimator, growing: bool, now_s: float) -> SendPlan:
    """All that is worth its bytes, once some branch must leave to be there when the cloud may need it, or at
    once where drafts are scarce.

    Second choices that nothing follows yet go along: verified beside the first, one may win a token.
    `growing`: whether a further token may still come, and with it another occasion to send.
    """
    branches = useful_branches(tree, outlook)
    if not branches:
        return SendPlan([])
    if outlook.sends_just_in_time:
        if not growing and (leave_s := outlook.leave_s(now_s)) > now_s:
            return SendPlan([], leave_s)
        if growing and not any(is_time(tree, branch, outlook, now_s) for branch in branches):
            return SendPlan([])
    nodes = sorted(_untold(tree, outlook), key=lambda node: -node.likelihood)
    return SendPlan(_fitting(tree, nodes[: int(min(max(0.0, outlook.affords), len(nodes)))]))


def useful_branches(tree: DraftTree, outlook: EdgeEstimator) -> list[list[Node]]:
    """What is worth telling of each branch, outward, of those that are worth a frame.

    The first unsent token of a branch only says which outcome it is for; those after it save time.
    """
    branches: dict[int, list[Node]] = {}
    for node in _untold(tree, outlook):
        branches.setdefault(node.turn, []).append(node)
    if not branches:
        return []
    least = outlook.least_useful
    found = [sorted(nodes, key=lambda node: node.length) for nodes in branches.values()]
    return [nodes for nodes in found if nodes[-1].length - nodes[0].length >= least]


def _untold(tree: DraftTree, outlook: EdgeEstimator) -> list[Node]:
    """What is worth its bytes and has not been sent; with it, what connects it."""
    likely = tree.likely(outlook.least_worth)
    return [node for node in likely if node.sent_s is None and node is not tree.root]


def is_time(tree: DraftTree, branch: list[Node], outlook: EdgeEstimator, now_s: float) -> bool:
    """Whether a branch should leave now. Those on outcomes of a later verification can wait for it."""
    first = branch[0]
    parent = first.parent
    assert parent is not None
    outcome = parent is tree.root or (parent.sent_s is not None and parent.sent_s <= outlook.begun_s)
    told = parent.length > first.anchor and parent.sent_s is not None
    return outcome and outlook.is_time(len(branch) - (not told), now_s)


def _fitting(tree: DraftTree, nodes: list[Node]) -> list[Node]:
    """As many of the first as one frame holds, with what connects them."""
    while len(tree.joined(nodes)) > SURELY_FIT and _num_bytes(tree, nodes) > MAX_RUNS_BYTES:
        nodes = nodes[: len(nodes) // 2]
    return nodes


def _num_bytes(tree: DraftTree, nodes: list[Node]) -> int:
    return len(pack_runs(branches_to(tree, nodes)[1]))
