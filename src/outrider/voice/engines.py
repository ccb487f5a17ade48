# SPDX-License-Identifier: Apache-2.0
"""The speech engines by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from outrider.core.errors import ConfigError
from outrider.core.hearing import AsrEngine
from outrider.core.language.grammar import Vocabulary
from outrider.voice.moonshine import MoonshineEngine
from outrider.voice.whisper import WhisperEngine

ENGINES: Mapping[str, Callable[[Vocabulary | None], AsrEngine]] = {
    "moonshine": MoonshineEngine,
    "whisper": WhisperEngine,
}


def make_engine(name: str, vocabulary: Vocabulary | None) -> AsrEngine:
    """Returns the engine of that name for a model's vocabulary.

    Raises ConfigError, with the remedy, for an unknown name, or if its package or model is missing.
    """
    if name not in ENGINES:
        raise ConfigError(f"there is no speech engine {name!r}: choose {' or '.join(ENGINES)}")
    return ENGINES[name](vocabulary)
