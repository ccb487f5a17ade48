# SPDX-License-Identifier: Apache-2.0
"""Words that stop, spotted while they are said: by PocketSphinx, whose package carries an acoustic model."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError
from outrider.core.hearing import BYTES_A_SECOND
from outrider.core.language.phrasebook import phrasebook

MISSING = "speech needs PocketSphinx: install the extra, pip install 'outrider[voice]'"
SLICE_BYTES = BYTES_A_SECOND // 20
STOP_THRESHOLD = 1e-15
"""Of the likelihood of a stop word over that of any sound; higher: fewer stops that nobody said."""


class StopSpotter:
    """Spots the words of an order to stop in a stream. Raises ConfigError without the package."""

    def __init__(self, threshold: float = STOP_THRESHOLD) -> None:
        whole = _decoder(lm=None)
        words = phrasebook("en").spoken("spotted_stops")
        with tempfile.TemporaryDirectory() as folder:
            keywords = Path(folder, "keywords")
            keywords.write_text("".join(f"{word} /{threshold:g}/\n" for word in words))
            self._decoder = _decoder(
                lm=None, kws=str(keywords), dict=str(_dictionary(whole, words, Path(folder, "words")))
            )
        self._means = self._decoder.get_cmn(False)
        self._is_open = False
        self._rest = b""

    def start(self) -> None:
        """Begins anew, without what came before."""
        self.close()
        self._rest = b""
        self._decoder.set_cmn(self._means)
        self._open()

    def feed(self, samples: bytes) -> bool:
        """Takes the next samples; returns whether one more order to stop was spotted with them."""
        self._rest += samples
        has_stopped = False
        while self._is_open and len(self._rest) >= SLICE_BYTES:
            piece, self._rest = self._rest[:SLICE_BYTES], self._rest[SLICE_BYTES:]
            self._decoder.process_raw(piece)
            hypothesis = self._decoder.hyp()
            if hypothesis is not None and hypothesis.hypstr:
                has_stopped = True
                self.close()
                self._open()
        return has_stopped

    def close(self) -> None:
        """Ends the stream."""
        if self._is_open:
            self._is_open = False
            self._decoder.end_utt()

    def _open(self) -> None:
        self._is_open = True
        self._decoder.start_utt()


def _dictionary(whole: Any, words: Iterable[str], path: Path) -> Path:
    """Some words with all their pronunciations, written to a file."""
    lines = []
    for word in sorted(words):
        forms = itertools.chain([word], (f"{word}({number})" for number in itertools.count(2)))
        said = ((form, whole.lookup_word(form)) for form in forms)
        lines += [f"{form} {sounds}\n" for form, sounds in itertools.takewhile(lambda one: one[1], said)]
    path.write_text("".join(lines))
    return path


def _decoder(**options: Any) -> Any:
    try:
        from pocketsphinx import Decoder
    except ImportError:
        raise ConfigError(MISSING) from None
    return Decoder(loglevel="FATAL", dither=True, seed=1, **options)  # digital silence has no spectrum
