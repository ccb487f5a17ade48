# SPDX-License-Identifier: Apache-2.0
"""A model that runs once per text and is then replayed, to compare strategies on the same model."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from copy import copy

import torch

from outrider.core.ports import (
    Array,
    ExitInfo,
    LanguageModel,
    ModelSession,
    OnExit,
    SharingSession,
    Tokenizer,
)
from outrider.core.values import Prompt, Successors
from outrider.decoding.fakes.unbatched import UnbatchedModel
from outrider.decoding.protocol.prefix_digest import common_length

_Text = tuple[Prompt, tuple[int, ...]]


class _Runner:
    """The recorded logits after each text: the model's row (V,) and the rows of its exits (E, S).

    One session of the model serves all replaying sessions.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.rows: dict[_Text, Array] = {}
        self.exit_rows: dict[_Text, Array] = {}
        self.prompt_lengths: dict[Prompt, int] = {}
        self.has_exits = model.exits is not None
        self._expected: dict[tuple[Prompt, int], Successors] = {}
        self._session = model.open_session()
        self._prompt: Prompt | None = None
        self._tokens: tuple[int, ...] = ()

    def prefill(self, prompt: Prompt) -> None:
        """Record the row after a prompt, and the prompt's length."""
        row = self._session.prefill(prompt)
        self._prompt, self._tokens = prompt, ()
        self.prompt_lengths[prompt] = self._session.length
        self.rows.setdefault((prompt, ()), row)

    def expected(self, prompt: Prompt, count: int) -> Successors:
        """Return `ModelSession.expected` of a prompt."""
        if (prompt, count) not in self._expected:
            if self._prompt != prompt:
                self.prefill(prompt)
            self._expected[prompt, count] = self._session.expected(count)
        return self._expected[prompt, count]

    def run(self, prompt: Prompt, text: tuple[int, ...], num_last: int) -> None:
        """Run the model over at least the last `num_last` tokens of a text, and record new rows."""
        if self._prompt != prompt:
            self.prefill(prompt)
        known = min(common_length(self._tokens, text), len(text) - num_last)
        self._session.truncate(self.prompt_lengths[prompt] + known)
        exits: list[Array] = []
        rows = self._session.forward(text[known:], lambda _, exit_rows: exits.append(exit_rows))
        self._tokens = text
        for index, end in enumerate(range(known + 1, len(text) + 1)):
            key = (prompt, text[:end])
            if key not in self.rows:
                self.rows[key] = rows[index].clone()
                self.exit_rows[key] = torch.stack([e[index] for e in exits]) if exits else rows[:0]


class ReplayModel(UnbatchedModel):
    """A LanguageModel that replays the rows of another.

    The same text gives bit for bit the same row, however it was divided into forward passes. A prefill has
    `prompt_parts` parts, as if each took time.
    """

    shares_prompts = True

    def __init__(self, model: LanguageModel, prompt_parts: int = 1) -> None:
        self._model = model
        self._prompt_parts = prompt_parts
        self._runner = _Runner(model)
        self.name = model.name
        self.vocab_size = model.vocab_size
        self.end_ids = model.end_ids
        self.max_length = model.max_length
        self.has_exits = True

    def without_exits(self) -> ReplayModel:
        """Return the same model with the same recorded rows, but without exits."""
        bare = copy(self)
        bare.has_exits = False
        return bare

    @property
    def exits(self) -> ExitInfo | None:
        """The early exits of the replayed model; None if they are switched off."""
        return self._model.exits if self.has_exits else None

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the replayed model."""
        return self._model.tokenizer

    def open_session(self) -> ReplaySession:
        """Return a new session with an empty cache."""
        return ReplaySession(self._runner, self._prompt_parts, self.has_exits)


class ReplaySession(SharingSession):
    """A session that runs the model only on texts not seen before."""

    def __init__(self, runner: _Runner, prompt_parts: int, has_exits: bool) -> None:
        self._runner = runner
        self._prompt_parts = prompt_parts
        self._has_exits = has_exits and runner.has_exits
        self._prompt = Prompt("", b"")
        self._tokens: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        return self._runner.prompt_lengths.get(self._prompt, 0) + len(self._tokens)

    def prefill(self, prompt: Prompt) -> Array:
        if prompt not in self._runner.prompt_lengths:
            self._runner.prefill(prompt)
        self._prompt, self._tokens = prompt, ()
        return self._runner.rows[prompt, ()]

    def prefill_parts(self, prompt: Prompt) -> Generator[None, None, Array]:
        """Run `prefill` in the configured number of parts."""
        for _ in range(self._prompt_parts - 1):
            yield
        return self.prefill(prompt)

    def expected(self, count: int) -> Successors:
        return self._runner.expected(self._prompt, count)

    def forward(self, token_ids: Sequence[int], on_exit: OnExit | None = None) -> Array:
        """Append tokens; return their logits (M, V). The model runs only for texts not seen before."""
        text = (*self._tokens, *token_ids)
        texts = [(self._prompt, text[:end]) for end in range(len(self._tokens) + 1, len(text) + 1)]
        if any(key not in self._runner.rows for key in texts):
            self._runner.run(self._prompt, text, len(token_ids))
        if on_exit is not None and self._has_exits:
            stacked = torch.stack([self._runner.exit_rows[key] for key in texts], dim=1)
            for exit_index, rows in enumerate(stacked):
                on_exit(exit_index, rows)
        self._tokens = text
        return torch.stack([self._runner.rows[key] for key in texts])

    def copy_from(self, other: ModelSession, start: int, length: int) -> None:
        assert isinstance(other, ReplaySession)
        self._prompt = other._prompt
        self._tokens = other._tokens[: length - self._runner.prompt_lengths[self._prompt]]

    def truncate(self, length: int) -> None:
        self._tokens = self._tokens[: length - self._runner.prompt_lengths[self._prompt]]
