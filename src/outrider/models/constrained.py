# SPDX-License-Identifier: Apache-2.0
"""Decoding whose first line must be one of a few lines:
for models that were prompted for a task, not trained.

The constraint is part of the distribution: tokens that lead to no line have no probability. A constrained
target has another text, which every strategy then reproduces. A constrained draft avoids draft tokens that
the target must reject.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from outrider.core.errors import ModelError
from outrider.core.language.actions import ACTION_TEXTS
from outrider.core.ports import (
    Chunk,
    ExitInfo,
    ExitReader,
    LanguageModel,
    ModelSession,
    OnExit,
    Pause,
    SharingSession,
    Tokenizer,
    finish,
    reader_of,
)
from outrider.core.values import Prompt, Successors

FORBIDDEN = -1e30
"""A logit for no probability; finite, so that margins and sums of logits stay finite."""
_HOST = torch.device("cpu")


class LineGrammar:
    """The tokens that may follow the beginning of a first line."""

    def __init__(self, tokenizer: Tokenizer, lines: Sequence[str]) -> None:
        """Raises ModelError if a line cannot be written with this vocabulary."""
        self._tokenizer = tokenizer
        self._lines = [f"{line}\n" for line in lines]
        self._allowed: dict[str, Tensor] = {}
        for line in self._lines:
            for length in range(len(line)):
                self._following(line[:length])

    def allowed(self, token_ids: Sequence[int], device: torch.device = _HOST) -> Tensor | None:
        """Return the ids, on a device, that may follow these tokens; None if any may.

        Any may after a complete line, or after a text that begins no line; then any may after all longer
        texts too.
        """
        text = self._tokenizer.decode(token_ids)
        ids = self._allowed.get(text)
        if ids is not None and ids.device != device:
            ids = self._allowed[text] = ids.to(device)  # once, because the copy must be waited for
        return ids

    def _following(self, begun: str) -> None:
        if begun in self._allowed:
            return
        rests = {line[len(begun) :] for line in self._lines if line.startswith(begun)}
        pieces = {rest[:length] for rest in rests for length in range(1, len(rest) + 1)}
        encoded = (self._tokenizer.encode(piece) for piece in pieces)
        ids = sorted(token_ids[0] for token_ids in encoded if len(token_ids) == 1)
        if not ids:
            raise ModelError(f"the vocabulary has no token to go on with after {begun!r}")
        self._allowed[begun] = torch.tensor(ids)


class ConstrainedModel:
    """A LanguageModel whose texts begin with one of the lines."""

    def __init__(self, model: LanguageModel, grammar: LineGrammar) -> None:
        self.name = f"{model.name}, constrained"
        self.vocab_size = model.vocab_size
        self.end_ids = model.end_ids
        self.max_length = model.max_length
        self.tokenizer = model.tokenizer
        self.grammar = grammar
        self._model = model

    @property
    def exits(self) -> ExitInfo | None:
        """The early exits of the inner model. Their hints ignore the constraint; they are only advice."""
        return self._model.exits

    @property
    def shares_prompts(self) -> bool:
        """Whether sessions of the inner model share prompts."""
        return self._model.shares_prompts

    def open_session(self) -> ConstrainedSession:
        """Return a new session with an empty cache."""
        return ConstrainedSession(self, self._model.open_session())

    def forward_together(
        self, chunks: Sequence[Chunk], read: ExitReader | None = None, pause: Pause | None = None
    ) -> list[Tensor]:
        """Run the chunks in one pass of the inner model; return their constrained logits."""
        sessions = [_own(chunk.session) for chunk in chunks]
        inner = [
            Chunk(session.inner, chunk.token_ids) for session, chunk in zip(sessions, chunks, strict=True)
        ]
        logits = self._model.forward_together(inner, read, pause)
        return [
            session.append(chunk.token_ids, rows)
            for session, chunk, rows in zip(sessions, chunks, logits, strict=True)
        ]


class ConstrainedSession:
    """A ModelSession that keeps its text since the prompt."""

    def __init__(self, model: ConstrainedModel, inner: ModelSession) -> None:
        self.inner = inner
        self._model = model
        self._prompt_length = 0
        self._text: list[int] = []
        self._free_from = math.inf
        """Number of text tokens from which on any token may follow."""

    @property
    def length(self) -> int:
        """The number of tokens in the cache."""
        return self.inner.length

    def prefill(self, prompt: Prompt) -> Tensor:
        """Replace the cache by the prompt; return the constrained logits (V,) of the first new token."""
        return finish(self.prefill_parts(prompt))

    def prefill_parts(self, prompt: Prompt) -> Generator[None, None, Tensor]:
        """Run `prefill` in the parts of the inner session."""
        row = yield from self.inner.prefill_parts(prompt)
        self._prompt_length, self._text, self._free_from = self.inner.length, [], math.inf
        return self._constrained(row, 0)

    def expected(self, count: int) -> Successors:
        """Return the `count` likeliest successors of each prompt token, by the inner model."""
        return self.inner.expected(count)

    def forward(self, token_ids: Sequence[int], on_exit: OnExit | None = None) -> Tensor:
        """Append tokens; return their constrained logits (M, V)."""
        return self._model.forward_together([Chunk(self, token_ids)], reader_of(on_exit))[0]

    def truncate(self, length: int) -> None:
        """Drop everything beyond `length` tokens."""
        self.inner.truncate(length)
        del self._text[max(0, length - self._prompt_length) :]
        if len(self._text) < self._free_from:
            self._free_from = math.inf

    def copy_from(self, other: ModelSession, start: int, length: int) -> None:
        """Take over the first `length` tokens of another session; see `core.ports.SharingSession`."""
        twin = _own(other)
        assert isinstance(self.inner, SharingSession)
        self.inner.copy_from(twin.inner, start, length)
        self._prompt_length, self._free_from = twin._prompt_length, math.inf
        self._text = twin._text[: length - twin._prompt_length]

    def append(self, token_ids: Sequence[int], rows: Tensor) -> Tensor:
        """Append the tokens of a forward pass; return its logits under the constraint."""
        first = len(self._text) + 1
        self._text.extend(token_ids)
        if first >= self._free_from:
            return rows
        return torch.stack([self._constrained(row, first + offset) for offset, row in enumerate(rows)])

    def _constrained(self, row: Tensor, count: int) -> Tensor:
        """Return the row after the first `count` tokens of the text, under the constraint."""
        if count >= self._free_from:
            return row
        allowed = self._model.grammar.allowed(self._text[:count], row.device)
        if allowed is None:
            self._free_from = count
            return row
        allowed_only = torch.full_like(row, FORBIDDEN)
        return allowed_only.index_copy_(0, allowed, row.index_select(0, allowed))


def constrain(model: LanguageModel) -> ConstrainedModel:
    """Return a model whose texts begin with an action of the table."""
    return ConstrainedModel(model, LineGrammar(model.tokenizer, ACTION_TEXTS))


def _own(session: ModelSession) -> ConstrainedSession:
    if not isinstance(session, ConstrainedSession):
        raise ValueError("a batch takes sessions of one model")
    return session
