# SPDX-License-Identifier: Apache-2.0
"""Chained digests: 32 bits that name a prompt and every token after it.

They guard against honest mistakes (a lost cache, a frame of another branch), not against an adversary.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from operator import eq

from outrider.core.values import Prompt

Tokens = tuple[int, ...]

_LINK, _DIGEST = struct.Struct("<II"), struct.Struct("<I")
_EMPTY = blake2b(digest_size=_DIGEST.size)
"""Copied for each digest: creating a new state takes longer than hashing the input."""


def prompt_digest(prompt: Prompt) -> int:
    """Return the digest of a prompt alone."""
    state = blake2b(prompt.text.encode(), digest_size=_DIGEST.size)
    state.update(len(prompt.text).to_bytes(4, "little"))
    state.update(prompt.jpeg)
    return int.from_bytes(state.digest(), "little")


def extend_digest(digest: int, token_ids: Iterable[int]) -> int:
    """Return the digest after appending tokens to a text with `digest`."""
    for token_id in token_ids:
        digest = next_digest(digest, token_id)
    return digest


def next_digest(digest: int, token_id: int) -> int:
    """Return the digest after one more token."""
    state = _EMPTY.copy()
    state.update(_LINK.pack(digest, token_id))
    after: int = _DIGEST.unpack(state.digest())[0]
    return after


class DigestedText:
    """A growing text of token ids that keeps the digest of each of its prefixes."""

    def __init__(self, root_digest: int) -> None:
        self.tokens: tuple[int, ...] = ()
        self.digest = root_digest
        """The digest of the whole text."""
        self._digests = [root_digest]

    def __len__(self) -> int:
        return len(self.tokens)

    def digest_at(self, position: int) -> int:
        """Return the digest of the first `position` tokens, 0 <= position <= len."""
        return self._digests[position]

    def extend(self, token_ids: Iterable[int]) -> None:
        """Append tokens, and the digest of each new prefix."""
        new = tuple(token_ids)
        self.tokens += new
        for token_id in new:
            self.digest = next_digest(self.digest, token_id)
            self._digests.append(self.digest)


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many leading tokens two texts share."""
    count = min(len(first), len(second))
    if first[:count] == second[:count]:
        return count
    return [*map(eq, first, second), False].index(False)
