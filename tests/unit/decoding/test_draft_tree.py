"""The edge's tree of drafts: digests, commits, likelihoods, and which of its tokens are sent."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.decoding.cloud.branch_cache import BranchCache
from outrider.decoding.drafting.draft_tree import CHEAPER_THAN_A_DIGEST, DraftTree, Node, branches_to
from outrider.decoding.protocol.branch_codec import Run, pack_runs, unpack_runs
from outrider.decoding.protocol.prefix_digest import extend_digest
from outrider.decoding.tuning import DEFAULT_TUNING

DIGEST, LENGTH = 77, 5
origins = st.sampled_from(["draft", "guess", "hint"])
growth = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3), origins), max_size=25)
bushy_growth = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), origins), min_size=8, max_size=15)
steady = settings(max_examples=200, deadline=None, derandomize=True)


def grown(steps) -> tuple[DraftTree, list[Node]]:
    """Return a tree and its nodes in order of creation; each step names an earlier node as its parent."""
    tree = DraftTree(LENGTH, DIGEST, random.Random(1))
    nodes = [tree.root]
    for index, token, origin in steps:
        parent = nodes[index % len(nodes)]
        node = tree.add(parent, token, 0.5, origin)
        if node not in nodes:
            nodes.append(node)
    return tree, nodes


def paths_of(runs: list[Run]) -> list[tuple[int, ...]]:
    """Return the texts that the runs spell, starting at their parent."""
    trail: list[int] = []
    paths = []
    for back, tokens, _ in runs:
        del trail[len(trail) - back :]
        for token in tokens:
            trail.append(token)
            paths.append(tuple(trail))
    return paths


@pytest.mark.lengthy
@steady
@given(growth)
def test_every_node_is_found_by_its_tokens_and_named_by_them(steps):
    tree, nodes = grown(steps)
    assert len(list(tree)) == len(nodes)
    for node in nodes:
        tokens = tree.tokens(node)
        assert tree.find(tokens) is node
        assert node.digest == extend_digest(DIGEST, tokens)
        assert node.length == LENGTH + len(tokens)
    assert tree.find((9,)) is None
    assert tree.find((9, 9)) is None


@pytest.mark.lengthy
@steady
@given(growth, st.sets(st.integers(1, 25)))
def test_packed_branches_hold_exactly_the_wanted_paths(steps, chosen):
    tree, nodes = grown(steps)
    wanted = [nodes[index] for index in chosen if index < len(nodes)]
    parent, runs = branches_to(tree, wanted)
    sent = paths_of(list(unpack_runs(pack_runs(runs))))
    prefix = tree.tokens(parent)
    steps_of_wanted = {tree.tokens(step) for node in wanted for step in tree.path(node)}
    below = {tokens[len(prefix) :] for tokens in steps_of_wanted if len(tokens) > len(prefix)}
    assert set(sent) == below
    assert len(sent) == len(below), "a token is sent twice"
    assert {tree.tokens(node)[len(prefix) :] for node in wanted} <= below
    firsts = {tokens[:1] for tokens in below}
    if parent is not tree.root:
        assert len(prefix) > CHEAPER_THAN_A_DIGEST
        assert len(firsts) != 1 or tree.find((*prefix, *firsts.pop())) in wanted, (
            "a digest of a longer prefix would do"
        )


@pytest.mark.lengthy
@steady
@given(
    bushy_growth,
    st.lists(st.sets(st.integers(1, 12), min_size=1), min_size=2, max_size=4),
    st.randoms(use_true_random=False),
)
def test_the_cloud_verifies_the_likeliest_branch_in_whatever_order_branches_were_sent(steps, rounds, rng):
    """From tree to bytes to pool: the likeliest sibling comes first, in whatever order siblings are sent."""
    tree, nodes = grown(steps)
    ranks = list(range(len(nodes)))
    rng.shuffle(ranks)
    for node, rank in zip(nodes, ranks, strict=True):
        node.likelihood = rank / len(nodes)
    pool = BranchCache()
    for chosen in rounds:
        wanted = [nodes[index] for index in sorted(chosen) if index < len(nodes)]
        parent, runs = branches_to(tree, wanted)
        pool.add_runs(parent.length, parent.digest, unpack_runs(pack_runs(runs)))
        steps = {step for node in wanted for step in tree.path(node) if step.length > parent.length}
        for node in steps:
            node.sent_s = 1.0
    for node in nodes:
        sent_below = [child for child in node.children.values() if child.sent_s is not None]
        likeliest = max(sent_below, key=lambda child: child.likelihood, default=None)
        assert pool.best(node.digest, 1)[0] == ((likeliest.token,) if likeliest else ())


def test_a_run_is_preferred_only_if_it_is_likelier_than_branches_sent_before():
    tree = DraftTree(LENGTH, DIGEST, random.Random(1))
    first = tree.add(tree.root, 1, 0.5, "draft")
    assert branches_to(tree, [first])[1] == [Run(0, (1,))]
    first.sent_s = 1.0
    likelier, likeliest = tree.add(tree.root, 2, 0.6, "hint"), tree.add(tree.root, 3, 0.7, "hint")
    less = tree.add(tree.root, 4, 0.1, "guess")
    below = tree.add(likeliest, 5, 0.9, "draft")
    parent, runs = branches_to(tree, [likelier, likeliest, less, below])
    assert parent is tree.root
    assert runs == [Run(0, (3, 5), preferred=True), Run(2, (2,)), Run(1, (4,))]


@pytest.mark.lengthy
@steady
@given(growth, st.integers(0, 25))
def test_a_commit_keeps_what_lies_below_it_and_nothing_else(steps, index):
    tree, nodes = grown(steps)
    node = nodes[index % len(nodes)]
    tokens = tree.tokens(node)
    kept = {below: tree.tokens(below)[len(tokens) :] for below in nodes if node in (*_above(below), below)}
    tree.commit(tokens, node.digest)
    assert tree.root is node
    assert set(tree) == set(kept)
    for below, rest in kept.items():
        assert tree.find(rest) is below
        assert tree.tokens(below) == rest
        assert below.anchor >= node.length
        assert 0.0 <= below.likelihood <= 1.0
    assert node.likelihood == 1.0


def _above(node: Node) -> list[Node]:
    above = []
    while node.parent is not None:
        node = node.parent
        above.append(node)
    return above


def test_a_commit_of_something_else_starts_a_new_tree():
    tree, _ = grown([(0, 1, "draft"), (1, 2, "draft")])
    tree.commit((1, 3), 99)
    assert (tree.root.length, tree.root.digest, tree.root.likelihood) == (LENGTH + 2, 99, 1.0)
    assert list(tree) == [tree.root]


def test_a_branch_is_anchored_where_it_leaves_the_drafts_own():
    tree = DraftTree(LENGTH, DIGEST, random.Random(1))
    own = tree.add(tree.root, 1, 0.7, "draft")
    guess = tree.add(own, 2, 0.2, "guess")
    below = tree.add(guess, 3, 0.1, "draft")
    hint = tree.add(tree.root, 4, 0.1, "hint")
    assert (own.anchor, own.branch) == (LENGTH, 0)
    assert (guess.anchor, below.anchor, hint.anchor) == (LENGTH + 2, LENGTH + 2, LENGTH + 1)
    assert (guess.branch, below.branch, hint.branch) == (1, 1, 2)
    assert tree.add(tree.root, 1, 0.0, "hint") is own
    assert own.likelihood == 0.7
    tree.commit((1, 2), 99)
    assert (below.anchor, below.branch) == (LENGTH + 2, 0)


def test_the_main_path_follows_the_first_choices():
    tree = DraftTree(LENGTH, DIGEST, random.Random(1))
    own = tree.add(tree.root, 1, 0.7, "draft")
    tree.add(tree.root, 2, 0.2, "guess")
    assert tree.main_path() == []
    tree.root.choices = (1, 2)
    assert tree.main_path() == [own]
    assert tree.root.best_child is own
    assert own.best_child is None


def test_a_hints_claim_raises_its_branch_and_lowers_the_others():
    tree = DraftTree(LENGTH, DIGEST, random.Random(1))
    own = tree.add(tree.root, 1, 0.7, "draft")
    below = tree.add(own, 1, 0.7, "draft")
    rival = tree.add(own, 2, 0.2, "guess")
    after = tree.add(rival, 5, 0.5, "draft")
    other = tree.add(tree.root, 3, 0.2, "guess")
    tree.claim(rival, 0.6)
    assert rival.likelihood == own.likelihood == pytest.approx(0.6)
    assert after.likelihood == pytest.approx(0.3)
    assert below.likelihood == pytest.approx(0.4 * 0.49)
    assert other.likelihood == pytest.approx(0.4 * 0.2)
    tree.claim(rival, 0.1)
    assert rival.likelihood == pytest.approx(0.1)
    assert below.likelihood == pytest.approx(0.9 * 0.49)


def test_a_claim_made_again_changes_nothing_and_holds_for_what_has_grown_since():
    tree = DraftTree(LENGTH, DIGEST, random.Random(1))
    hinted = tree.add(tree.root, 3, 0.01, "hint")
    tree.claim(hinted, 0.5)
    below = tree.add(hinted, 4, 0.8, "draft")
    before = [(node.share, node.likelihood) for node in tree]
    tree.claim(hinted, 0.5)
    assert [(node.share, node.likelihood) for node in tree] == before
    tree.claim(hinted, 0.6)
    assert below.likelihood == pytest.approx(0.48)


@pytest.mark.lengthy
@steady
@given(growth, st.lists(st.tuples(st.integers(1, 25), st.sampled_from([0.0, 0.2, 0.9])), max_size=3))
def test_the_likely_nodes_are_those_of_all_in_the_same_order(steps, claims):
    tree, nodes = grown(steps)
    for index, chance in claims:
        if index < len(nodes):
            tree.claim(nodes[index], chance)
    for least in (0.0, 0.03, 0.2, 0.5, 0.9):
        assert tree.likely(least) == [node for node in tree if node.likelihood >= least]


@pytest.mark.lengthy
@steady
@given(growth, st.sets(st.integers(0, 25)))
def test_nodes_with_ancestors_include_all_nodes_up_to_the_root(steps, chosen):
    tree, nodes = grown(steps)
    some = [nodes[index] for index in chosen if index < len(nodes)]
    assert tree.with_ancestors(some) == {step for node in some for step in tree.path(node)}


def test_contradicting_claims_are_normalised_together():
    tree = DraftTree(LENGTH, DIGEST, random.Random(1))
    own = tree.add(tree.root, 1, 1.0, "draft")
    rivals = [tree.add(tree.root, token, 0.0, "hint") for token in (2, 3, 4)]
    for rival in rivals:
        tree.claim(rival, 1.0)
    rest = DEFAULT_TUNING.unhinted_mass
    assert [rival.likelihood for rival in rivals] == pytest.approx([1.0 / (3.0 + rest)] * 3)
    assert own.likelihood == pytest.approx(rest / (3.0 + rest))


def test_what_grows_below_a_claim_is_as_likely_as_the_claim_and_the_draft_make_it():
    tree = DraftTree(LENGTH, DIGEST, random.Random(1))
    hinted = tree.add(tree.root, 3, 0.01, "hint")
    tree.claim(hinted, 0.5)
    assert tree.add(hinted, 4, 0.8, "draft").likelihood == pytest.approx(0.4)
    assert tree.add(tree.root, 5, 0.8, "draft").likelihood == pytest.approx(0.4)


@pytest.mark.lengthy
@steady
@given(growth, st.lists(st.tuples(st.integers(1, 25), st.sampled_from([0.0, 0.2, 0.9, 1.0])), max_size=8))
def test_claims_however_contradicting_leave_chances(steps, claims):
    tree, nodes = grown(steps)
    for index, chance in claims:
        if index < len(nodes):
            tree.claim(nodes[index], chance)
        assert all(0.0 <= node.likelihood <= 1.0 + 1e-9 for node in nodes)
        assert all(node.likelihood <= node.parent.likelihood + 1e-9 for node in nodes if node.parent)


def test_a_wrong_hint_however_sure_does_not_end_the_drafting():
    """Once the target rejects the hint, the text after its own token is as likely as before the hint."""
    tree = DraftTree(LENGTH, DIGEST, random.Random(1))
    own = tree.add(tree.root, 1, 0.7, "draft")
    below = tree.add(own, 2, 0.7, "draft")
    tree.claim(tree.add(tree.root, 3, 0.0, "hint"), 1.0)
    assert below.likelihood < 0.2
    tree.commit((1,), own.digest)
    assert own.likelihood == 1.0
    assert below.likelihood == pytest.approx(0.7)
