# SPDX-License-Identifier: Apache-2.0
"""Feeds a whole recording to an engine in pieces, as if it were spoken."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.core.hearing import BYTES_A_SECOND, AsrEngine

PIECE_BYTES = BYTES_A_SECOND // 25


@dataclass(frozen=True)
class Heard:
    """A sentence, and whether an order to stop was recognised before its end."""

    sentence: str
    stopped: bool


def heard_in(engine: AsrEngine, samples: bytes) -> Heard:
    """Returns what an engine recognises in samples, which are in the format of `core.hearing`."""
    utterance = engine.listen()
    stopped = False
    for start in range(0, len(samples), PIECE_BYTES):
        stopped = utterance.feed(samples[start : start + PIECE_BYTES]) or stopped
    return Heard(utterance.end(), stopped)
