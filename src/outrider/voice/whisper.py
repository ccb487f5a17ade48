# SPDX-License-Identifier: Apache-2.0
"""faster-whisper, where it is installed and its model is on this machine: nothing is downloaded."""

from __future__ import annotations

import os
from typing import Any

from outrider.core.errors import ConfigError
from outrider.core.language.grammar import Vocabulary
from outrider.voice.sound import from_bytes
from outrider.voice.stop_spotter import StopSpotter

MODEL_VARIABLE = "OUTRIDER_WHISPER_MODEL"
MISSING = "the engine whisper needs faster-whisper: install the extra, pip install 'outrider[whisper]'"
NO_MODEL = (
    f"the engine whisper needs a model on this machine: set {MODEL_VARIABLE} to the folder of a converted one"
)


class WhisperEngine:
    """Hears any sentence; the words that stop are spotted as by the embedded engine.

    Raises ConfigError without the package, the model's folder, or the extra `voice`.
    """

    name = "whisper"

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        try:
            from faster_whisper import WhisperModel
        except ImportError:
            raise ConfigError(MISSING) from None
        folder = os.environ.get(MODEL_VARIABLE, "")
        if not os.path.isdir(folder):  # noqa: PTH112
            raise ConfigError(NO_MODEL)
        words = [word for slot in vocabulary.slots.values() for word in slot] if vocabulary else []
        self._hint = " ".join(words)
        self._model = WhisperModel(folder, device="cpu", compute_type="int8", local_files_only=True)
        self._stops = StopSpotter()

    def listen(self) -> _WhisperUtterance:
        """Begin an utterance."""
        self._stops.start()
        return _WhisperUtterance(self._model, self._stops, self._hint)


class _WhisperUtterance:
    def __init__(self, model: Any, stops: StopSpotter, hint: str) -> None:
        self._model, self._stops, self._hint = model, stops, hint
        self._heard = bytearray()

    def feed(self, samples: bytes) -> bool:
        """Take the next samples; whether one more order to stop has been heard with them."""
        self._heard += samples
        return self._stops.feed(samples)

    def end(self) -> str:
        """Return the whole sentence as the model writes it, in small letters."""
        self._stops.close()
        samples = from_bytes(bytes(self._heard[: len(self._heard) // 2 * 2])).astype("float32")
        if not len(samples):
            return ""
        segments, _ = self._model.transcribe(samples, language="en", beam_size=5, hotwords=self._hint or None)
        return " ".join(segment.text.strip() for segment in segments).strip().lower()
