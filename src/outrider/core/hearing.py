# SPDX-License-Identifier: Apache-2.0
"""The ports of speech: heard as a sentence, which moves nothing by itself, and made of a text."""

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


class TtsEngine(Protocol):
    """Speaks on this machine: what it is given leaves the machine for nowhere."""

    def speak(self, text: str, language: str) -> bytes:
        """Return a text in a language, such as `en`, as a WAV file. It blocks.

        Raises OutriderError where it cannot, with the remedy.
        """
