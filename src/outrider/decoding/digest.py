"""Chained digests: 32 bits that name a prompt and every token after it.

They guard against honest mistakes (a lost cache, a frame of another branch), not against an adversary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from outrider.core.values import Prompt


def prompt_digest(prompt: Prompt) -> int:
    """The digest of a prompt alone."""
    state = blake2b(prompt.text.encode(), digest_size=4)
    state.update(len(prompt.text).to_bytes(4, "little"))
    state.update(prompt.jpeg)
    return int.from_bytes(state.digest(), "little")


def extend_digest(digest: int, token_ids: Iterable[int]) -> int:
    """The digest after appending tokens to a text with `digest`."""
    for token_id in token_ids:
        link = digest.to_bytes(4, "little") + token_id.to_bytes(4, "little")
        digest = int.from_bytes(blake2b(link, digest_size=4).digest(), "little")
    return digest


class DigestedText:
    """A growing text of token ids that knows the digest of each of its prefixes."""

    def __init__(self, root_digest: int) -> None:
        self._tokens: tuple[int, ...] = ()
        self._digests = [root_digest]

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def tokens(self) -> tuple[int, ...]:
        return self._tokens

    @property
    def digest(self) -> int:
        """Of the whole text."""
        return self._digests[-1]

    def digest_at(self, position: int) -> int:
        """Of the first `position` tokens, 0 <= position <= len."""
        return self._digests[position]

    def extend(self, token_ids: Iterable[int]) -> None:
        new = tuple(token_ids)
        self._tokens += new
        for token_id in new:
            self._digests.append(extend_digest(self._digests[-1], (token_id,)))


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many leading tokens two texts share."""
    count = min(len(first), len(second))
    if first[:count] == second[:count]:
        return count
    return next((place for place in range(count) if first[place] != second[place]), count)
