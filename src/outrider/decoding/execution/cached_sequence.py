# SPDX-License-Identifier: Apache-2.0
"""A model session kept in step with a text: rollback and catching up are one comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from outrider.core.errors import RoomError
from outrider.core.ports import Array, Chunk, LanguageModel, Pause, SharingSession
from outrider.core.values import Prompt, Successors
from outrider.decoding.jobs import CATCH_UP_TOKENS
from outrider.decoding.protocol.prefix_digest import common_length


class Asked(NamedTuple):
    """`num_last` + 1 rows asked of a sequence: the first one where it is known, `chunk` for the rest."""

    known: Array
    num_last: int
    chunk: Chunk | None

    @property
    def num_new(self) -> int:
        """How many of the rows, the last ones, come of the chunk."""
        return self.num_last + 1 if self.known is None else self.num_last


class CachedSequence:
    """One prompt and the generated tokens now in a cache. Callers name texts; the cache follows them."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._session = model.open_session()
        self._prompt_length = 0
        self._cached: tuple[int, ...] = ()
        self._prompt_row: Array = None
        self._last_row: Array = None

    def prefill(self, prompt: Prompt, max_new_tokens: int) -> None:
        """Start over with a prompt. Raises FrameError or ConfigError where it cannot be used; RoomError
        where it and the text do not fit."""
        for _ in self.prefill_parts(prompt, max_new_tokens):
            pass

    def prefill_parts(self, prompt: Prompt, max_new_tokens: int) -> Iterator[None]:
        """`prefill` in parts, between which other sequences of the model may run."""
        self._cached = ()
        self._prompt_row = self._last_row = yield from self._session.prefill_parts(prompt)
        self._prompt_length = self._session.length
        if self._prompt_length + max_new_tokens > self._model.max_length:
            raise RoomError(
                f"the prompt has {self._prompt_length} tokens; with max_new_tokens={max_new_tokens} it "
                f"exceeds the {self._model.max_length} of {self._model.name}: shorten the prompt or the text"
            )

    def catch_up(self, tokens: Sequence[int]) -> None:
        """Take in the next part of a text after the prompt."""
        self.logits(tokens[: self.shared(tokens) + CATCH_UP_TOKENS], 0)

    @property
    def device(self) -> torch.device:
        """Where the rows are, once there is a prompt."""
        device: torch.device = self._prompt_row.device
        return device

    @property
    def end(self) -> tuple[tuple[int, ...], Array]:
        """The text in the cache, and what the model predicts after it (V,); None where it was rolled back."""
        return self._cached, self._last_row if self._cached else self._prompt_row

    def shared(self, tokens: Sequence[int]) -> int:
        """How many of a text's first tokens are in the cache."""
        return common_length(self._cached, tokens)

    def follow(self, other: CachedSequence, tokens: Sequence[int]) -> None:
        """Take over what another sequence has of its text beyond this one; the model shares prompts."""
        shares = self._prompt_row is other._prompt_row
        mine, theirs = self.shared(tokens) if shares else 0, other.shared(tokens)
        if shares and mine >= theirs:
            return
        assert isinstance(self._session, SharingSession)
        start = other._prompt_length + mine if shares else 0
        self._session.copy_from(other._session, start, other._prompt_length + theirs)
        self._prompt_length, self._prompt_row = other._prompt_length, other._prompt_row
        self._cached, self._last_row = tuple(tokens[:theirs]), None

    def expected(self, count: int) -> Successors:
        """Returns the `count` likeliest successors of each prompt token, as `ModelSession.expected`."""
        return self._session.expected(count)

    def logits(self, tokens: Sequence[int], num_last: int) -> Array:
        """What the model predicts after the prompt and `tokens`: (num_last + 1, V).

        Row i predicts tokens[len(tokens) - num_last + i]; the last row what follows all of them.
        """
        asked = self.ask(tokens, num_last)
        rows = None if asked.chunk is None else self._session.forward(asked.chunk.token_ids)
        return self.answer(asked, rows)

    def ask(self, tokens: Sequence[int], num_last: int) -> Asked:
        """What `logits` needs a forward for, as a part of a batch; `answer` takes its rows."""
        first = len(tokens) - num_last
        known = self._known_row(tokens, first)
        if known is None:
            self._roll_back(min(common_length(self._cached, tokens), first - 1))
        new = tuple(tokens[len(self._cached) :])
        return Asked(known, num_last, Chunk(self._session, new) if new else None)

    def answer(self, asked: Asked, rows: Array) -> Array:
        """The rows (num_last + 1, V) asked for, from those of the chunk if there is one."""
        if asked.chunk is None:
            return asked.known[None]
        self._cached += tuple(asked.chunk.token_ids)
        self._last_row = rows[-1]
        return rows[-asked.num_last - 1 :] if asked.known is None else torch.cat((asked.known[None], rows))

    def _known_row(self, tokens: Sequence[int], first: int) -> Array:
        """The row that predicts position `first`, where it needs no forward; the cache then ends there."""
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
    """What the model predicts after each text (V,), on a sequence of its own: all in one forward."""
    asked = [one.ask(text, 0) for one, text in zip(sequences, texts, strict=True)]
    chunks = [one.chunk for one in asked if one.chunk is not None]
    new = iter(model.forward_together(chunks, pause=pause) if chunks else [])
    return [
        sequence.answer(one, None if one.chunk is None else next(new))[0]
        for sequence, one in zip(sequences, asked, strict=True)
    ]
