# SPDX-License-Identifier: Apache-2.0
"""The end of a text: the first of a model's end tokens, of which there may be several."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def has_ended(tokens: Sequence[int], end_ids: Collection[int]) -> bool:
    """Return whether the last token is an end token."""
    return len(tokens) > 0 and tokens[-1] in end_ids


def until_end(tokens: Sequence[int], end_ids: Collection[int]) -> tuple[int, ...]:
    """Return the tokens up to and including the first end token."""
    tokens = tuple(tokens)
    found = [tokens.index(end) for end in end_ids if end in tokens]
    return tokens[: min(found) + 1] if found else tokens
