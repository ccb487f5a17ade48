# SPDX-License-Identifier: Apache-2.0
"""The port through which speech becomes a sentence. A sentence that was heard moves nothing by itself."""

from __future__ import annotations

from typing import Protocol

SAMPLE_RATE_HZ = 16_000
"""Samples are mono, signed, of 16 bits, little-endian."""
BYTES_A_SECOND = 2 * SAMPLE_RATE_HZ


class Utterance(Protocol):
    """One utterance while it is spoken. For one thread at a time."""

    def feed(self, samples: bytes) -> bool:
        """Take the next samples; whether one more order to stop has been heard with them."""

    def end(self) -> str:
        """Return the whole sentence, in small letters; empty where no words were heard."""


class AsrEngine(Protocol):
    """Recognises speech on this machine. One utterance at a time: a new one ends the last."""

    name: str

    def listen(self) -> Utterance:
        """Begin an utterance."""
