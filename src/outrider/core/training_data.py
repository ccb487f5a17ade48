# SPDX-License-Identifier: Apache-2.0
"""The form of training data: frames as JPEG, per-token vision labels, tasks with the expert's answers."""

from __future__ import annotations

from pathlib import Path

import msgspec

from outrider.core.errors import ConfigError

CELL_ROWS, CELL_COLUMNS, CELL_LABELS = 5, 9, 3
NO_TOKEN = -1
"""The label where no token follows: at the end of an answer."""


class Query(msgspec.Struct, array_like=True):
    """The user text that follows the image, and the answer to it."""

    user_text: str
    answer: str


class Example(msgspec.Struct, array_like=True):
    """`cells` is int16 (5, 9, 3): kind, colour, distance in decimetres of each merged vision token."""

    jpeg: bytes
    cells: bytes
    queries: list[Query]


class Shard(msgspec.Struct):
    """One file of training data."""

    examples: list[Example]


def shard_paths(folder: Path) -> list[Path]:
    """Return the shards of a folder in order. Raises ConfigError if there are none."""
    paths = sorted(folder.glob("shard-*.msgpack"))
    if not paths:
        raise ConfigError(f"{folder} holds no training data; run `outrider train data {folder}` first")
    return paths
