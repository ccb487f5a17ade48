# SPDX-License-Identifier: Apache-2.0
"""The encoder of Moonshine's smallest English model, contained in its package. Extra `voice`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core.errors import ConfigError
from outrider.voice.sound import Samples

MISSING = "speech needs Moonshine's model: install the extra, pip install 'outrider[voice]'"
MIN_SAMPLES = 895
"""The samples that make one state, 56 ms: shorter sound gives no state."""
WIDTH = 288
"""The size of a state."""

States = npt.NDArray[np.float32]


class MoonshineEncoder:
    """Encodes sound as states, about 40 a second. Raises ConfigError if the package is missing."""

    def __init__(self) -> None:
        self._session = session(model_folder() / "encoder_model.ort")

    def encode(self, samples: Samples) -> States:
        """Returns the states (1, count, WIDTH) of sound at the rate of `core.hearing`.

        Each state depends on all of the sound, which needs at least `MIN_SAMPLES` samples.
        """
        sound = samples.astype(np.float32)[None]
        states: States
        (states,) = self._session.run(
            None, {"input_values": sound, "attention_mask": np.ones(sound.shape, np.int64)}
        )
        return states


def session(path: Path) -> Any:
    """Returns a session of an ONNX graph, which runs on one thread."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = 1
    return InferenceSession(str(path), sess_options=options, providers=["CPUExecutionProvider"])


def model_folder() -> Path:
    """Returns the folder of the package's model, without importing the package.

    Raises ConfigError without it.
    """
    found = importlib.util.find_spec("moonshine_voice")
    folder = Path(next(iter(found.submodule_search_locations or ()), "")) if found else Path()
    folder = folder / "assets" / "tiny-en"
    if not (folder / "encoder_model.ort").exists():
        raise ConfigError(MISSING)
    return folder
