# SPDX-License-Identifier: Apache-2.0
"""Decoded texts, kept as they come, and as figures of a strategy.

A measurement that was ended goes on where it was. Texts over sockets and on the virtual clock are alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from outrider.core.values import Decoded
from outrider.evaluation.common.intervals import Interval, speedup_interval
from outrider.evaluation.common.kept_records import KeptRecords
from outrider.evaluation.decoding.live import Stopwatch

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


@dataclass(frozen=True)
class SpeedRow:
    """One strategy over one network. Speeds are those between the first verified tokens and the last.

    `speedup_interval`: of 95 %, by a bootstrap over the texts. `over_colocated`: over the same pair without
    a network. `different`: texts that are not those of `ar`. `met_outage`: texts during which the link was
    down.
    """

    network: str
    strategy: str
    texts: int
    tokens: int
    tokens_per_s: float
    speedup_vs_ar: float
    speedup_interval: Interval
    over_colocated: float
    tokens_per_round: float
    passes_per_token: float
    bytes_up_per_token: float
    bytes_down_per_token: float
    draft_busy_share: float
    met_outage: int
    different: int


def kept_text(text: Decoded, watch: Stopwatch, met_outage: bool) -> KeptText:
    """Returns what is kept of a decoded text, whose times a stopwatch has taken."""
    return KeptText(
        token_ids=text.token_ids,
        elapsed_s=text.elapsed_s,
        later_tokens=watch.tokens,
        later_s=watch.elapsed_s,
        rounds=len(text.rounds),
        emitted=sum(one.emitted for one in text.rounds),
        bytes_up=text.speculation.bytes_up,
        bytes_down=text.speculation.bytes_down,
        target_passes=text.target_passes,
        draft_busy_s=text.speculation.draft_busy_s,
        met_outage=met_outage,
    )


def speed_of(texts: Sequence[KeptText]) -> float:
    """Tokens per second after the first ones."""
    return sum(text.later_tokens for text in texts) / sum(text.later_s for text in texts)


def speed_row(
    network: str,
    strategy: str,
    texts: Sequence[KeptText],
    own: Sequence[KeptText],
    colocated_tokens_per_s: float,
) -> SpeedRow:
    """The row of some texts; `own` are those of `ar` over the same network."""
    tokens, speed = sum(len(text.token_ids) for text in texts), speed_of(texts)
    return SpeedRow(
        network=network,
        strategy=strategy,
        texts=len(texts),
        tokens=tokens,
        tokens_per_s=speed,
        speedup_vs_ar=speed / speed_of(own),
        speedup_interval=speedup_interval(_tokens_s(texts), _tokens_s(own)),
        over_colocated=speed / colocated_tokens_per_s,
        tokens_per_round=sum(text.emitted for text in texts) / max(1, sum(text.rounds for text in texts)),
        passes_per_token=sum(text.target_passes for text in texts) / tokens,
        bytes_up_per_token=sum(text.bytes_up for text in texts) / tokens,
        bytes_down_per_token=sum(text.bytes_down for text in texts) / tokens,
        draft_busy_share=sum(text.draft_busy_s for text in texts) / sum(text.elapsed_s for text in texts),
        met_outage=sum(text.met_outage for text in texts),
        different=sum(one.token_ids != other.token_ids for one, other in zip(texts, own, strict=True)),
    )


def _tokens_s(texts: Sequence[KeptText]) -> list[tuple[float, float]]:
    return [(float(text.later_tokens), text.later_s) for text in texts]
