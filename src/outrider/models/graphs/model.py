"""A draft model on static graphs, behind `core.ports`."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from outrider.core.errors import ConfigError
from outrider.core.ports import Chunk, ExitReader, ModelSession, OnExit, Pause, finish
from outrider.core.values import Prompt, Successors
from outrider.models.card import ModelCard
from outrider.models.graphs.language import GraphLanguage
from outrider.models.layout import lay_out, require_room
from outrider.models.out_of_memory import telling_out_of_memory
from outrider.models.positions import text_positions
from outrider.models.tokenizer import QwenTokenizer
from outrider.models.vision import VisionEncoder


class GraphModel:
    """Implements `core.ports.LanguageModel`. Its graphs are one sequence's at a time: others wait."""

    exits = None
    shares_prompts = False

    def __init__(
        self,
        name: str,
        tokenizer: QwenTokenizer,
        language: GraphLanguage,
        vision: VisionEncoder,
        max_length: int,
        card: ModelCard,
    ) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.vocab_size = tokenizer.vocab_size
        self.eos_id = tokenizer.eos_id
        self.max_length = max_length
        self.card = card
        self.language = language
        self.vision = vision

    def open_session(self) -> GraphSession:
        """Raises OutOfMemoryError."""
        return GraphSession(self)

    def forward_together(
        self, chunks: Sequence[Chunk], read: ExitReader | None = None, pause: Pause | None = None
    ) -> list[Tensor]:
        """One after the other, with a pause between blocks; there are no exits to read.

        Raises ConfigError where a text outgrows its cache; then none has changed.
        """
        for chunk in chunks:
            require_room(chunk.session.length + len(chunk.token_ids), self.max_length)
        sessions = [_own(chunk.session) for chunk in chunks]
        rows = [
            session.rows_of(chunk.token_ids, pause) for session, chunk in zip(sessions, chunks, strict=True)
        ]
        for session, chunk in zip(sessions, chunks, strict=True):
            session.grow(len(chunk.token_ids))
        return rows


class GraphSession:
    """Implements `core.ports.ModelSession`."""

    def __init__(self, model: GraphModel) -> None:
        self._model = model
        with telling_out_of_memory("open another session", "close other programs, or lower max_length"):
            self._cache = model.language.open_cache()
        self._length = 0
        self._shortest = 0
        self._rope_delta = 0
        self._prompt_hidden: Tensor | None = None

    @property
    def length(self) -> int:
        return self._length

    def prefill(self, prompt: Prompt) -> Tensor:
        return finish(self.prefill_parts(prompt))

    @torch.inference_mode()
    def prefill_parts(self, prompt: Prompt) -> Generator[None, None, Tensor]:
        """The frame's encoding, then all rows: the graphs are switched meanwhile."""
        layout, language = lay_out(self._model, prompt), self._model.language
        self._length, self._shortest = 0, 0
        yield
        hidden = language.embed(layout.token_ids)
        if layout.features is not None:
            hidden[layout.head_length : layout.image_end] = layout.features
        rows = language.prefill(hidden, layout.positions, self._cache)
        self._length, self._shortest = layout.length, layout.image_end
        self._rope_delta = layout.rope_delta
        self._prompt_hidden = rows[layout.image_end :]
        return language.logits(rows[-1:])[0]

    @torch.inference_mode()
    def expected(self, count: int) -> Successors:
        if self._prompt_hidden is None:
            return Successors()
        best = self._model.language.logits(self._prompt_hidden).softmax(-1).topk(count)
        return Successors(best.indices.tolist(), best.values.tolist())

    def forward(self, token_ids: Sequence[int], on_exit: OnExit | None = None) -> Tensor:
        """There are no exits to call. Raises ConfigError where the text outgrows the cache."""
        return self._model.forward_together([Chunk(self, token_ids)])[0]

    @torch.inference_mode()
    def rows_of(self, token_ids: Sequence[int], pause: Pause | None) -> Tensor:
        """Logits (M, V) of tokens that `grow` makes part of the content."""
        language, count = self._model.language, len(token_ids)
        if not self._length:
            raise ConfigError("a draft on static graphs begins with a prompt")
        positions = text_positions(self._length + self._rope_delta, count)
        hidden = language.forward(language.embed(token_ids), positions, self._cache, self._length, pause)
        return language.logits(hidden)

    def grow(self, count: int) -> None:
        """As many more tokens are in the cache."""
        self._length += count

    def truncate(self, length: int) -> None:
        """Raises ValueError for a length past the content, or one that cuts into the prompt's image."""
        if not self._shortest <= length <= self._length:
            raise ValueError(f"cannot truncate {self._length} tokens to {length}; at least {self._shortest}")
        self._length = length


def _own(session: ModelSession) -> GraphSession:
    if not isinstance(session, GraphSession):
        raise ValueError("a batch takes sessions of one model")
    return session
