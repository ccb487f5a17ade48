"""Retrieved drafts as a tree: alternatives and rejected segments are branches next to the likeliest one."""

from __future__ import annotations

from collections.abc import Iterator

from outrider.core.values import Successors
from outrider.decoding.drafting.retrieval.drafts import RetrievedDrafts
from outrider.decoding.drafting.retrieval.tree import TokenTree, Way, grown_tree

EOS = 0


def drafts(*names: str, prompt: tuple[int, ...]) -> RetrievedDrafts:
    made = RetrievedDrafts(names, frozenset((EOS,)))
    made.begin(prompt)
    return made


def test_a_tree_holds_common_beginnings_once() -> None:
    tree = TokenTree(4)
    one = tree.add(tree.root, 1)
    tree.add(tree.add(one, 2), 3)
    assert tree.add(tree.root, 1) is one and not tree.is_full
    tree.add(one, 4)
    assert tree.chain == (1, 2, 3) and tree.num_tokens == 4 and tree.is_full
    assert tree.holds(()) and tree.holds((1, 2, 3)) and tree.holds((1, 4))
    assert not tree.holds((1, 4, 5)) and not tree.holds((2,)) and not tree.holds((1, 2, 3, 4))


def test_the_likelier_branch_gets_the_room() -> None:
    ways = [Way(0.1, 7, None, (8,)), Way(0.5, 5, None, (6,)), Way(0.4, 1, None, (2,))]

    def onward(way: Way) -> Iterator[Way]:
        yield from [Way(0.9 * way.chance, token, None) for token in way.rest]

    tree = grown_tree(ways, onward, 4)
    assert tree.holds((1, 2)) and tree.holds((5, 6)) and not tree.holds((7,))
    assert tree.chain == (5, 6)
    assert grown_tree(ways, onward, 40).num_tokens == 6


def test_a_rarer_continuation_is_a_branch() -> None:
    prompt = (1, 2, 3, 4, 5, 1, 2, 9, 8, 7, 1, 2, 3, 4, 6, 1, 2)
    tree = drafts("suffix", prompt=prompt).tree(32)
    assert tree.chain[:3] == (3, 4, 6)
    assert tree.holds((9, 8, 7)), "the other continuation"
    assert tree.holds((3, 4, 5, 1)), "the other ending of the first"
    assert drafts("suffix", prompt=prompt).tree(3).num_tokens == 3


def test_the_models_choice_by_its_prefill_is_a_branch_that_goes_on_in_the_context() -> None:
    prompt = (1, 2, 3, 4, 5, 6, 7, 1)
    made = drafts("suffix", "calibration", prompt=prompt)
    choices = [(2,), (4,), (4,), (5,), (6,), (7,), (1,), (2,)]
    assert not made.tree(32).holds((2, 4))
    made.calibrate(Successors(choices, [(0.5,)] * len(prompt)))
    tree = made.tree(32)
    assert tree.holds((2, 3, 4)), "the context unchanged"
    assert tree.holds((2, 4, 5, 6)), "without the token that the model would omit"


def test_further_choices_that_are_likely_are_branches_too() -> None:
    prompt = (1, 2, 3, 4, 5, 6, 7, 1)
    made = drafts("suffix", "calibration", prompt=prompt)
    made.calibrate(Successors([(8, 9, 10)] * len(prompt), [(0.5, 0.3, 0.1)] * len(prompt)))
    tree = made.tree(32)
    assert tree.holds((2,)) and tree.holds((8,)) and tree.holds((9,)) and not tree.holds((10,))


def test_of_two_copies_the_one_that_the_model_held_likely_comes_first_once_that_has_proved_right() -> None:
    made = RetrievedDrafts(("suffix", "calibration"), frozenset((EOS,)))
    is_right = []
    for start in range(100, 900, 10):
        earlier, later = start + 1, start + 2
        prompt = (start, 1, earlier, start, 1, later, start)
        wanted = (earlier, later)[start // 10 % 2]
        made.begin(prompt)
        expected = [(4,), (wanted,), (4,), (4,), (wanted,), (4,), (4,)]
        made.calibrate(Successors(expected, [(0.2,)] * len(prompt)))
        made.extend((1,))
        is_right.append(made.tree(1).chain[0] == wanted)
        made.extend((wanted,))
    assert not all(is_right[:4]) and all(is_right[-10:])


def test_rejected_segments_are_branches_for_a_while() -> None:
    made = drafts("suffix", "reuse", prompt=(1, 2, 3))
    made.keep((7, 8, 9))
    made.extend((2,))
    assert made.tree(32).holds((7, 8, 9))
    for _ in range(4):
        made.extend((3,))
    assert not made.tree(32).holds((7,))


def test_a_tree_learns_which_continuation_the_target_writes() -> None:
    """At first the latest continuation is drafted; later the one before it, which has proved right."""
    made = RetrievedDrafts(("suffix",), frozenset((EOS,)))
    chains = []
    for start in range(100, 500, 10):
        made.begin((start, 1, 2, start + 1, start, 1, 2, start + 2, start))
        made.extend((1, 2))
        chains.append((made.tree(8).chain[0] - start, made.tree(8).holds((start + 1,))))
        made.extend((start + 1,))
    assert chains[0] == (2, True) and chains[-1] == (1, True)
