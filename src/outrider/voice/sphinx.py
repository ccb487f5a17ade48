# SPDX-License-Identifier: Apache-2.0
"""The embedded engine: PocketSphinx, whose package carries an acoustic model of English. Extra `voice`.

One decoder looks for the words that stop, while they are said. Another reads the whole utterance once it
has ended, by a language model made of the sentences that can be said; the likeliest plan counts.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError, InstructionError
from outrider.core.hearing import BYTES_A_SECOND
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.phrasebook import phrasebook
from outrider.core.language.planner import plan_of
from outrider.voice.sound import trimmed
from outrider.voice.spoken_sentences import SpokenSentences

MISSING = "speech needs PocketSphinx: install the extra, pip install 'outrider[voice]'"
NO_WORDS = (
    "the model's card names no words, and the embedded engine hears only words it was given: "
    "choose the engine whisper, or a model that `outrider words` lists words of"
)
SLICE_BYTES = BYTES_A_SECOND // 20
STOP_THRESHOLD = 1e-15
"""Of the likelihood of a stop word over that of any sound; higher: fewer stops that nobody said."""
LANGUAGE_WEIGHT = 9.0
NUM_SENTENCES = 12_000
MOST_HYPOTHESES = 60


class StopSpotter:
    """Hears the words of an order to stop in a stream. Raises ConfigError without the package."""

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
        """Begin anew; what was heard before counts no more."""
        self.close()
        self._rest = b""
        self._decoder.set_cmn(self._means)
        self._open()

    def feed(self, samples: bytes) -> bool:
        """Take the next samples; whether one more order to stop has been heard with them."""
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
        """Hear no further."""
        if self._is_open:
            self._is_open = False
            self._decoder.end_utt()

    def _open(self) -> None:
        self._is_open = True
        self._decoder.start_utt()


class SphinxEngine:
    """Hears the sentences of one vocabulary. Raises ConfigError without the package or without words."""

    name = "sphinx"

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        if vocabulary is None:
            raise ConfigError(NO_WORDS)
        self._vocabulary = vocabulary
        self._stops = StopSpotter()
        self._decoder = _sentence_decoder(vocabulary)

    def listen(self) -> _SphinxUtterance:
        """Begin an utterance; the last one is heard no further."""
        self._stops.start()
        return _SphinxUtterance(self, self._stops)

    def sentence(self, heard: bytes) -> str:
        """Returns the likeliest sentence that is a plan, else the likeliest; empty for none."""
        self._decoder.start_utt()
        self._decoder.process_raw(heard, full_utt=True)
        self._decoder.end_utt()
        best = self._decoder.hyp()
        if best is None or not best.hypstr:
            return ""
        others = itertools.islice(self._decoder.nbest() or (), MOST_HYPOTHESES)
        said = [best.hypstr, *(other.hypstr for other in others if other is not None)]
        plans = (one for one in dict.fromkeys(filter(None, said)) if _is_plan(one, self._vocabulary))
        return str(next(plans, best.hypstr))


class _SphinxUtterance:
    def __init__(self, engine: SphinxEngine, stops: StopSpotter) -> None:
        self._engine, self._stops = engine, stops
        self._heard = bytearray()

    def feed(self, samples: bytes) -> bool:
        """Take the next samples; whether one more order to stop has been heard with them."""
        self._heard += samples
        return self._stops.feed(samples)

    def end(self) -> str:
        """Return the sentence; empty where no words were heard."""
        self._stops.close()
        whole = trimmed(bytes(self._heard[: len(self._heard) // 2 * 2]))
        return self._engine.sentence(whole) if whole else ""


def _sentence_decoder(vocabulary: Vocabulary) -> Any:
    """A decoder by a trigram model of sentences, with the pronunciations of their words alone."""
    whole = _decoder(lm=None)
    drawn = SpokenSentences(phrasebook("en"), vocabulary)
    sentences = drawn.draw_known(NUM_SENTENCES, lambda word: whole.lookup_word(word) is not None)
    from pocketsphinx.lm import ArpaBoLM

    model = ArpaBoLM(text="\n".join(f"<s> {sentence} </s>" for sentence in sentences))
    model.compute()
    with tempfile.TemporaryDirectory() as folder:
        grams = Path(folder, "sentences.arpa")
        model.write_file(str(grams))
        words = {word for sentence in sentences for word in sentence.split()}
        dictionary = _dictionary(whole, words, Path(folder, "words"))
        return _decoder(lm=str(grams), dict=str(dictionary), lw=LANGUAGE_WEIGHT)


def _dictionary(whole: Any, words: Iterable[str], path: Path) -> Path:
    """Some words with all their pronunciations, written to a file."""
    lines = []
    for word in sorted(words):
        forms = itertools.chain([word], (f"{word}({number})" for number in itertools.count(2)))
        said = ((form, whole.lookup_word(form)) for form in forms)
        lines += [f"{form} {sounds}\n" for form, sounds in itertools.takewhile(lambda one: one[1], said)]
    path.write_text("".join(lines))
    return path


def _is_plan(sentence: str, vocabulary: Vocabulary) -> bool:
    try:
        plan_of(sentence, vocabulary)
    except InstructionError:
        return False
    return True


def _decoder(**options: Any) -> Any:
    try:
        from pocketsphinx import Decoder
    except ImportError:
        raise ConfigError(MISSING) from None
    return Decoder(loglevel="FATAL", dither=True, seed=1, **options)  # digital silence has no spectrum
