# SPDX-License-Identifier: Apache-2.0
"""An utterance that is recognised as a whole, once it has ended, while stops are spotted within it."""

from __future__ import annotations

from collections.abc import Callable

from outrider.voice.stop_spotter import StopSpotter


class SpottedUtterance:
    """Implements `core.hearing.Utterance`: each piece goes to the spotter, all of them to the recogniser."""

    def __init__(self, recognise: Callable[[bytes], str], stops: StopSpotter) -> None:
        """`recognise` returns the sentence of an utterance. The spotter begins anew."""
        stops.start()
        self._recognise, self._stops = recognise, stops
        self._samples = bytearray()

    def feed(self, samples: bytes) -> bool:
        """Takes the next samples; returns whether one more order to stop was spotted with them."""
        self._samples += samples
        return self._stops.feed(samples)

    def end(self) -> str:
        """Returns the sentence; empty where no words were recognised."""
        self._stops.close()
        return self._recognise(bytes(self._samples[: len(self._samples) // 2 * 2]))
