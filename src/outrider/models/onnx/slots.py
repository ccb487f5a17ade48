# SPDX-License-Identifier: Apache-2.0
"""Assigns cache slots to tokens: texts with a common prefix share its slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

BRANCH_SLOTS = 128
"""Slots besides those of a full-length text, for other drafts after its prompt."""


@dataclass(eq=False)
class Node:
    """A token after all before it, in a `slot`; `after` holds the next ones by their ids."""

    slot: int
    after: dict[int, Node] = field(default_factory=dict)


class SlotTree:
    """Texts in the slots `first` to before `end`. A text is the path of its tokens' nodes."""

    def __init__(self, first: int, end: int) -> None:
        self._root = Node(-1)
        self._free = list(reversed(range(first, end)))

    @property
    def num_free(self) -> int:
        """The number of free slots."""
        return len(self._free)

    def extend(self, path: Sequence[Node], token_ids: Iterable[int]) -> list[Node]:
        """Return the nodes of tokens that follow a path; new ones take a slot."""
        node, added = path[-1] if path else self._root, []
        for token_id in token_ids:
            if token_id not in node.after:
                node.after[token_id] = Node(self._free.pop())
            node = node.after[token_id]
            added.append(node)
        return added

    def keep_only(self, paths: Iterable[Sequence[Node]]) -> None:
        """Free the slots of all nodes that are on none of these paths."""
        used = {node for path in paths for node in path}
        unvisited, dropped = [self._root], []
        while unvisited:
            node = unvisited.pop()
            dropped += [child for child in node.after.values() if child not in used]
            node.after = {token_id: child for token_id, child in node.after.items() if child in used}
            unvisited += node.after.values()
        while dropped:
            node = dropped.pop()
            self._free.append(node.slot)
            dropped += node.after.values()
