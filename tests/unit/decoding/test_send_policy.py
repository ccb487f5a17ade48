"""What of the edge's tree is worth sending, and how much of it surely fits one frame."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.core.frames import MAX_RUNS_BYTES
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drafting.draft_tree import DraftTree, branches_to
from outrider.decoding.edge.link_estimator import EdgeEstimator
from outrider.decoding.edge.send_policy import SURELY_FIT, due_ahead, useful_branches
from outrider.decoding.protocol.branch_codec import pack_runs

LARGEST_ID = (1 << 32) - 1
growth = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 2), st.sampled_from([0.2, 0.5, 0.9]), st.booleans()),
    max_size=40,
)


def test_so_many_tokens_surely_fit_however_they_branch():
    flat, deep = DraftTree(5, 77, random.Random(1)), DraftTree(5, 77, random.Random(1))
    for number in range(SURELY_FIT):
        flat.add(flat.root, LARGEST_ID - number, 0.5, "guess")
    stem = deep.root
    for number in range(SURELY_FIT // 2):
        deep.add(stem, LARGEST_ID - number - 1, 0.4, "guess")
        stem = deep.add(stem, LARGEST_ID, 0.5, "draft")
    for tree in (flat, deep):
        assert len(pack_runs(branches_to(tree, list(tree)[1:])[1])) <= MAX_RUNS_BYTES


@settings(max_examples=200, deadline=None, derandomize=True)
@given(growth)
def test_the_useful_branches_are_all_that_is_unsent_and_likely_enough(steps):
    tree, outlook = DraftTree(5, 77, random.Random(1)), EdgeEstimator(DecodingConfig(), 2.0)
    for index, token, chance, own in steps:
        nodes = list(tree)
        node = tree.add(nodes[index % len(nodes)], token, chance, "draft" if own else "guess")
        node.sent_s = 1.0 if token == 0 else None
    found = [node for branch in useful_branches(tree, outlook) for node in branch]
    assert len(set(found)) == len(found)
    wanted = [node for node in tree if node.sent_s is None and node.likelihood >= outlook.least_worth]
    turns = {node.turn: [] for node in wanted}
    for node in wanted:
        if node is not tree.root:
            turns[node.turn].append(node.length)
    kept = {turn for turn, lengths in turns.items() if lengths and max(lengths) - min(lengths) >= 1}
    assert set(found) == {node for node in wanted if node.turn in kept and node is not tree.root}


def test_second_choices_that_nothing_follows_go_along_but_are_no_reason_to_send():
    tree, outlook = DraftTree(5, 77, random.Random(1)), EdgeEstimator(DecodingConfig(num_draft_tokens=2), 2.0)
    tip = tree.add(tree.root, 1, 0.9, "draft")
    guess = tree.add(tip, 7, 0.3, "guess")
    unlikely = tree.add(tip, 8, outlook.least_worth / 2, "guess")
    tip = tree.add(tip, 2, 0.9, "draft")
    assert due_ahead(tree, outlook, True, 0.0).nodes == []
    tree.add(tip, 3, 0.9, "draft")
    due = due_ahead(tree, outlook, True, 0.0).nodes
    assert guess in due and unlikely not in due and len(due) == 4


def test_where_drafts_are_scarce_they_leave_at_once():
    tree, outlook = DraftTree(5, 77, random.Random(1)), EdgeEstimator(DecodingConfig(num_draft_tokens=4), 2.0)
    outlook.verify.add(0.1)
    outlook.step.add(0.1)
    outlook.draft.add(0.005)
    outlook.round_trip.add(0.02, 0.0)
    outlook.on_sent(1, 0.0)
    tip = tree.root
    for token in range(3):
        tip = tree.add(tip, token, 0.9, "draft")
    for growing in (True, False):
        assert due_ahead(tree, outlook, growing, 0.01).nodes == [], "the cloud is busy for a while"
    outlook.draft.add(0.1)
    for _ in range(200):
        outlook.odds.on_verdict(0, 1.0)
    for growing in (True, False):
        assert len(due_ahead(tree, outlook, growing, 0.01).nodes) == 3
