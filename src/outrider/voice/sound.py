# SPDX-License-Identifier: Apache-2.0
"""Sound as samples: WAV files read within bounds, and another rate brought to that of the port."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt

from outrider.core.errors import ConfigError
from outrider.core.hearing import SAMPLE_RATE_HZ

Samples = npt.NDArray[np.float64]
"""Of one channel, from -1 to 1."""
LONGEST_S = 60.0
RATES_HZ = (4_000, 192_000)
MAX_CHANNELS = 8
_FULL = 32768.0
_FRAME, _MARGIN = SAMPLE_RATE_HZ // 50, 6
"""Samples of a stretch of which the loudness counts, and stretches that are kept around what is loud."""


def read_wav(path: Path) -> bytes:
    """Returns the samples of a WAV file in the form of `core.hearing`.

    Raises ConfigError for a file that is no WAV file of 8 or 16 bits, or holds more than `LONGEST_S`.
    """
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, rate, count = file.getparams()[:4]
            if not RATES_HZ[0] <= rate <= RATES_HZ[1] or channels > MAX_CHANNELS or width not in (1, 2):
                raise ConfigError(
                    f"{path} has {channels} channels of {8 * width} bits at {rate} Hz: "
                    "save it with 16 bits, mono, at 16000 Hz"
                )
            if count > LONGEST_S * rate:
                raise ConfigError(f"{path} lasts {count / rate:.0f} s: at most {LONGEST_S:.0f} s are taken")
            content = file.readframes(count)
    except (wave.Error, EOFError) as error:
        why = str(error) or "it ends too soon"
        raise ConfigError(f"{path} is no WAV file ({why}): save it as one") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    whole = content[: len(content) // (width * channels) * width * channels]
    if width == 1:
        samples = (np.frombuffer(whole, np.uint8).astype(np.float64) - 128.0) / 128.0
    else:
        samples = np.frombuffer(whole, "<i2") / _FULL
    return to_bytes(resampled(samples.reshape(-1, channels).mean(axis=1), rate))


def resampled(samples: Samples, rate_hz: int) -> Samples:
    """Returns samples at the rate of the port, by their spectrum."""
    if rate_hz == SAMPLE_RATE_HZ or not len(samples):
        return samples
    count = round(len(samples) * SAMPLE_RATE_HZ / rate_hz)
    spectrum = np.fft.rfft(samples)[: count // 2 + 1]
    return np.fft.irfft(spectrum, count) * count / len(samples)


def to_bytes(samples: Samples) -> bytes:
    """Returns samples in the form of `core.hearing`."""
    return np.clip(np.rint(samples * _FULL), -_FULL, _FULL - 1).astype("<i2").tobytes()


def from_bytes(content: bytes) -> Samples:
    """Returns the samples that `to_bytes` has packed."""
    return np.frombuffer(content, "<i2") / _FULL


def trimmed(content: bytes) -> bytes:
    """Returns what is said, without most of the quiet before and after it; empty where all is silent.

    Means over an utterance are those of its speech then, which a recogniser counts on.
    """
    samples = from_bytes(content)
    count = len(samples) // _FRAME
    power = (samples[: count * _FRAME].reshape(count, _FRAME) ** 2).mean(axis=1)
    if not count or not power.any():
        return b""
    loud = np.flatnonzero(power >= max(3.0 * float(np.quantile(power, 0.1)), 1e-3 * float(power.max())))
    if not len(loud):
        return content
    first, last = max(int(loud[0]) - _MARGIN, 0), int(loud[-1]) + 1 + _MARGIN
    return content[2 * first * _FRAME : 2 * last * _FRAME]
