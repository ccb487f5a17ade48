# SPDX-License-Identifier: Apache-2.0
"""Simulates how rooms, microphones and other people change speech: echo, lost bands, noise, clipping."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outrider.core.hearing import SAMPLE_RATE_HZ
from outrider.voice.sound import Samples, audible, from_bytes, to_bytes

ECHO_SHARE, ECHO_S, ECHO_LEVEL = 0.3, (0.1, 0.5), (0.1, 0.7)
BAND_SHARE, LOW_CUT_HZ, HIGH_CUT_HZ = 0.25, (50.0, 400.0), (2800.0, 7500.0)
CLIP_SHARE, CLIP_LEVEL = 0.15, (0.2, 0.8)
NOISES, SNR_DB = ("none", "white", "white", "pink", "babble"), (5.0, 40.0)
LOUDNESS = (0.02, 0.9)
ROOM_NOISE = (1e-5, 3e-4)
"""Standard deviation of the background noise."""
BABBLERS = (3, 7)


def in_conditions(
    clean: Samples, other_voices: Sequence[Samples], rng: np.random.Generator
) -> tuple[Samples, float]:
    """Returns speech as a microphone may record it, and its signal-to-noise ratio in dB, inf without noise.

    `other_voices` are the voices of babble noise.
    """
    sound = _echoing(clean, rng) if rng.random() < ECHO_SHARE else clean
    if rng.random() < BAND_SHARE:
        sound = _band_limited(sound, rng.uniform(*LOW_CUT_HZ), rng.uniform(*HIGH_CUT_HZ))
    loudness = _between(LOUDNESS, rng)
    sound = sound * (loudness / max(float(np.abs(sound).max()), 1e-9))
    speech = sound[audible(sound)]
    power = float(np.mean(speech**2)) if len(speech) else (loudness / 5) ** 2
    sound = sound + rng.normal(0.0, _between(ROOM_NOISE, rng), len(sound))
    kind, snr_db = str(rng.choice(NOISES)), float(rng.uniform(*SNR_DB))
    if kind == "none":
        snr_db = np.inf
    else:
        sound = sound + _noise(kind, len(sound), other_voices, rng) * (power / 10 ** (snr_db / 10)) ** 0.5
    if rng.random() < CLIP_SHARE:
        limit = rng.uniform(*CLIP_LEVEL) * float(np.abs(sound).max())
        sound = np.clip(sound, -limit, limit)
    return from_bytes(to_bytes(sound)), snr_db


def _between(ends: tuple[float, float], rng: np.random.Generator) -> float:
    """Returns a number between two, uniform in its logarithm."""
    return float(np.exp(rng.uniform(*np.log(ends))))


def _noise(kind: str, count: int, other_voices: Sequence[Samples], rng: np.random.Generator) -> Samples:
    """Returns noise whose mean power is 1."""
    noise = rng.normal(size=count)
    if kind == "pink":
        spectrum = np.fft.rfft(noise)
        noise = np.fft.irfft(spectrum / np.sqrt(np.arange(1, len(spectrum) + 1)), count)
    elif kind == "babble" and other_voices:
        noise = np.zeros(count)
        for _ in range(rng.integers(*BABBLERS)):
            voice = np.resize(other_voices[int(rng.integers(len(other_voices)))], count)
            noise += np.roll(voice, rng.integers(count)) * rng.uniform(0.3, 1.0)
    return noise / max(float(np.mean(noise**2)) ** 0.5, 1e-9)


def _echoing(sound: Samples, rng: np.random.Generator) -> Samples:
    """Returns sound with a room's echo: noise that falls by 60 dB in the room's reverberation time."""
    tail_s = rng.uniform(*ECHO_S)
    times_s = np.arange(round(tail_s * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    tail = rng.normal(size=len(times_s)) * np.exp(-6.9 * times_s / tail_s)
    tail *= rng.uniform(*ECHO_LEVEL) / float(np.sum(tail**2)) ** 0.5
    tail[0] = 1.0
    size = -(-(len(sound) + len(tail)) // 4096) * 4096
    return np.fft.irfft(np.fft.rfft(sound, size) * np.fft.rfft(tail, size), size)[: len(sound)]


def _band_limited(sound: Samples, low_hz: float, high_hz: float) -> Samples:
    spectrum = np.fft.rfft(sound)
    hz = np.fft.rfftfreq(len(sound), 1.0 / SAMPLE_RATE_HZ)
    return np.fft.irfft(spectrum * ((hz > low_hz) & (hz < high_hz)), len(sound))
