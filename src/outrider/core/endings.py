# SPDX-License-Identifier: Apache-2.0
"""Where a text ends: at the first token of a model's end tokens. There may be several."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def has_ended(tokens: Sequence[int], end_ids: Collection[int]) -> bool:
    """Whether the last token is an end token."""
    return len(tokens) > 0 and tokens[-1] in end_ids


def until_end(tokens: Sequence[int], end_ids: Collection[int]) -> tuple[int, ...]:
    """The tokens up to the first end token, which is kept; nothing counts after it."""
    tokens = tuple(tokens)
    found = [tokens.index(end) for end in end_ids if end in tokens]
    return tokens[: min(found) + 1] if found else tokens
