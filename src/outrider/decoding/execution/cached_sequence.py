# SPDX-License-Identifier: Apache-2.0
"""A model session kept in step with a text: one comparison decides what to roll back and what to append."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from outrider.core.errors import RoomError
from outrider.core.ports import Array, Chunk, LanguageModel, Pause, SharingSession
from outrider.core.values import Prompt, Successors
from outrider.decoding.jobs import CATCH_UP_TOKENS
from outrider.decoding.protocol.prefix_digest import common_length


class RowRequest(NamedTuple):
    """A request for `num_last` + 1 rows: the first is `known` if the cache has it,
    `chunk` yields the rest.
    """

    known: Array
    num_last: int
    chunk: Chunk | None

    @property
    def num_new(self) -> int:
        """How many of the rows the chunk yields; they are the last ones."""
        return self.num_last + 1 if self.known is None else self.num_last


class CachedSequence:
    """A prompt and generated tokens in a key/value cache. Callers pass whole texts; the cache follows."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._session = model.open_session()
        self._prompt_length = 0
        self._cached: tuple[int, ...] = ()
        self._prompt_row: Array = None
        self._last_row: Array = None

    def prefill(self, prompt: Prompt, max_new_tokens: int) -> None:
        """Start over with a prompt.

        Raises FrameError or ConfigError if it cannot be used, RoomError if it and the text do not fit.
        """
        for _ in self.prefill_parts(prompt, max_new_tokens):
            pass

    def prefill_parts(self, prompt: Prompt, max_new_tokens: int) -> Iterator[None]:
        """Do `prefill` in parts; between two parts other sequences of the model may run."""
        self._cached = ()
        self._prompt_row = self._last_row = yield from self._session.prefill_parts(prompt)
        self._prompt_length = self._session.length
        if self._prompt_length + max_new_tokens > self._model.max_length:
            raise RoomError(
                f"the prompt has {self._prompt_length} tokens; with max_new_tokens={max_new_tokens} it "
                f"exceeds the {self._model.max_length} of {self._model.name}: shorten the prompt or the text"
            )

    def catch_up(self, tokens: Sequence[int]) -> None:
        """Append at most CATCH_UP_TOKENS tokens of a text to the cache."""
        self.logits(tokens[: self.shared(tokens) + CATCH_UP_TOKENS], 0)

    @property
    def device(self) -> torch.device:
        """The device of the logits; valid after a prefill."""
        device: torch.device = self._prompt_row.device
        return device

    @property
    def end(self) -> tuple[tuple[int, ...], Array]:
        """The cached text and the logits (V,) after it; the logits are None after a rollback."""
        return self._cached, self._last_row if self._cached else self._prompt_row

    def shared(self, tokens: Sequence[int]) -> int:
        """Return how many leading tokens of a text are in the cache."""
        return common_length(self._cached, tokens)

    def follow(self, other: CachedSequence, tokens: Sequence[int]) -> None:
        """Copy from `other` what it has cached of `tokens` beyond this sequence.

        The model must share prompts.
        """
        shares = self._prompt_row is other._prompt_row
        own_length, other_length = self.shared(tokens) if shares else 0, other.shared(tokens)
        if shares and own_length >= other_length:
            return
        assert isinstance(self._session, SharingSession)
        start = other._prompt_length + own_length if shares else 0
        self._session.copy_from(other._session, start, other._prompt_length + other_length)
        self._prompt_length, self._prompt_row = other._prompt_length, other._prompt_row
        self._cached, self._last_row = tuple(tokens[:other_length]), None

    def expected(self, count: int) -> Successors:
        """Return the `count` likeliest successors of each prompt token, as `ModelSession.expected`."""
        return self._session.expected(count)

    def logits(self, tokens: Sequence[int], num_last: int) -> Array:
        """Return the logits (num_last + 1, V) after the prompt and `tokens`.

        Row i predicts tokens[len(tokens) - num_last + i]; the last row predicts what follows all of them.
        """
        request = self.request(tokens, num_last)
        rows = None if request.chunk is None else self._session.forward(request.chunk.token_ids)
        return self.resolve(request, rows)

    def request(self, tokens: Sequence[int], num_last: int) -> RowRequest:
        """Return the part of `logits` that needs a forward pass, for a batch; `resolve` takes its rows."""
        first = len(tokens) - num_last
        known = self._known_row(tokens, first)
        if known is None:
            self._roll_back(min(common_length(self._cached, tokens), first - 1))
        new = tuple(tokens[len(self._cached) :])
        return RowRequest(known, num_last, Chunk(self._session, new) if new else None)

    def resolve(self, request: RowRequest, rows: Array) -> Array:
        """Return the rows (num_last + 1, V) asked for, given the rows of the chunk if there is one."""
        if request.chunk is None:
            return request.known[None]
        self._cached += tuple(request.chunk.token_ids)
        self._last_row = rows[-1]
        return (
            rows[-request.num_last - 1 :] if request.known is None else torch.cat((request.known[None], rows))
        )

    def _known_row(self, tokens: Sequence[int], first: int) -> Array:
        """Return the row that predicts position `first` if it is cached,
        after rolling back to it; else None.
        """
        if first == 0:
            self._roll_back(0)
            return self._prompt_row
        ends_there = first == len(self._cached) == common_length(self._cached, tokens)
        return self._last_row if ends_there else None

    def _roll_back(self, length: int) -> None:
        if length < len(self._cached):
            self._session.truncate(self._prompt_length + length)
            self._cached = self._cached[:length]
            self._last_row = None


def rows_after(
    model: LanguageModel,
    sequences: Sequence[CachedSequence],
    texts: Sequence[tuple[int, ...]],
    pause: Pause | None,
) -> list[Array]:
    """Return the logits (V,) after each text, each on its own sequence, all in one forward pass."""
    requests = [sequence.request(text, 0) for sequence, text in zip(sequences, texts, strict=True)]
    chunks = [request.chunk for request in requests if request.chunk is not None]
    new = iter(model.forward_together(chunks, pause=pause) if chunks else [])
    return [
        sequence.resolve(request, None if request.chunk is None else next(new))[0]
        for sequence, request in zip(sequences, requests, strict=True)
    ]
