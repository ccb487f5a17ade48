# SPDX-License-Identifier: Apache-2.0
"""Keeps decoded texts, and computes the figures of a strategy from them.

An interrupted measurement resumes from the kept texts. Texts decoded over sockets and on the virtual clock
have one format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from outrider.core.values import Decoded
from outrider.evaluation.common.intervals import Interval, speedup_interval
from outrider.evaluation.common.record_files import RecordFile
from outrider.evaluation.decoding.live import Stopwatch

TEXTS_FILE = "texts.jsonl"


class TextKey(NamedTuple):
    """What identifies a decoded text. `prompt` counts from 0."""

    network: str
    strategy: str
    temperature: float
    seed: int
    prompt: int


class KeptText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One decoded text. `later_tokens` were verified within `later_s` after the first verified tokens.

    `met_outage`: the link was down at some time during the text. Bytes exclude the prompt's.
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
    """Texts by key, kept in a file of `folder`, or only in memory where `folder` is None."""

    def __init__(self, folder: Path | None, common: Mapping[str, str | int]) -> None:
        """Raises ConfigError as `RecordFile` does."""
        path = None if folder is None else folder / TEXTS_FILE
        self._records = RecordFile(path, _Line, "texts", common)
        self._texts = {line.key: line.text for line in self._records.records}

    def __contains__(self, key: TextKey) -> bool:
        return key in self._texts

    def __getitem__(self, key: TextKey) -> KeptText:
        return self._texts[key]

    def add(self, key: TextKey, text: KeptText) -> None:
        """Keep a text; it is on disk when this returns. Raises ConfigError."""
        self._texts[key] = text
        self._records.add(_Line(key, text))


@dataclass(frozen=True)
class SpeedRow:
    """One strategy over one network. Speeds are measured between the first verified tokens and the last.

    `speedup_interval`: 95 %, by a bootstrap over the texts. `over_colocated`: the speed relative to the same
    pair without a network. `different`: the number of texts that differ from `ar`. `met_outage`: the number
    of texts during which the link was down.
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
    """Returns the record of a decoded text, with the times that the stopwatch took."""
    return KeptText(
        token_ids=text.token_ids,
        elapsed_s=text.elapsed_s,
        later_tokens=watch.tokens,
        later_s=watch.elapsed_s,
        rounds=len(text.rounds),
        emitted=sum(round_stats.emitted for round_stats in text.rounds),
        bytes_up=text.speculation.bytes_up,
        bytes_down=text.speculation.bytes_down,
        target_passes=text.target_passes,
        draft_busy_s=text.speculation.draft_busy_s,
        met_outage=met_outage,
    )


def speed_of(texts: Sequence[KeptText]) -> float:
    """Returns the tokens per second after the first verified tokens."""
    return sum(text.later_tokens for text in texts) / sum(text.later_s for text in texts)


def speed_row(
    network: str,
    strategy: str,
    texts: Sequence[KeptText],
    ar_texts: Sequence[KeptText],
    colocated_tokens_per_s: float,
) -> SpeedRow:
    """Returns the figures of some texts; `ar_texts` are the texts of `ar` over the same network."""
    tokens, speed = sum(len(text.token_ids) for text in texts), speed_of(texts)
    return SpeedRow(
        network=network,
        strategy=strategy,
        texts=len(texts),
        tokens=tokens,
        tokens_per_s=speed,
        speedup_vs_ar=speed / speed_of(ar_texts),
        speedup_interval=speedup_interval(_tokens_s(texts), _tokens_s(ar_texts)),
        over_colocated=speed / colocated_tokens_per_s,
        tokens_per_round=sum(text.emitted for text in texts) / max(1, sum(text.rounds for text in texts)),
        passes_per_token=sum(text.target_passes for text in texts) / tokens,
        bytes_up_per_token=sum(text.bytes_up for text in texts) / tokens,
        bytes_down_per_token=sum(text.bytes_down for text in texts) / tokens,
        draft_busy_share=sum(text.draft_busy_s for text in texts) / sum(text.elapsed_s for text in texts),
        met_outage=sum(text.met_outage for text in texts),
        different=sum(
            text.token_ids != own_text.token_ids for text, own_text in zip(texts, ar_texts, strict=True)
        ),
    )


def _tokens_s(texts: Sequence[KeptText]) -> list[tuple[float, float]]:
    return [(float(text.later_tokens), text.later_s) for text in texts]
