# SPDX-License-Identifier: Apache-2.0
"""A small text model without weights that reads the documents in its prompt.

A count model interpolated with a cache of the text before it: Jelinek-Mercer trigrams of training sentences
(Jelinek and Mercer 1980), and the tokens that followed the longest match of the last words in the documents
(a cache model in the manner of Grave et al., "Unbounded cache model", NeurIPS 2017). That is enough to
measure the value of documents on either side, in milliseconds and with the same results everywhere.

A prompt is words with spaces; SEPARATOR ends a document. The last two parts are the question and the
beginning of the answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import torch

from outrider.core.errors import ConfigError
from outrider.core.ports import Array, OnExit
from outrider.core.values import Prompt
from outrider.decoding.fakes.unbatched import ListSession, UnbatchedModel

SEPARATOR = "|"
END = "."
TRUST_BY_MATCH = (0.0, 0.3, 0.7, 0.9)
"""The weight, against the trigrams, of what followed a match of 0, 1, 2, 3 or more words."""
ORDER_WEIGHTS = (0.01, 0.09, 0.3, 0.6)
"""The weights of the uniform distribution, unigrams, bigrams and trigrams. An order without counts gives
its weight to the lower ones.
"""


class WordTokenizer:
    """One token per word; the end token is a full stop."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = (END, SEPARATOR, *sorted(set(words) - {END, SEPARATOR}))
        self._ids = {word: index for index, word in enumerate(self._words)}
        self.vocab_size = len(self._words)
        self.end_ids = frozenset((0,))
        self.fingerprint = blake2b("\n".join(self._words).encode(), digest_size=16).hexdigest()

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text's words. Raises ConfigError for an unknown word."""
        unknown = [word for word in text.split() if word not in self._ids]
        if unknown:
            raise ConfigError(f"the words {', '.join(sorted(set(unknown)))} are not in this vocabulary")
        return [self._ids[word] for word in text.split()]

    def encode_prompt(self, text: str) -> list[int]:
        """Return `encode(text)`: no word is markup."""
        return self.encode(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the words of token ids, separated by spaces."""
        return " ".join(self._words[token_id] for token_id in token_ids)


class CacheModel(UnbatchedModel):
    """A LanguageModel of trigrams and a cache; see the module."""

    max_length = 4096
    exits = None

    def __init__(self, tokenizer: WordTokenizer, sentences: Sequence[str]) -> None:
        """`sentences`: the text from which trigrams are counted, END included."""
        self.name = f"cache-lm-{len(sentences)}"
        self.tokenizer = tokenizer
        self.vocab_size, self.end_ids = tokenizer.vocab_size, tokenizer.end_ids
        self._separator = tokenizer.encode(SEPARATOR)[0]
        self._counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for sentence in sentences:
            tokens = tokenizer.encode(sentence)
            for index, token in enumerate(tokens):
                for order in range(3):
                    if index >= order:
                        self._counts[tuple(tokens[index - order : index])][token] += 1

    def open_session(self) -> CacheSession:
        """Return a new session with an empty cache."""
        return CacheSession(self)

    def row(self, tokens: Sequence[int], num_prompt: int) -> Array:
        """Return the logits (V,) after `tokens`, of which the first `num_prompt` are the prompt."""
        parts = _split(tokens[:num_prompt], self._separator)
        text = parts[-1] + list(tokens[num_prompt:])
        followers, match = _followers(parts[:-2], text)
        trust = TRUST_BY_MATCH[min(match, len(TRUST_BY_MATCH) - 1)]
        probs = (1.0 - trust) * self._trigrams(text)
        for token, count in followers.items():
            probs[token] += trust * count / followers.total()
        return probs.log()

    def _trigrams(self, text: Sequence[int]) -> Array:
        probs = torch.full((self.vocab_size,), 1.0 / self.vocab_size, dtype=torch.float64)
        for order, weight in enumerate(ORDER_WEIGHTS[1:]):
            counts = self._counts.get(tuple(text[len(text) - order :]))
            if counts is None:
                continue
            share = weight / sum(ORDER_WEIGHTS[: order + 2])
            probs *= 1.0 - share
            for token, count in counts.items():
                probs[token] += share * count / counts.total()
        return probs


class CacheSession(ListSession):
    """A session whose cache is the list of tokens."""

    def __init__(self, model: CacheModel) -> None:
        super().__init__()
        self._model = model
        self._num_prompt = 0

    def prefill(self, prompt: Prompt) -> Array:
        self._cache = self._model.tokenizer.encode(prompt.text)
        self._num_prompt = len(self._cache)
        return self._model.row(self._cache, self._num_prompt)

    def forward(self, token_ids: Sequence[int], on_exit: OnExit | None = None) -> Array:
        rows = []
        for token_id in token_ids:
            self._cache.append(token_id)
            rows.append(self._model.row(self._cache, self._num_prompt))
        return torch.stack(rows)


def _split(tokens: Sequence[int], separator: int) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    for token in tokens:
        if token == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _followers(documents: Sequence[Sequence[int]], text: Sequence[int]) -> tuple[Counter[int], int]:
    """Return what follows the longest match of the end of `text` in the documents,
    and its length in words.
    """
    found: Counter[int] = Counter()
    longest = 0
    for document in documents:
        for index in range(1, len(document)):
            match = 0
            while match < min(index, len(text)) and document[index - 1 - match] == text[-1 - match]:
                match += 1
            if match > longest:
                found, longest = Counter(), match
            if match == longest > 0:
                found[document[index]] += 1
    return found, longest
