# SPDX-License-Identifier: Apache-2.0
"""The edge's drafts beyond the committed text, as a tree; a digest identifies every branch.

The tree is branch, pre-draft cache and list of guesses in one. A verdict walks down it, and whatever lies
below the node that the verdict reaches has been drafted already.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal

from outrider.core.ports import Array
from outrider.decoding.protocol.branch_codec import Run
from outrider.decoding.protocol.prefix_digest import next_digest
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

Origin = Literal["draft", "guess", "hint"]
CHEAPER_THAN_A_DIGEST = 2
"""This many tokens cost no more on the wire than the digest that would replace them."""


@dataclass(eq=False, slots=True)
class Node:
    """A drafted token; the root stands for the committed text.

    `length` counts the tokens of the text up to this one. `chance` is the draft's probability of the token,
    given the text before it. `share` is an upper estimate of the probability that the target writes the
    text up to here; `likelihood` is the largest share in the subtree. `choices` are the draft's next
    tokens, best first, empty until drafted; `confidence` is the draft's in the first of them; `retrieved`:
    they come from retrieval. `consulted_at`: the text's length when retrieval was last asked. `anchor` is
    the length at which the branch left the draft's own; `branch` numbers such branches, and `random_key` is a
    random number for each. `row` (V,) is the distribution that the token was drawn from, if any.
    """

    token: int
    length: int
    parent: Node | None
    chance: float
    anchor: int
    branch: int
    random_key: float
    share: float = 1.0
    likelihood: float = 1.0
    choices: tuple[int, ...] = ()
    confidence: float = 1.0
    children: dict[int, Node] = field(default_factory=dict)
    sent_s: float | None = None
    row: Array = None
    retrieved: bool = False
    consulted_at: int = -1
    known_digest: int | None = None
    """The digest, once computed; most nodes never need one."""

    @property
    def digest(self) -> int:
        """The digest of the text up to this token."""
        without_digest: list[Node] = []
        node = self
        while node.known_digest is None:
            assert node.parent is not None
            without_digest.append(node)
            node = node.parent
        digest = node.known_digest
        for node in reversed(without_digest):
            digest = node.known_digest = next_digest(digest, node.token)
        return digest

    @property
    def drafted(self) -> bool:
        """Whether the draft model has predicted what follows this token."""
        return bool(self.choices)

    @property
    def best_child(self) -> Node | None:
        """The draft's own continuation."""
        return self.children.get(self.choices[0]) if self.choices else None


class DraftTree:
    """The tree above one committed text."""

    def __init__(
        self, length: int, digest: int, rng: random.Random, tuning: AdaptiveTuning = DEFAULT_TUNING
    ) -> None:
        self._unhinted_mass = tuning.unhinted_mass
        """The least weight of the outcomes that no hint has named: even confident hints may be wrong."""
        self._rng = rng
        self._num_branches = 0
        self._claims: dict[Node, float] = {}
        self.root = _root(length, digest)
        self._nodes = [self.root]
        """All nodes of the tree, parents first."""

    def __iter__(self) -> Iterator[Node]:
        """Iterate over all nodes, parents first."""
        return iter(self._nodes)

    def likely(self, least: float) -> list[Node]:
        """Return the root and all nodes of at least this likelihood, parents first."""
        return [node for node in self._nodes if node.likelihood >= least]

    def add(self, parent: Node, token: int, chance: float, origin: Origin) -> Node:
        """Return the child for a token, created if missing. `chance`: the draft's, given the parent."""
        child = parent.children.get(token)
        if child is not None:
            return child
        anchor, branch, random_key = parent.anchor, parent.branch, parent.random_key
        if origin != "draft":
            self._num_branches += 1
            anchor, branch, random_key = parent.length + 1, self._num_branches, self._rng.random()
        share = parent.share * chance
        child = Node(token, parent.length + 1, parent, chance, anchor, branch, random_key, share, share)
        parent.children[token] = child
        self._nodes.append(child)
        return child

    def claim(self, node: Node, chance: float) -> None:
        """Record a hint's probability that the running verification ends at this node.

        Hints name mutually exclusive outcomes, so their probabilities are normalised together.
        """
        if self._claims.get(node) == chance:
            return
        self._claims[node] = chance
        self._spread()

    def _spread(self) -> None:
        """Recompute all likelihoods from the draft's chances and the hints' claims."""
        claims = self._claims
        rest = max(1.0 - sum(claims.values()), self._unhinted_mass)
        total = rest + sum(claims.values())
        self.root.share = rest / total
        below = self._nodes[1:]
        for node in below:
            assert node.parent is not None
            claim = claims.get(node)
            node.share = node.parent.share * node.chance if claim is None else claim / total
            node.likelihood = node.share
        for node in reversed(below):
            assert node.parent is not None
            if node.likelihood > node.parent.likelihood:
                node.parent.likelihood = node.likelihood
        self.root.likelihood = 1.0

    def find(self, tokens: Sequence[int]) -> Node | None:
        """Return the node that the tokens lead to from the root, if there is one."""
        node: Node | None = self.root
        for token in tokens:
            node = node.children.get(token) if node is not None else None
        return node

    def commit(self, tokens: Sequence[int], digest: int) -> None:
        """Move the root to the end of `tokens`, which are committed now; keep only what lies below."""
        length = self.root.length + len(tokens)
        node = self.find(tokens)
        self._claims.clear()
        if node is None:
            self.root = _root(length, digest)
            self._nodes = [self.root]
            return
        node.parent, node.known_digest, self.root = None, digest, node
        self._nodes = _from(node)
        self._spread()
        for node in self._nodes:
            if node.anchor <= length:
                node.anchor, node.branch = length, 0

    def main_path(self) -> list[Node]:
        """Return the draft's own continuation of the text, as far as it goes."""
        path: list[Node] = []
        node = self.root.best_child
        while node is not None:
            path.append(node)
            node = node.best_child
        return path

    def main_tokens(self) -> tuple[int, ...]:
        """Return the tokens of the main path."""
        return tuple([node.token for node in self.main_path()])

    def own_path(self) -> list[Node]:
        """Return the start of the main path that the draft model wrote itself."""
        steps = takewhile(lambda node: node.drafted and not node.retrieved, [self.root, *self.main_path()])
        return [step.best_child for step in steps if step.best_child is not None]

    def path(self, node: Node) -> list[Node]:
        """Return the nodes from below the root down to this one."""
        path: list[Node] = []
        while node.parent is not None:
            path.append(node)
            node = node.parent
        return path[::-1]

    def tokens(self, node: Node) -> tuple[int, ...]:
        """Return the tokens from below the root down to a node."""
        return tuple([step.token for step in self.path(node)])

    @staticmethod
    def with_ancestors(nodes: Iterable[Node]) -> set[Node]:
        """Return the nodes and all nodes between them and the root."""
        steps: set[Node] = set()
        for node in nodes:
            while node.parent is not None and node not in steps:
                steps.add(node)
                node = node.parent
        return steps


def _from(node: Node) -> list[Node]:
    """Return the node and all below it, parents first."""
    nodes = [node]
    for below in nodes:
        nodes.extend(below.children.values())
    return nodes


def _root(length: int, digest: int) -> Node:
    return Node(-1, length, None, 1.0, length, 0, 0.0, known_digest=digest)


def branches_to(tree: DraftTree, nodes: Sequence[Node]) -> tuple[Node, list[Run]]:
    """Return the fewest runs that hold all `nodes`, and the node from which they start.

    Near the root they start from the root itself, because it needs no digest.
    """
    requested, included = set(nodes), tree.with_ancestors(nodes)
    parent = tree.root
    while True:
        inside = [child for child in parent.children.values() if child in included]
        if len(inside) != 1 or inside[0] in requested:
            break
        parent = inside[0]
    if parent.length - tree.root.length <= CHEAPER_THAN_A_DIGEST:
        parent = tree.root
    return parent, _runs_below(parent, included)


def _runs_below(parent: Node, included: set[Node]) -> list[Run]:
    """Return the runs depth first and likeliest first, so that a run goes back no further than necessary."""
    runs: list[tuple[int, list[int], bool]] = []
    end = parent.length
    todo = _included_children(parent, included)
    while todo:
        node = todo.pop()
        preferred = _overtakes(node, included)
        if not runs or preferred or end != node.length - 1:
            runs.append((end - (node.length - 1), [], preferred))
        runs[-1][1].append(node.token)
        end = node.length
        todo.extend(_included_children(node, included))
    return [Run(back, tuple(tokens), preferred) for back, tokens, preferred in runs]


def _included_children(node: Node, included: set[Node]) -> list[Node]:
    """Return the included children, the likeliest last."""
    children = [child for child in node.children.values() if child in included]
    return sorted(children, key=lambda child: child.likelihood)


def _overtakes(node: Node, included: set[Node]) -> bool:
    """Return whether an unsent node is likelier than its siblings sent before and those to be sent now.

    False if no sibling was sent before.
    """
    assert node.parent is not None
    siblings = [other for other in node.parent.children.values() if other is not node]
    if node.sent_s is not None or all(other.sent_s is None for other in siblings):
        return False
    rivals = [other for other in siblings if other.sent_s is not None or other in included]
    return all(other.likelihood < node.likelihood for other in rivals)
