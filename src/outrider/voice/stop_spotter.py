# SPDX-License-Identifier: Apache-2.0
"""Spots stop words while they are said, by a small network over the states of Moonshine's encoder.

The network has a layer over each state, a convolution over time, and for each word the maximum score over
time. The encoder was trained on people's speech, the network on synthetic speech. `outrider train stops`
makes its file; `outrider.training.stops` runs it in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from outrider.core.errors import ConfigError
from outrider.core.hearing import BYTES_A_SECOND, SAMPLE_RATE_HZ
from outrider.core.language.words.phrasebook import phrasebook
from outrider.voice.moonshine_encoder import WIDTH, MoonshineEncoder, States
from outrider.voice.sound import from_bytes

WINDOW = round(1.28 * SAMPLE_RATE_HZ)
"""The number of newest samples in which words are looked for."""
STEP_BYTES = BYTES_A_SECOND // 10
"""The bytes from one window to the next."""
APART_STEPS = 5
"""Windows without a word, after which the next word is another order to stop."""
REMEDY = "restore the file, or make it with `outrider train stops`"
_FILE = "stops.safetensors"

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class StopNetwork:
    """The network's weights. A score above zero means that a word was said.

    With C channels, K taps (odd) and W words: mean and deviation (WIDTH,) of the states, point (WIDTH, C),
    taps (K, C, C) and head (C, W), the last three each with a bias.
    """

    mean: Array
    deviation: Array
    point: Array
    point_bias: Array
    taps: Array
    taps_bias: Array
    head: Array
    head_bias: Array

    def scores(self, states: States) -> Array:
        """Returns the score (W,) of each word in states (count, WIDTH)."""
        hidden = np.maximum((states - self.mean) / self.deviation @ self.point + self.point_bias, 0.0)
        reach = len(self.taps) // 2
        around = np.pad(hidden, ((reach, reach), (0, 0)))
        mixed = sum(around[at : at + len(hidden)] @ tap for at, tap in enumerate(self.taps))
        hidden = hidden + np.maximum(mixed + self.taps_bias, 0.0)
        scores: Array = (hidden @ self.head + self.head_bias).max(axis=0)
        return scores

    def to_bytes(self) -> bytes:
        """Returns the file's content: safetensors with 16-bit floats."""
        return save({name: np.ascontiguousarray(one, np.float16) for name, one in vars(self).items()})

    @classmethod
    def from_bytes(cls, content: bytes, words: Sequence[str]) -> StopNetwork:
        """Returns the network in a file's content. Raises ConfigError if it holds none for these words."""
        try:
            arrays = {name: one.astype(np.float32) for name, one in load(content).items()}
            network = cls(**arrays)
        except (SafetensorError, TypeError) as error:
            raise ConfigError(f"{_FILE} holds no spotter of stops ({error}): {REMEDY}") from None
        if {name: one.shape for name, one in arrays.items()} != network._shapes(len(words)):
            raise ConfigError(f"{_FILE} holds no spotter of {', '.join(words)}: {REMEDY}")
        if not all(np.isfinite(one).all() for one in arrays.values()):
            raise ConfigError(f"{_FILE} holds weights that are no numbers: {REMEDY}")
        return network

    @classmethod
    def shipped(cls, words: Sequence[str]) -> StopNetwork:
        """Returns the network shipped with the package. Raises ConfigError if its file is damaged."""
        try:
            content = files("outrider.voice").joinpath(_FILE).read_bytes()
        except OSError as error:
            raise ConfigError(f"{_FILE} cannot be read ({error.strerror}): {REMEDY}") from None
        return cls.from_bytes(content, words)

    def _shapes(self, words: int) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes that the arrays must have, by the size of `taps`."""
        taps, channels = self.taps.shape[:2] if self.taps.ndim == 3 else (1, 0)
        return {
            "mean": (WIDTH,),
            "deviation": (WIDTH,),
            "point": (WIDTH, channels),
            "point_bias": (channels,),
            "taps": (taps + 1 - taps % 2, channels, channels),
            "taps_bias": (channels,),
            "head": (channels, words),
            "head_bias": (words,),
        }


class StopSpotter:
    """Spots stop words in a stream of samples. Raises ConfigError if the shipped weights are damaged."""

    def __init__(self, encoder: MoonshineEncoder, network: StopNetwork | None = None) -> None:
        self._encoder = encoder
        self._network = network or StopNetwork.shipped(phrasebook("en").spoken("spotted_stops"))
        self.start()

    def start(self) -> None:
        """Begins anew: earlier samples no longer count."""
        self._window = np.zeros(WINDOW)
        self._rest = b""
        self._steps_without = APART_STEPS

    def feed(self, samples: bytes) -> bool:
        """Takes the next samples; returns whether they complete another order to stop."""
        content = self._rest + samples
        end = len(content) // STEP_BYTES * STEP_BYTES
        self._rest = content[end:]
        has_stopped = False
        for start in range(0, end, STEP_BYTES):
            has_stopped = self._step(content[start : start + STEP_BYTES]) or has_stopped
        return has_stopped

    def _step(self, content: bytes) -> bool:
        """Whether the window that ends with this content holds another order to stop."""
        self._window = np.concatenate([self._window, from_bytes(content)])[-WINDOW:]
        scores = self._network.scores(self._encoder.encode(self._window)[0])
        if scores.max() <= 0.0:
            self._steps_without += 1
            return False
        steps_without, self._steps_without = self._steps_without, 0
        return steps_without >= APART_STEPS


class SpottedUtterance:
    """An utterance: stops are spotted while it is said, and it is recognised whole once it has ended.

    Implements `core.hearing.Utterance`: each piece goes to the spotter, all of them to the recogniser.
    """

    def __init__(self, recognise: Callable[[bytes], str], stops: StopSpotter) -> None:
        """`recognise` returns the sentence of an utterance. Resets the spotter."""
        stops.start()
        self._recognise, self._stops = recognise, stops
        self._samples = bytearray()

    def feed(self, samples: bytes) -> bool:
        """Takes the next samples; returns whether they complete another order to stop."""
        self._samples += samples
        return self._stops.feed(samples)

    def end(self) -> str:
        """Returns the sentence; empty if no words were recognised."""
        return self._recognise(bytes(self._samples[: len(self._samples) // 2 * 2]))
