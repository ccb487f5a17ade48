# SPDX-License-Identifier: Apache-2.0
"""A text model without weights that answers a question by quoting the documents in its prompt.

For machines without a language model, over any tokenizer. It quotes, as a line, the document that holds
most words of the question. If no document holds half of them, or after the quotation, it prefers to end,
but only weakly. So two such models with their own documents (`decoding.aggregation`) write the lines of
both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch

from outrider.core.language.questions import FUNCTION_WORDS, parts_of
from outrider.core.ports import Array, OnExit, Tokenizer
from outrider.core.values import Prompt
from outrider.decoding.fakes.unbatched import ListSession, UnbatchedModel

SURE, RATHER = 0.9, 0.3
"""The probability of continuing a quotation, and of ending where there is nothing to quote."""
MIN_SHARE = 0.5
_WORD = re.compile(r"[^\W_]+")
_ASKING_TEXT = "tell know about did do does last see seen saw where what who whose when why how which"
_ASKING = frozenset(_ASKING_TEXT.split())


class QuotingModel(UnbatchedModel):
    """A LanguageModel that quotes; see the module."""

    name = "quotes"
    max_length = 1024
    exits = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.vocab_size, self.end_ids = tokenizer.vocab_size, tokenizer.end_ids

    def open_session(self) -> QuotingSession:
        """Return a new session with an empty cache."""
        return QuotingSession(self)

    def row(self, quotation: Sequence[int], text: Sequence[int]) -> Array:
        """Return the logits (V,) after a text; `quotation`: the tokens of the line to quote,
        empty for none.
        """
        wanted, sure = self._wanted(list(quotation), list(text))
        probs = torch.full((self.vocab_size,), 1.0 / self.vocab_size, dtype=torch.float64)
        if wanted is not None:
            probs *= 1.0 - sure
            probs[wanted] += sure
        return probs.log()

    def _ends_line(self, token: int) -> bool:
        return self.tokenizer.decode([token]).endswith("\n")

    def _wanted(self, quotation: list[int], text: list[int]) -> tuple[int | None, float]:
        """Return the preferred next token and its probability;
        None in the middle of the other model's line.
        """
        ends = [index + 1 for index, token in enumerate(text) if self._ends_line(token)]
        starts = [0, *ends]
        line = text[starts[-1] :]
        is_quoted = any(text[start:end] == quotation for start, end in zip(starts, ends, strict=False))
        if line and line != quotation[: len(line)]:
            return None, 0.0
        if quotation and not is_quoted:
            return quotation[len(line)], SURE
        return (None, 0.0) if line else (min(self.end_ids), RATHER)


class QuotingSession(ListSession):
    """A session whose cache is the list of tokens; it also keeps the line to quote."""

    def __init__(self, model: QuotingModel) -> None:
        super().__init__()
        self._model = model
        self._quotation: list[int] = []
        self._num_prompt = 0

    def prefill(self, prompt: Prompt) -> Array:
        """Cache a prompt and return the logits (V,) after it. Raises ConfigError if it is not a question."""
        question, documents = parts_of(prompt.text)
        tokenizer = self._model.tokenizer
        line = best_document(question, documents)
        self._quotation = tokenizer.encode(f"{line}\n") if line else []
        self._cache = tokenizer.encode(prompt.text)
        self._num_prompt = len(self._cache)
        return self._model.row(self._quotation, ())

    def forward(self, token_ids: Sequence[int], on_exit: OnExit | None = None) -> Array:
        rows = []
        for token in token_ids:
            self._cache.append(token)
            rows.append(self._model.row(self._quotation, self._cache[self._num_prompt :]))
        return torch.stack(rows)


def best_document(question: str, documents: Sequence[str]) -> str:
    """Return the document with most of the question's words, the first one on a tie;
    empty if none has enough.
    """
    wanted = _content_words(question) - _ASKING
    shares = [len(wanted & _content_words(document)) / max(1, len(wanted)) for document in documents]
    best = max(shares, default=0.0)
    return documents[shares.index(best)] if best >= MIN_SHARE else ""


def _content_words(text: str) -> set[str]:
    """Return the content words of a text, without a plural s."""
    words = set(_WORD.findall(text.lower())) - FUNCTION_WORDS
    return {word.removesuffix("s") or word for word in words} - _ASKING
