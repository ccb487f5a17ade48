# SPDX-License-Identifier: Apache-2.0
"""The embedded engine: Moonshine's smallest English model, contained in its package. Extra `voice`.

The model reads the whole utterance once it has ended (Jeffries et al., arXiv 2410.15608). A beam search
through the grammar of what can be said finds the likeliest sentence: no other can be recognised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from outrider.core.errors import ConfigError
from outrider.core.hearing import BYTES_A_SECOND
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.words.phrasebook import phrasebook
from outrider.voice.moonshine_encoder import MIN_SAMPLES, MoonshineEncoder, model_folder, session
from outrider.voice.sentence_graph import sentence_graph
from outrider.voice.sound import Samples, from_bytes, trimmed, without_noise
from outrider.voice.stop_spotter import SpottedUtterance, StopSpotter
from outrider.voice.token_graph import Pieces, States, TokenGraph

NO_WORDS = (
    "the model's card names no words, and the embedded engine recognises only words that it was given: "
    "choose the engine whisper, or a model that `outrider words` lists words of"
)
BEAM = 16
TOKENS_A_SECOND = (1.5, 7.0)
"""Tokens per second of speech: fewer than the first rate are penalized, the second ends the search."""
MISSING_PENALTY, MAX_BEYOND = 3.0, 3
TOKEN_BONUS = 0.5
"""Added to a sentence's log probability for each token: the model alone prefers short sentences."""
HEADS, HEAD_WIDTH = 8, 36
_BEGIN, _END = 1, 2

LogProbs = npt.NDArray[np.float32]


class Reader(Protocol):
    """The decoder of a speech model, for one encoded utterance."""

    def next(self, rows: Sequence[int], tokens: Sequence[int]) -> LogProbs:
        """Returns log probabilities (len(rows), vocabulary) of what follows each text's newest token.

        `tokens` are the newest tokens. `rows` says, for each text, which text of the previous call it
        continues; the first call has one row.
        """


@dataclass(frozen=True)
class _Text:
    log_prob: float
    tokens: tuple[int, ...]
    states: States


def likeliest(
    reader: Reader, graph: TokenGraph, signs: frozenset[int], spoken_s: float, beam: int = BEAM
) -> tuple[int, ...]:
    """Returns the tokens of the likeliest sentence of the graph; empty if none ends in time.

    `signs`: the tokens of punctuation. `spoken_s`: how long somebody spoke, in seconds.
    """
    fewest, most = (rate * spoken_s for rate in TOKENS_A_SECOND)
    texts = [_Text(0.0, (), graph.start)]
    best = _Text(-np.inf, (), graph.start)
    rows: list[int] = [0]
    for count in range(round(most) + MAX_BEYOND):
        penalty = MISSING_PENALTY * max(0.0, fewest - count)
        log_probs = reader.next(rows, [text.tokens[-1] if text.tokens else _BEGIN for text in texts])
        longer: list[tuple[_Text, int]] = []
        for row, text in enumerate(texts):
            ended = text.log_prob + float(log_probs[row, _END]) - penalty
            if graph.may_end(text.states) and ended > best.log_prob:
                best = _Text(ended, text.tokens, text.states)
            longer += [(one, row) for one in _longer(text, log_probs[row], graph, signs)]
        longer.sort(key=lambda one: -one[0].log_prob)
        best_texts = [one for one in longer[:beam] if one[0].log_prob > best.log_prob - beam * TOKEN_BONUS]
        if not best_texts:
            break
        texts, rows = [text for text, _ in best_texts], [row for _, row in best_texts]
    return best.tokens


def _longer(text: _Text, log_probs: LogProbs, graph: TokenGraph, signs: frozenset[int]) -> list[_Text]:
    """Extend a text by each token that may come next; between words, one punctuation sign may come."""
    nexts = dict(graph.nexts(text.states))
    between = graph.word_boundaries(text.states)
    if between and text.tokens and text.tokens[-1] not in signs:
        nexts |= dict.fromkeys(signs, between)
    return [
        _Text(text.log_prob + float(log_probs[token]) + TOKEN_BONUS, (*text.tokens, token), states)
        for token, states in nexts.items()
    ]


class MoonshineModel:
    """The encoder and the decoder. Raises ConfigError if the package is missing."""

    def __init__(self) -> None:
        folder = model_folder()
        self.encoder = MoonshineEncoder()
        self.decoder = session(folder / "decoder_model_merged.ort")
        self.pieces = Pieces.read(folder / "tokenizer.bin")

    def read(self, samples: Samples) -> Reader:
        """Returns a reader of an utterance, at the rate of `core.hearing`."""
        return _MoonshineReader(self.encoder, self.decoder, samples)


class _MoonshineReader:
    """Holds the key/value cache of each text; the utterance's part is computed in the first call and kept."""

    def __init__(self, encoder: MoonshineEncoder, decoder: Any, samples: Samples) -> None:
        self._mask = np.ones((1, len(samples)), np.int64)
        self._encoded = encoder.encode(samples)
        self._decoder = decoder
        self._state_names = [output.name for output in decoder.get_outputs()][1:]
        self._past: list[npt.NDArray[np.float32]] = []

    def next(self, rows: Sequence[int], tokens: Sequence[int]) -> LogProbs:
        """See `Reader` for the arguments."""
        is_first = not self._past
        logits, *new_states = self._decoder.run(None, self._inputs(rows, tokens))
        best_texts = zip(self._state_names, new_states, self._past or new_states, strict=True)
        self._past = [old if "encoder" in name and not is_first else new for name, new, old in best_texts]
        newest = logits[:, -1] - logits[:, -1].max(-1, keepdims=True)
        log_probs: LogProbs = newest - np.log(np.exp(newest).sum(-1, keepdims=True))
        return log_probs

    def _inputs(self, rows: Sequence[int], tokens: Sequence[int]) -> Mapping[str, Any]:
        none = np.zeros((1, HEADS, 0, HEAD_WIDTH), np.float32)
        self._past = [one[list(rows)] for one in self._past]
        past = self._past or [none] * len(self._state_names)
        names = (name.replace("present", "past_key_values") for name in self._state_names)
        return {
            "input_ids": np.array(tokens, np.int64)[:, None],
            "encoder_hidden_states": np.repeat(self._encoded, len(rows), 0),
            "encoder_attention_mask": np.repeat(self._mask, len(rows), 0),
            "use_cache_branch": np.array([bool(self._past)]),
            **dict(zip(names, past, strict=True)),
        }


class MoonshineEngine:
    """Recognises the sentences of one vocabulary.

    Raises ConfigError if a package or the words are missing.
    """

    name = "moonshine"

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        if vocabulary is None:
            raise ConfigError(NO_WORDS)
        self._model = MoonshineModel()
        self._stops = StopSpotter(self._model.encoder)
        self._graph = TokenGraph(sentence_graph(phrasebook("en"), vocabulary), self._model.pieces)

    def listen(self) -> SpottedUtterance:
        """Begins an utterance, and ends the last one."""
        return SpottedUtterance(self.sentence, self._stops)

    def sentence(self, samples: bytes) -> str:
        """Returns the likeliest sentence that can be said, in lower case; empty if there is none."""
        pieces = self._model.pieces
        spoken_s, sound = len(trimmed(samples)) / BYTES_A_SECOND, from_bytes(samples)
        if not spoken_s or len(sound) < MIN_SAMPLES:
            return ""
        reader = self._model.read(without_noise(sound))
        tokens = likeliest(reader, self._graph, pieces.signs, spoken_s)
        return pieces.decode(tokens).strip().lower()
