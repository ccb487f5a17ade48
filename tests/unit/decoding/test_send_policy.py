"""Which part of the edge's tree is worth sending, and how much of it certainly fits one frame."""

from __future__ import annotations

import random
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.core.frames import MAX_RUNS_BYTES
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drafting.draft_tree import DraftTree, branches_to
from outrider.decoding.edge.link_estimator import EdgeEstimator, VerdictObservation
from outrider.decoding.edge.send_policy import SURELY_FIT, SendAhead
from outrider.decoding.protocol.branch_codec import pack_runs
from outrider.decoding.tuning import DEFAULT_TUNING

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


def policy_of(num_draft_tokens: int = 4) -> SendAhead:
    config = DecodingConfig(num_draft_tokens=num_draft_tokens)
    return SendAhead(config, EdgeEstimator(config))


def sent(policy: SendAhead, tree: DraftTree, can_extend: bool = True) -> list:
    drafts = SimpleNamespace(tree=tree, can_extend=lambda path: can_extend, turn_tokens=8)
    return policy.plan(drafts, False, 0.0) or []


def let_wait(policy: SendAhead, batches: float) -> None:
    """Receive verdicts on drafts that were ready, `batches` times 0.1 s apart, each from a batch of 0.1 s."""
    for number in range(20):
        now_s = number * batches * 0.1
        policy.estimates.on_verdict(now_s, VerdictObservation(1, 4, 0.1, now_s - 0.01))


def forked_tree(length: int) -> DraftTree:
    """Return a tree with a main branch of `length` tokens, and another branch of two."""
    tree = DraftTree(5, 77, random.Random(1))
    tip = tree.root
    for token in range(length):
        tip.choices = (token,)
        tip = tree.add(tip, token, 0.8, "draft")
    tree.add(tree.add(tree.root, 30, 0.4, "guess"), 31, 0.8, "draft")
    assert len(tree.main_path()) == length
    return tree


@settings(max_examples=200, deadline=None, derandomize=True)
@given(growth)
def test_all_likely_unsent_nodes_are_sent_once_a_branch_is_useful(steps):
    tree, policy = DraftTree(5, 77, random.Random(1)), policy_of()
    for index, token, chance, own in steps:
        nodes = list(tree)
        node = tree.add(nodes[index % len(nodes)], token, chance, "draft" if own else "guess")
        node.sent_s = 1.0 if token == 0 else None
    likely = [node for node in list(tree)[1:] if node.likelihood >= DEFAULT_TUNING.min_branch_prob]
    wanted = [node for node in likely if node.sent_s is None]
    lengths = {
        node.branch: [other.length for other in wanted if other.branch == node.branch] for node in wanted
    }
    is_useful = any(max(some) > min(some) for some in lengths.values())
    found = sent(policy, tree)
    assert len(set(found)) == len(found)
    assert set(found) == (set(wanted) if is_useful else set())


def test_second_choices_without_successors_are_sent_only_with_others():
    tree, policy = DraftTree(5, 77, random.Random(1)), policy_of(num_draft_tokens=2)
    tip = tree.add(tree.root, 1, 0.9, "draft")
    guess = tree.add(tip, 7, 0.3, "guess")
    unlikely = tree.add(tip, 8, DEFAULT_TUNING.min_branch_prob / 2, "guess")
    assert sent(policy, tree) == []
    tree.add(tip, 2, 0.9, "draft")
    due = sent(policy, tree)
    assert guess in due and unlikely not in due and len(due) == 3


def test_if_robots_take_turns_only_the_main_branch_is_sent_in_whole_chunks():
    alone, shared = policy_of(num_draft_tokens=4), policy_of(num_draft_tokens=4)
    let_wait(alone, 1.0)
    let_wait(shared, 2.0)
    assert (alone.estimates.waits_for_others, shared.estimates.waits_for_others) == (False, True)
    for length in (2, 3):
        assert len(sent(alone, forked_tree(length))) == length + 2
        assert sent(shared, forked_tree(length)) == []
    for length in (4, 6):
        tree = forked_tree(length)
        assert sent(shared, tree) == tree.main_path()
        for node in tree.main_path():
            node.sent_s = 1.0
        assert sent(shared, tree) == [], "other branches are not sent"


def test_if_robots_take_turns_a_branch_that_has_ended_is_sent():
    policy = policy_of(num_draft_tokens=4)
    let_wait(policy, 2.0)
    tree = forked_tree(2)
    assert sent(policy, tree, can_extend=False) == tree.main_path()


def test_if_robots_take_turns_the_last_token_is_sent_even_alone():
    policy = policy_of(num_draft_tokens=4)
    let_wait(policy, 2.0)
    tree = forked_tree(5)
    for node in tree.main_path()[:4]:
        node.sent_s = 1.0
    assert sent(policy, tree) == []
    assert sent(policy, tree, can_extend=False) == tree.main_path()[4:]


def test_if_robots_take_turns_a_branch_that_completes_a_turn_is_sent():
    policy = policy_of(num_draft_tokens=4)
    let_wait(policy, 2.0)
    for length, due in ((7, 0), (8, 3), (9, 4), (10, 5)):
        tree = forked_tree(length)
        for node in tree.main_path()[:5]:
            node.sent_s = 1.0
        assert sent(policy, tree) == tree.main_path()[length - due :]
    for node in tree.main_path()[:8]:
        node.sent_s = 1.0
    assert sent(policy, tree) == [], "tokens beyond a turn wait for a whole chunk"
