# SPDX-License-Identifier: Apache-2.0
"""Draft tokens held at the cloud, found by the digest of the text before them.

A branch may arrive before its parent, and long before the verdict that it follows: only the digest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from outrider.decoding.acceptance.schemes import Choices, Evidence
from outrider.decoding.protocol.branch_codec import Run
from outrider.decoding.protocol.prefix_digest import next_digest

MAX_TOKENS = 4096
MAX_CHOICES = 16
"""Most tokens kept after one text; the likeliest are kept."""
ROW_TOKENS, TOKEN_ENTRIES = 8, 256
"""Room of a token with the distribution that it was drawn from: ROW_TOKENS tokens, and one more for each
TOKEN_ENTRIES entries of the distribution.
"""


@dataclass
class _Node:
    """The tokens drafted after one text of `length` tokens. `offers`: by token, likeliest first, the
    evidence and the digest of the text with the token. `of_cloud`: the cloud drafted here.
    """

    length: int
    of_cloud: bool = False
    offers: dict[int, tuple[Evidence, int]] = field(default_factory=dict)


class BranchCache:
    """Holds the newest MAX_TOKENS tokens. If digests collide, once in billions, a draft is just rejected."""

    def __init__(self) -> None:
        self._nodes: dict[int, _Node] = {}
        self._size = 0

    def add_runs(self, length: int, digest: int, runs: Sequence[Run]) -> None:
        """Add branches that grow from the text with this length and digest."""
        trail = [digest]
        for run in runs:
            del trail[len(trail) - run.back :]
            preferred = run.preferred
            for token in run.tokens:
                trail.append(self._offer(length + len(trail) - 1, trail[-1], token, None, preferred))
                preferred = False

    def add_branch(
        self, length: int, digest: int, tokens: Sequence[int], evidence: Sequence[Evidence]
    ) -> None:
        """Add one branch, with the evidence for each of its tokens."""
        for offset, (token, proof) in enumerate(zip(tokens, evidence, strict=True)):
            digest = self._offer(length + offset, digest, token, proof, False)

    def add_choices(self, length: int, digest: int, choices: Choices) -> None:
        """Add the choices of the cloud's own draft after a text; the first goes before all others there.

        The evidence is the draft's confidence for the first choice, 1 minus it for the others. For schemes
        that need no evidence, only the cloud's drafts have any.
        """
        node = self._nodes[digest] = self._nodes.pop(digest, _Node(length))
        node.of_cloud = True
        for rank, token in enumerate(choices.tokens):
            sure = 1.0 - choices.confidence if rank else choices.confidence
            self._offer(length, digest, token, sure, preferred=not rank)

    def best(self, digest: int, limit: int) -> tuple[tuple[int, ...], tuple[Evidence, ...]]:
        """Return the likeliest branch after a text, as the edge ranks it, with evidence; at most `limit`."""
        tokens: list[int] = []
        evidence: list[Evidence] = []
        while len(tokens) < limit and (node := self._nodes.get(digest)) is not None:
            token, (proof, digest) = next(iter(node.offers.items()))
            tokens.append(token)
            evidence.append(proof)
        return tuple(tokens), tuple(evidence)

    def open_ends(
        self,
        starts: Sequence[tuple[tuple[int, ...], int, float]],
        may_grow: Callable[[tuple[int, ...]], bool],
        most: int,
        chances: Callable[[int, Evidence], float],
    ) -> list[tuple[tuple[int, ...], float]]:
        """Return the `most` likeliest texts after which nothing is drafted yet, likeliest first, with
        likelihoods. Return none if the cache is more than half full. `starts`: the texts to begin with,
        with digests and likelihoods; `may_grow`: whether a text may be drafted on; `chances`: of a token by
        its rank and evidence, given the text before it.
        """
        if self._size > MAX_TOKENS // 2:
            return []
        found: list[tuple[tuple[int, ...], float]] = []
        ahead = [(-chance, count, path, digest) for count, (path, digest, chance) in enumerate(starts)]
        heapify(ahead)
        count, seen = len(ahead), set[int]()
        while ahead and len(found) < most:
            likelihood, _, path, digest = heappop(ahead)
            if digest in seen or not may_grow(path):
                continue
            seen.add(digest)
            node = self._nodes.get(digest)
            if node is None:
                found.append((path, -likelihood))
            else:
                for rank, (token, (proof, after)) in enumerate(node.offers.items()):
                    count += 1
                    heappush(ahead, (likelihood * chances(rank, proof), count, (*path, token), after))
        return found

    def digest_after(self, digest: int, tokens: Sequence[int]) -> int:
        """Return `extend_digest`, looked up as far as the tokens are held here."""
        for token in tokens:
            node = self._nodes.get(digest)
            known = None if node is None else node.offers.get(token)
            digest = next_digest(digest, token) if known is None else known[1]
        return digest

    def keep_after(self, length: int, digest: int) -> None:
        """Forget what can no longer follow the text with this length and digest: all branches after shorter
        texts, and the cloud's drafts after other texts.
        """
        follows, ahead = {digest}, [digest]
        while ahead:
            node = self._nodes.get(ahead.pop())
            after = [] if node is None else [child for _, child in node.offers.values()]
            ahead += [child for child in after if child not in follows]
            follows.update(after)
        for digest, node in list(self._nodes.items()):
            if node.length < length or (node.of_cloud and digest not in follows):
                self._drop(digest)

    def _offer(self, length: int, digest: int, token: int, evidence: Evidence, preferred: bool) -> int:
        """Keep a token after a text. Return the digest of both."""
        node = self._nodes.get(digest)
        if node is None:
            node = self._nodes[digest] = _Node(length)
        known = node.offers.get(token)
        after = next_digest(digest, token) if known is None else known[1]
        if known is not None:
            self._size -= _room(known[0])
            evidence = known[0] if evidence is None else evidence
        elif len(node.offers) == MAX_CHOICES:
            if not preferred:
                return after
            _, (least, _) = node.offers.popitem()
            self._size -= _room(least)
        if preferred:
            node.offers = {token: (evidence, after), **node.offers}
        node.offers[token] = evidence, after
        self._size += _room(evidence)
        while self._size > MAX_TOKENS:
            self._drop(next(iter(self._nodes)))
        return after

    def _drop(self, digest: int) -> None:
        self._size -= sum([_room(evidence) for evidence, _ in self._nodes.pop(digest).offers.values()])


def _room(evidence: Evidence) -> int:
    if evidence is None or isinstance(evidence, float):
        return 1
    return ROW_TOKENS + len(evidence.ids) // TOKEN_ENTRIES
