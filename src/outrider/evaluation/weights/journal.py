# SPDX-License-Identifier: Apache-2.0
"""Decoded texts, kept as they come: a measurement that was ended goes on where it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from outrider.evaluation.common.kept_records import KeptRecords

TEXTS_FILE = "texts.jsonl"


class TextKey(NamedTuple):
    """What a text is decoded with. `prompt` counts from 0."""

    network: str
    strategy: str
    temperature: float
    seed: int
    prompt: int


class KeptText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One decoded text. `later_tokens` were verified within `later_s` after the first ones.

    `met_outage`: whether the link was down at some time of it. Bytes are those of decoding, not the prompt's.
    """

    token_ids: tuple[int, ...]
    elapsed_s: float
    later_tokens: int
    later_s: float
    rounds: int
    emitted: int
    bytes_up: int
    bytes_down: int
    target_passes: float
    draft_busy_s: float
    met_outage: bool


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: TextKey
    text: KeptText


class Journal:
    """Texts by their keys, in a folder's file where one is given, else in memory alone."""

    def __init__(self, folder: Path | None, common: Mapping[str, str | int]) -> None:
        """Raises ConfigError as `KeptRecords` does."""
        path = None if folder is None else folder / TEXTS_FILE
        self._records = KeptRecords(path, _Line, "texts", common)
        self._texts = {line.key: line.text for line in self._records.read}

    def __contains__(self, key: TextKey) -> bool:
        return key in self._texts

    def __getitem__(self, key: TextKey) -> KeptText:
        return self._texts[key]

    def add(self, key: TextKey, text: KeptText) -> None:
        """Keep a text, on disk before the next is decoded. Raises ConfigError."""
        self._texts[key] = text
        self._records.add(_Line(key, text))
