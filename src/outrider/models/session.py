# SPDX-License-Identifier: Apache-2.0
"""Model and sessions behind `core.ports`: embeds prompts as rows and turns rows into logits."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from itertools import pairwise
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from outrider.core.ports import (
    Chunk,
    ExitInfo,
    ExitReader,
    ModelSession,
    OnExit,
    Pause,
    finish,
    reader_of,
)
from outrider.core.values import Prompt, Successors
from outrider.models.backbone.attention import Segment
from outrider.models.backbone.batch import Appended, next_span, run_together
from outrider.models.backbone.cuda_graph_steps import BLOCK_SEQUENCES, StepCache, run_stepped
from outrider.models.backbone.early_exits import ExitHeads
from outrider.models.backbone.kv_cache import CachePool, CacheShape, StaticCache
from outrider.models.backbone.mrope import text_positions
from outrider.models.backbone.out_of_memory import reporting_out_of_memory
from outrider.models.backbone.text_stack import TextShape, TextStack
from outrider.models.checkpoint.card import ModelCard
from outrider.models.inputs.vision import VisionEncoder
from outrider.models.text.prompt_layout import PromptLayout, lay_out_parts, require_room
from outrider.models.text.tokenizer import QwenTokenizer

PREFILL_ROWS = 128
"""A prompt runs in equal parts of at most this many rows; other sessions may run between them."""


class QwenModel:
    """Implements `core.ports.LanguageModel`: weights that any number of sessions share."""

    shares_prompts = True

    def __init__(
        self,
        name: str,
        tokenizer: QwenTokenizer,
        text: TextStack,
        vision: VisionEncoder | None,
        max_length: int,
        card: ModelCard,
        exit_heads: ExitHeads | None = None,
        sessions: int = 1,
        static_steps: bool = False,
    ) -> None:
        """Caches are allocated for up to `sessions` sessions at a time.

        `static_steps`: what follows a prompt runs in steps of static shape, for a GPU.
        """
        self.name = name
        self.tokenizer = tokenizer
        self.vocab_size = tokenizer.vocab_size
        self.end_ids = tokenizer.end_ids
        self.max_length = max_length
        self.card = card
        self.text = text
        self.vision = vision
        self.exit_heads = exit_heads
        cache, block_size = plan_caches(text.shape, max_length, sessions, static_steps)
        self._prompted: WeakValueDictionary[Prompt, QwenSession] = WeakValueDictionary()
        self._pool = CachePool(cache, text.cache_dtype, block_size, text.embeddings.device)
        self._steps = StepCache(text, exit_heads) if static_steps else None
        if self._steps is not None:
            self._steps.prepare(self._pool.take())

    def session_after(self, prompt: Prompt) -> QwenSession | None:
        """Return a session whose cache begins with exactly this prompt, if there is one."""
        session = self._prompted.get(prompt)
        return session if session is not None and session.prompt == prompt else None

    def note_prompt(self, prompt: Prompt, session: QwenSession) -> None:
        """Register a session whose cache begins with this prompt, so that others can copy it."""
        if self.session_after(prompt) is None:
            self._prompted[prompt] = session

    @property
    def exits(self) -> ExitInfo | None:
        """The early exits; None for a model without exit heads."""
        return None if self.exit_heads is None else self.exit_heads.info

    def with_exits(self, indices: Sequence[int]) -> QwenModel:
        """Return the same weights with only these of its exits, which must exist."""
        assert self.exit_heads is not None
        heads = self.exit_heads.only(indices)
        return QwenModel(self.name, self.tokenizer, self.text, self.vision, self.max_length, self.card, heads)

    def open_session(self) -> QwenSession:
        """Return a new session with an empty cache. Raises OutOfMemoryError."""
        return QwenSession(self, self._pool.take())

    @torch.inference_mode()
    def forward_together(
        self, chunks: Sequence[Chunk], read: ExitReader | None = None, pause: Pause | None = None
    ) -> list[Tensor]:
        """Run the chunks in one pass; see `core.ports.LanguageModel`.

        Raises ConfigError if a text outgrows its cache, and OutOfMemoryError; no session changes then.
        """
        sessions = [_own(chunk.session, self) for chunk in chunks]
        if len(set(map(id, sessions))) < len(sessions):
            raise ValueError("a batch takes one chunk of a session")
        texts = [session.appended(chunk) for session, chunk in zip(sessions, chunks, strict=True)]
        read = None if self.exit_heads is None else read
        with reporting_out_of_memory("run a forward", "wait, or lower max_sessions or max_length"):
            if self._steps is not None:
                logits = run_stepped(self._steps, texts, read, pause)
            else:
                logits = run_together(self.text, self.exit_heads, texts, read, pause)
        for session, chunk in zip(sessions, chunks, strict=True):
            session.grow(len(chunk.token_ids))
        return logits


class QwenSession:
    """Implements `core.ports.ModelSession` over one static cache."""

    def __init__(self, model: QwenModel, cache: StaticCache) -> None:
        self._model = model
        self._cache = cache
        self._length = 0
        self._shortest = 0
        self._rope_delta = 0
        self._cached_head: tuple[int, ...] = ()
        self._prompt_length = 0
        self._prompt_hidden: Tensor | None = None
        self._prompt_row: Tensor | None = None
        self.prompt: Prompt | None = None

    @property
    def model(self) -> QwenModel:
        """The model of the session."""
        return self._model

    @property
    def length(self) -> int:
        """The number of tokens in the cache."""
        return self._length

    def prefill(self, prompt: Prompt) -> Tensor:
        """Replace the cache by the prompt; return the logits (V,) of the first new token."""
        return finish(self.prefill_parts(prompt))

    def prefill_parts(self, prompt: Prompt) -> Generator[None, None, Tensor]:
        """Run `prefill` in parts.

        Raises OutOfMemoryError, FrameError or ConfigError; the cache is empty then.
        """
        with reporting_out_of_memory("take in a prompt", "wait, or lower max_sessions or max_length"):
            return (yield from self._prefill_parts(prompt))

    @torch.inference_mode()
    def _prefill_parts(self, prompt: Prompt) -> Generator[None, None, Tensor]:
        """Encode the frame in parts, then run up to PREFILL_ROWS rows at a time.

        The part before the image runs separately and is kept while prompts share it, so a prompt's logits
        have the same bits whether or not its head was cached. A prompt that another session has is copied.
        """
        self.prompt, twin = None, self._model.session_after(prompt)
        if twin is not None and twin is not self:
            return self._copy_prompt(prompt, twin)
        self._length = self._shortest = 0
        layout = yield from lay_out_parts(self._model, prompt)
        head, cached = layout.token_ids[: layout.head_length], self._cached_head
        self._cached_head = ()
        yield
        if head and head != cached:
            yield from self._run_prompt(layout, 0, layout.head_length)
        hidden = yield from self._run_prompt(layout, layout.head_length, layout.length)
        self._cached_head = head
        self._length = layout.length
        self._shortest = layout.image_end
        self._rope_delta = layout.rope_delta
        self._prompt_hidden = hidden[layout.image_end - layout.head_length :]
        self._prompt_row = self._model.text.logits(hidden[-1:])[0]
        self._remember(prompt)
        return self._prompt_row

    @torch.inference_mode()
    def expected(self, count: int) -> Successors:
        """Return the `count` likeliest successors of each token after the image; none before a prefill.

        It costs one product with the LM head, as in a forward pass.
        """
        if self._prompt_hidden is None:
            return Successors()
        best = self._model.text.logits(self._prompt_hidden).softmax(-1).topk(count)
        return Successors(best.indices.tolist(), best.values.tolist())

    def forward(self, token_ids: Sequence[int], on_exit: OnExit | None = None) -> Tensor:
        """Append tokens; return their logits (M, V). Raises ConfigError if the text outgrows the cache."""
        return self._model.forward_together([Chunk(self, token_ids)], reader_of(on_exit))[0]

    @torch.inference_mode()
    def layer_outputs(self, token_ids: Sequence[int], layers: Collection[int]) -> Tensor:
        """Return outputs (L, M, hidden) of some layers, counted from 1, for tokens that are not kept."""
        start, count, text = self._length, len(token_ids), self._model.text
        require_room(start + count, self._model.max_length)
        outputs: list[Tensor] = []

        def keep(layer: int, hidden: Tensor, _: Tensor | None = None) -> None:
            if layer in layers:
                outputs.append(hidden)

        runs = text.runs([Segment(self._cache, start, 0, count, start + count, count)], count)
        positions = text_positions(start + self._rope_delta, count)
        keep(text.shape.num_layers, text.forward(text.embed(token_ids), positions, runs, keep))
        return torch.stack(outputs)

    def appended(self, chunk: Chunk) -> Appended:
        """Return a chunk of this session as rows for a batch. Raises ConfigError."""
        require_room(self._length + len(chunk.token_ids), self._model.max_length)
        return Appended(chunk.token_ids, self._cache, self._length, self._rope_delta)

    def grow(self, count: int) -> None:
        """Add `count`, the tokens that a batch has put into the cache, to the length."""
        self._length += count

    def truncate(self, length: int) -> None:
        """Drop everything beyond `length` tokens.

        Raises ValueError for a length above the current one, or one that cuts into the prompt's image.
        """
        if not self._shortest <= length <= self._length:
            raise ValueError(f"cannot truncate {self._length} tokens to {length}; at least {self._shortest}")
        self._length = length
        if length < self._prompt_length:
            self.prompt = None

    def _remember(self, prompt: Prompt) -> None:
        self.prompt, self._prompt_length = prompt, self._length
        self._model.note_prompt(prompt, self)

    @torch.inference_mode()
    def copy_from(self, other: ModelSession, start: int, length: int) -> None:
        """Take over the first `length` tokens of another session; see `core.ports.SharingSession`."""
        twin = _own(other, self._model)
        self._cache.copy_from(twin._cache, start, length)
        if start == 0:
            self._shortest, self._prompt_length = twin._shortest, twin._prompt_length
            self._rope_delta, self._cached_head = twin._rope_delta, twin._cached_head
            self._prompt_hidden, self._prompt_row = twin._prompt_hidden, twin._prompt_row
            self.prompt = twin.prompt
        self._length = length

    def _copy_prompt(self, prompt: Prompt, twin: QwenSession) -> Tensor:
        """Copy everything that the twin's prefill has left; return its row."""
        assert twin._prompt_row is not None
        self.copy_from(twin, 0, twin._prompt_length)
        self._remember(prompt)
        return twin._prompt_row

    def _run_prompt(self, layout: PromptLayout, start: int, end: int) -> Generator[None, None, Tensor]:
        """Run the prompt's rows start..end; return the last layer's output (end - start, hidden)."""
        text, parts = self._model.text, []
        hidden = text.embed(layout.token_ids[start:end])
        features = layout.features if start == layout.head_length else None
        if features is not None:
            hidden[: len(features.tokens)] = features.tokens
        deep = () if features is None else features.deep
        num_parts = -(-(end - start) // PREFILL_ROWS)
        ends = [start + (end - start) * part // num_parts for part in range(num_parts + 1)]
        for begin, stop in pairwise(ends):
            count = stop - begin
            runs = text.runs([Segment(self._cache, begin, 0, count, stop, count)], count)
            rows = hidden[begin - start : stop - start]
            added = [one[begin - start : stop - start] for one in deep]
            parts.append(text.forward(rows, layout.positions[:, begin:stop], runs, deep=added))
            if stop < end:
                yield
        return torch.cat(parts)


def plan_caches(
    shape: TextShape, max_length: int, sessions: int, static_steps: bool
) -> tuple[CacheShape, int]:
    """Return the shape of one sequence's cache, and for how many sequences a block is allocated at a time."""
    num_slots = next_span(max_length) if static_steps else next_span(max_length - 1)
    block_size = min(sessions, BLOCK_SEQUENCES) if static_steps else sessions
    return CacheShape(shape.num_layers, num_slots, shape.num_kv_heads, shape.head_dim), block_size


def _own(session: ModelSession, model: QwenModel) -> QwenSession:
    if not isinstance(session, QwenSession) or session.model is not model:
        raise ValueError("a batch takes sessions of one model")
    return session
