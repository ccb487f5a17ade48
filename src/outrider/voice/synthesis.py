# SPDX-License-Identifier: Apache-2.0
"""Synthetic speech by eSpeak NG, to measure recognition. Needs the extra `speech`."""

from __future__ import annotations

import ctypes
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from outrider.core.errors import ConfigError
from outrider.voice.sound import Samples, resampled

WORDS_A_MINUTE, PITCH = 170, 50
_SYNCHRONOUS, _NO_EXIT = 2, 0x8000
_RATE, _PITCH = 1, 3
_UTF8 = 1
_LAST_EVENT, _WORD_EVENT = 0, 1


class _Event(ctypes.Structure):
    """`espeak_EVENT` of eSpeak NG's header."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("number", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position_ms", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)
MISSING = "synthetic speech needs eSpeak NG: install the extra, pip install 'outrider[speech]'"


@dataclass(frozen=True)
class Voice:
    """A speaker: a voice of eSpeak NG, its words per minute, and its pitch from 0 to 99."""

    name: str = "en-us"
    words_a_minute: int = WORDS_A_MINUTE
    pitch: int = PITCH


class Synthesizer:
    """Speaks text into samples. The library has one state: use one synthesizer per process."""

    def __init__(self) -> None:
        self._library, self._rate_hz = _library()
        self._pieces: list[Any] = []
        self._starts_s: dict[int, float] = {}
        self._callback = _Callback(self._take)
        # In the main thread, an exception that a signal raises during the callback would be lost in the
        # library.
        self._thread = ThreadPoolExecutor(1, "synthesis")
        self._library.espeak_SetSynthCallback(self._callback)

    def speak(self, text: str, voice: Voice) -> Samples:
        """Returns the samples of a text at the rate of `core.hearing`.

        Raises ConfigError for an unknown voice.
        """
        return self.speak_words(text, voice)[0]

    def speak_words(self, text: str, voice: Voice) -> tuple[Samples, dict[int, float]]:
        """As `speak`; also returns when each word begins, in seconds, by its first character's position."""
        if self._library.espeak_SetVoiceByName(voice.name.encode()) != 0:
            raise ConfigError(f"eSpeak NG has no voice {voice.name!r}")
        self._library.espeak_SetParameter(_RATE, voice.words_a_minute, 0)
        self._library.espeak_SetParameter(_PITCH, voice.pitch, 0)
        encoded = text.encode()
        self._pieces.clear()
        self._starts_s = {}
        length = ctypes.c_size_t(len(encoded) + 1)
        synth = self._library.espeak_Synth
        self._thread.submit(synth, encoded, length, 0, 0, 0, _UTF8, None, None).result()
        spoken = np.concatenate([np.zeros(0, np.int16), *self._pieces]) / 32768.0
        return resampled(spoken, self._rate_hz), self._starts_s

    def _take(self, samples: Any, count: int, events: Any) -> int:
        if samples and count > 0:
            self._pieces.append(np.ctypeslib.as_array(samples, (count,)).copy())
        for event in itertools.takewhile(lambda one: one.type != _LAST_EVENT, events):
            if event.type == _WORD_EVENT:
                self._starts_s[event.text_position - 1] = event.audio_position_ms / 1000
        return 0


@lru_cache
def _library() -> tuple[Any, int]:
    """Return the initialised library, and its sample rate in Hz."""
    try:
        import espeakng_loader
    except ImportError:
        raise ConfigError(MISSING) from None
    try:
        library = ctypes.CDLL(espeakng_loader.get_library_path())
    except OSError as error:
        raise ConfigError(f"{MISSING} ({error})") from None
    data = espeakng_loader.get_data_path().encode()
    rate_hz = library.espeak_Initialize(_SYNCHRONOUS, 0, data, _NO_EXIT)
    if rate_hz <= 0:
        raise ConfigError(f"{MISSING} (its data cannot be read)")
    return library, rate_hz
