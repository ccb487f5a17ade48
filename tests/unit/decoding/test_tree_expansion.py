"""Where the edge's tree grows: what is kept between changes equals a search of the whole tree."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drafting.draft_tree import DraftTree
from outrider.decoding.drafting.retrieval.drafts import RetrievedDrafts
from outrider.decoding.drafting.tree_expansion import TreeExpander
from outrider.decoding.policy.estimators import CalibratedAcceptance

VOCAB, END, MAX_TOKENS = 6, 5, 30
steps = st.lists(
    st.tuples(
        st.sampled_from(["grow", "grow", "grow", "hint", "commit", "retrieve"]),
        st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=3),
        st.sampled_from([0.0, 0.3, 0.9]),
    ),
    max_size=30,
)


def growth_of(config: DecodingConfig, tree: DraftTree) -> TreeExpander:
    retrieved = RetrievedDrafts(("suffix",), frozenset((END,)))
    retrieved.begin((0, 1, 2, 0, 1, 3))
    return TreeExpander(config, retrieved, CalibratedAcceptance(), tree, MAX_TOKENS, frozenset((END,)), VOCAB)


@pytest.mark.lengthy
@pytest.mark.parametrize("strategy", ["outrider", "fsd", "picospec"])
@settings(max_examples=150, deadline=None, derandomize=True)
@given(steps)
def test_cached_open_ends_equal_those_of_a_full_search(strategy, steps):
    config = DecodingConfig(strategy=strategy, workers=64)
    growth = growth_of(config, DraftTree(0, 77, random.Random(1)))
    for what, tokens, chance in steps:
        if what == "grow" and (leaves := growth.next_leaves()):
            leaf = leaves[tokens[0] % len(leaves)]
            growth.grow(leaf, Choices(tuple(dict.fromkeys(tokens)), confidence=chance))
        elif what == "hint":
            growth.hint(tokens, chance)
        elif what == "commit":
            growth.commit(tokens, growth.tree.root.length)
        elif what == "retrieve":
            growth.retrieve()
        anew = growth_of(config, growth.tree)
        assert growth.next_leaves() == anew.next_leaves()


def test_if_robots_take_turns_the_main_branch_is_drafted_first():
    """Each token's second choice is likelier than the token after the first choice."""
    lengths = []
    for waits_for_others in (False, True):
        growth = growth_of(DecodingConfig(), DraftTree(0, 77, random.Random(1)))
        for _ in range(growth.turn_tokens + 2):
            growth.grow(growth.next_leaves(waits_for_others)[0], Choices((1, 2), confidence=0.3))
        lengths.append(len(growth.tree.main_path()))
    alone, shared = lengths
    assert alone < growth.turn_tokens <= shared
