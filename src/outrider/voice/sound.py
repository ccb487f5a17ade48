# SPDX-License-Identifier: Apache-2.0
"""Sound as samples: bounded reading of WAV files, resampling to the rate of `core.hearing`, less noise.

Recordings are WAV files named after what is said, such as `please stop.2.wav`, in one folder per voice.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import open_file
from outrider.core.hearing import SAMPLE_RATE_HZ

Samples = npt.NDArray[np.float64]
"""The samples of one channel, from -1 to 1."""
LONGEST_S = 60.0
RATES_HZ = (4_000, 192_000)
MAX_CHANNELS = 8
AUDIBLE = 0.02
"""The fraction of the peak of speech below which a sample is silent: between words, or after them."""
QUIET = 0.2
"""The quantile of each frequency's power over time from which its noise is estimated."""
MIN_GAIN = 0.1
"""The least gain, which noise is reduced to."""
_FULL = 32768.0
_SAVE_IT = "save it with 16 bits, mono, at 16000 Hz"
_WHOLE_NUMBERS, _EXTENSIBLE = 1, 0xFFFE
_EXTENDED = bytes.fromhex("0100000000001000800000aa00389b71")
"""The code of whole numbers in the extensible form."""
_WINDOW, _HOP, _SMOOTHING = 512, 128, 9
"""Samples of a short-time spectrum, samples between spectra, and frequencies over which noise is averaged."""
_FRAME, _MARGIN = SAMPLE_RATE_HZ // 50, 6
"""Samples of a frame whose loudness is measured, and frames that are kept around loud ones."""


def read_wav(path: Path) -> bytes:
    """Returns the samples of a WAV file in the format of `core.hearing`.

    Raises ConfigError if the file is not a WAV file of 8 or 16 bits, or is longer than `LONGEST_S`.
    """
    try:
        with open_file(path) as opened:
            channels, width, rate, num_bytes = samples_in(opened, os.fstat(opened.fileno()).st_size)
            if not RATES_HZ[0] <= rate <= RATES_HZ[1] or channels > MAX_CHANNELS or width not in (1, 2):
                raise ConfigError(
                    f"{path} has {channels} channels of {8 * width} bits at {rate} Hz: {_SAVE_IT}"
                )
            count = num_bytes // (width * channels)
            if count > LONGEST_S * rate:
                raise ConfigError(f"{path} lasts {count / rate:.0f} s: at most {LONGEST_S:.0f} s are taken")
            content = opened.read(count * width * channels)
    except ValueError as error:
        raise ConfigError(f"{path} is no WAV file that can be read ({error}): {_SAVE_IT}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    whole = content[: len(content) // (width * channels) * width * channels]
    if width == 1:
        samples = (np.frombuffer(whole, np.uint8).astype(np.float64) - 128.0) / 128.0
    else:
        samples = np.frombuffer(whole, "<i2") / _FULL
    return to_bytes(resampled(samples.reshape(-1, channels).mean(axis=1), rate))


def samples_in(file: BinaryIO, size: int) -> tuple[int, int, int, int]:
    """Returns channels, bytes per sample, rate in Hz and bytes of all samples; moves the file to the samples.

    A program that writes to a pipe cannot know the length beforehand, and writes 0 or the largest number:
    then all bytes that follow are samples. Raises ValueError if this is not a WAV file of whole numbers.
    """
    start = file.read(12)
    if start[:4] != b"RIFF" or start[8:] != b"WAVE":
        raise ValueError("it does not begin as one" if start else "it is empty")
    # Some writers omit the padding byte after a chunk of odd length.
    ends = int.from_bytes(start[4:8], "little") + 8 in (size - 1, size)
    form = b""
    while len(head := file.read(8)) == 8:
        num_bytes = int.from_bytes(head[4:], "little")
        if head[:4] == b"data":
            if len(form) < 16:
                raise ValueError("it does not tell the form of its samples")
            kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", form[:16])
            if kind not in (_WHOLE_NUMBERS, _EXTENSIBLE) or form[24:] not in (b"", _EXTENDED):
                raise ValueError("its samples are no plain whole numbers")
            if not channels or not bits:
                raise ValueError("it has no channel, or samples of 0 bits")
            rest = size - file.tell()
            is_sound = num_bytes <= rest and (num_bytes or ends)
            return channels, (bits + 7) // 8, rate, num_bytes if is_sound else rest
        after = file.tell() + num_bytes + num_bytes % 2
        if head[:4] == b"fmt ":
            form = file.read(min(num_bytes, 40))
        file.seek(after)
    raise ValueError("it ends too soon")


def resampled(samples: Samples, rate_hz: int) -> Samples:
    """Returns samples at the rate of `core.hearing`, resampled by their spectrum."""
    if rate_hz == SAMPLE_RATE_HZ or not len(samples):
        return samples
    count = max(1, round(len(samples) * SAMPLE_RATE_HZ / rate_hz))
    spectrum = np.fft.rfft(samples)[: count // 2 + 1]
    return np.fft.irfft(spectrum, count) * count / len(samples)


def to_bytes(samples: Samples) -> bytes:
    """Returns samples in the format of `core.hearing`."""
    return np.clip(np.rint(samples * _FULL), -_FULL, _FULL - 1).astype("<i2").tobytes()


def from_bytes(content: bytes) -> Samples:
    """Returns the samples that `to_bytes` has packed."""
    return np.frombuffer(content, "<i2") / _FULL


def audible(samples: Samples) -> npt.NDArray[np.intp]:
    """Returns the indices of the samples of clean speech that are not silent; empty if all are silent."""
    return np.flatnonzero(np.abs(samples) > AUDIBLE * np.abs(samples).max(initial=0.0))


def without_noise(samples: Samples) -> Samples:
    """Returns samples with less stationary noise, such as a fan's.

    A Wiener filter over short-time spectra. The noise of each frequency is taken as constant, and estimated
    from a quantile of its power, as for an exponential distribution. Sound too short for that is returned
    unchanged.
    """
    if len(samples) < 4 * _WINDOW:
        return samples
    window = np.hanning(_WINDOW + 1)[:-1]
    padded = np.pad(samples, _WINDOW)
    spectra = np.fft.rfft(window * sliding_window_view(padded, _WINDOW)[::_HOP])
    power = np.abs(spectra) ** 2
    whole = power[_WINDOW // _HOP : -(_WINDOW // _HOP)]
    noise = np.quantile(whole, QUIET, axis=0) / -np.log(1.0 - QUIET)
    noise = np.convolve(np.pad(noise, _SMOOTHING // 2, "edge"), np.ones(_SMOOTHING) / _SMOOTHING, "valid")
    power[1:-1] = (power[:-2] + 2.0 * power[1:-1] + power[2:]) / 4.0
    speech = np.maximum(power - noise, MIN_GAIN**2 * power)
    gains = np.sqrt(speech / np.maximum(power, np.finfo(float).tiny))
    cleaned = np.zeros(len(padded))
    for number, part in enumerate(window * np.fft.irfft(gains * spectra)):
        cleaned[number * _HOP :][:_WINDOW] += part
    overlap = float((window**2).sum()) / _HOP
    return cleaned[_WINDOW : _WINDOW + len(samples)] / overlap


def trimmed(content: bytes) -> bytes:
    """Returns what is said, without most of the quiet before and after it; empty if all is silent.

    Means over the utterance are then those of its speech, as a recogniser requires.
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


@dataclass(frozen=True)
class Recording:
    """A text, and the samples of a voice that says it."""

    text: str
    samples: Samples


def voices(folder: Path) -> list[Path]:
    """Returns the folders of the voices in a folder. Raises ConfigError if there are none."""
    folders = sorted(one for one in folder.iterdir() if one.is_dir()) if folder.is_dir() else []
    if not folders:
        raise ConfigError(f"{folder} holds no folders of voices: make one for each, as {folder}/anna")
    return folders


def recordings(voice: Path) -> Iterator[Recording]:
    """Yields the recordings of a voice, without silent ones. Raises ConfigError as `read_wav` does."""
    for path in sorted(voice.glob("*.wav")):
        samples = from_bytes(read_wav(path))
        if len(audible(samples)):
            yield Recording(path.name.partition(".")[0], samples)
