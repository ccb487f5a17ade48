# SPDX-License-Identifier: Apache-2.0
"""The engine faster-whisper, if it is installed and its model is on this machine. Downloads nothing."""

from __future__ import annotations

import os

from outrider.core.errors import ConfigError
from outrider.core.language.grammar import Vocabulary
from outrider.voice.moonshine_encoder import MoonshineEncoder
from outrider.voice.sound import from_bytes
from outrider.voice.stop_spotter import SpottedUtterance, StopSpotter

MODEL_VARIABLE = "OUTRIDER_WHISPER_MODEL"
MISSING = "the engine whisper needs faster-whisper: install the extra, pip install 'outrider[whisper]'"
NO_MODEL = (
    f"the engine whisper needs a model on this machine: set {MODEL_VARIABLE} to the folder of a converted one"
)


class WhisperEngine:
    """Recognises any sentence. Stop words are spotted as by the embedded engine.

    Raises ConfigError if the package, the model's folder, or the extra `voice` is missing.
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
        self._stops = StopSpotter(MoonshineEncoder())

    def listen(self) -> SpottedUtterance:
        """Begins an utterance, and ends the last one."""
        return SpottedUtterance(self.sentence, self._stops)

    def sentence(self, samples: bytes) -> str:
        """Returns the sentence as the model writes it, in lower case; empty if there is none."""
        sound = from_bytes(samples).astype("float32")
        if not len(sound):
            return ""
        segments, _ = self._model.transcribe(sound, language="en", beam_size=5, hotwords=self._hint or None)
        return " ".join(segment.text.strip() for segment in segments).strip().lower()
