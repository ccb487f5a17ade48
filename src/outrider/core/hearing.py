# SPDX-License-Identifier: Apache-2.0
"""The ports of speech: recognition, whose sentence moves nothing by itself, and synthesis."""

from __future__ import annotations

from typing import Protocol

SAMPLE_RATE_HZ = 16_000
"""Samples are mono, signed, 16-bit, little-endian."""
BYTES_A_SECOND = 2 * SAMPLE_RATE_HZ


class Utterance(Protocol):
    """One utterance in progress. For one thread at a time."""

    def feed(self, samples: bytes) -> bool:
        """Take the next samples; return whether they complete another order to stop."""

    def end(self) -> str:
        """Return the whole sentence in small letters; empty if no words were recognised."""


class AsrEngine(Protocol):
    """Recognises speech on this machine. One utterance at a time: a new one ends the last."""

    name: str

    def listen(self) -> Utterance:
        """Begin an utterance."""


class TtsEngine(Protocol):
    """Speaks on this machine; no text leaves it."""

    def speak(self, text: str, language: str) -> bytes:
        """Return a text, in a language such as `en`, as a WAV file. Blocks.

        Raises OutriderError, with the remedy, if it cannot.
        """
