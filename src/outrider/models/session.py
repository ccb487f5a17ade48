"""Model and sessions behind `core.ports`: prompts become embedded rows, rows become logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from outrider.core.errors import ConfigError, FrameError
from outrider.core.ports import ExitInfo, OnExit
from outrider.core.values import Prompt, Successors
from outrider.models.cache import StaticCache, allocate_cache
from outrider.models.card import ModelCard
from outrider.models.exits import ExitHeads, ExitTap
from outrider.models.positions import prompt_positions, text_positions
from outrider.models.text_stack import TextStack
from outrider.models.tokenizer import IMAGE_TOKEN, QwenTokenizer
from outrider.models.vision import VisionEncoder

DECODE_ROWS = 8
"""Every forward after the prompt runs this many rows, so that one token and a whole draft give equal bits."""
SPAN_STEP = 128
"""A token at slot j attends over the first multiple of this past j: equal bits again, and little to read."""


@dataclass(frozen=True)
class _PromptLayout:
    """A prompt as rows: ids and positions (3, L) with the image's tokens expanded, its features between."""

    token_ids: tuple[int, ...]
    positions: Tensor
    head_length: int
    features: Tensor | None

    @property
    def length(self) -> int:
        return len(self.token_ids)

    @property
    def image_end(self) -> int:
        return self.head_length + (0 if self.features is None else self.features.shape[0])

    @property
    def rope_delta(self) -> int:
        return int(self.positions.max()) + 1 - self.length


def next_span(slot: int) -> int:
    """How many slots a token at `slot` attends over."""
    return (slot // SPAN_STEP + 1) * SPAN_STEP


def decode_slices(start: int, count: int) -> list[tuple[int, int]]:
    """Cut tokens at slots start..start+count into forwards of one shape: few enough rows, all of one span."""
    slices, begin = [], 0
    while begin < count:
        until_next_span = next_span(start + begin) - (start + begin)
        end = min(count, begin + min(DECODE_ROWS, until_next_span))
        slices.append((begin, end))
        begin = end
    return slices


class QwenModel:
    """Implements `core.ports.LanguageModel`: weights that any number of sessions share."""

    def __init__(
        self,
        name: str,
        tokenizer: QwenTokenizer,
        text: TextStack,
        vision: VisionEncoder,
        max_length: int,
        card: ModelCard,
        exit_heads: ExitHeads | None = None,
    ) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.vocab_size = tokenizer.vocab_size
        self.eos_id = tokenizer.eos_id
        self.max_length = max_length
        self.card = card
        self.text = text
        self.vision = vision
        self.exit_heads = exit_heads

    @property
    def exits(self) -> ExitInfo | None:
        return None if self.exit_heads is None else self.exit_heads.info

    def with_exits(self, indices: Sequence[int]) -> QwenModel:
        """The same weights with only these of its exits, which must be there."""
        assert self.exit_heads is not None
        heads = self.exit_heads.only(indices)
        return QwenModel(self.name, self.tokenizer, self.text, self.vision, self.max_length, self.card, heads)

    def open_session(self) -> QwenSession:
        shape = self.text.shape
        num_slots = next_span(self.max_length - 1) + DECODE_ROWS
        cache = allocate_cache(
            shape.num_layers, shape.num_kv_heads, num_slots, shape.head_dim, self.text.cache_dtype
        )
        return QwenSession(self, cache)


class QwenSession:
    """Implements `core.ports.ModelSession` over one static cache."""

    def __init__(self, model: QwenModel, cache: StaticCache) -> None:
        self._model = model
        self._cache = cache
        self._length = 0
        self._shortest = 0
        self._rope_delta = 0
        self._cached_head: tuple[int, ...] = ()
        self._prompt_hidden: Tensor | None = None

    @property
    def length(self) -> int:
        return self._length

    @torch.inference_mode()
    def prefill(self, prompt: Prompt) -> Tensor:
        """The part before the image is run apart and kept while prompts share it: a prompt's logits are the
        same bits whether or not its head was in the cache already.
        """
        layout = _lay_out(self._model, prompt)
        head = layout.token_ids[: layout.head_length]
        if head and head != self._cached_head:
            self._run_prompt(layout, 0, layout.head_length)
        self._cached_head = head
        hidden = self._run_prompt(layout, layout.head_length, layout.length)
        self._length = layout.length
        self._shortest = layout.image_end
        self._rope_delta = layout.rope_delta
        self._prompt_hidden = hidden[layout.image_end - layout.head_length :]
        return self._model.text.logits(hidden[-1:])[0]

    @torch.inference_mode()
    def expected(self, count: int) -> Successors:
        """One product with the LM head over the prompt's rows past the image, at the cost of a forward's."""
        if self._prompt_hidden is None:
            return Successors()
        best = self._model.text.logits(self._prompt_hidden).softmax(-1).topk(count)
        return Successors(best.indices.tolist(), best.values.tolist())

    @torch.inference_mode()
    def forward(self, token_ids: Sequence[int], on_exit: OnExit | None = None) -> Tensor:
        """Raises ConfigError where the text outgrows the cache."""
        start, count = self._length, len(token_ids)
        _require_room(start + count, self._model.max_length)
        heads = self._model.exit_heads
        tap = None if heads is None or on_exit is None else ExitTap(heads, count, on_exit)
        parts = decode_slices(start, count)
        logits = torch.cat(
            [self._decode_rows(token_ids[begin:end], start + begin, tap) for begin, end in parts]
        )
        self._length = start + count
        return logits

    def truncate(self, length: int) -> None:
        """Raises ValueError for a length past the content, or one that cuts into the prompt's image."""
        if not self._shortest <= length <= self._length:
            raise ValueError(f"cannot truncate {self._length} tokens to {length}; at least {self._shortest}")
        self._length = length

    def _run_prompt(self, layout: _PromptLayout, start: int, end: int) -> Tensor:
        """Run the prompt's rows start..end and give the last layer's output (end - start, hidden)."""
        text = self._model.text
        hidden = text.embed(layout.token_ids[start:end])
        if layout.features is not None and start == layout.head_length:
            hidden[: layout.features.shape[0]] = layout.features
        return text.forward(hidden, layout.positions[:, start:end], self._cache, start, end)

    def _decode_rows(self, token_ids: Sequence[int], start: int, tap: ExitTap | None) -> Tensor:
        """Run up to DECODE_ROWS tokens from slot `start`. Spare rows repeat the last; no token sees them."""
        text, count = self._model.text, len(token_ids)
        padded = [*token_ids, *[token_ids[-1]] * (DECODE_ROWS - count)]
        positions = text_positions(start + self._rope_delta, DECODE_ROWS)
        after_layer = None if tap is None else partial(tap.hear, count=count)
        hidden = text.forward(
            text.embed(padded), positions, self._cache, start, next_span(start), after_layer
        )
        return text.logits(hidden)[:count]


def _lay_out(model: QwenModel, prompt: Prompt) -> _PromptLayout:
    """Raises FrameError for a bad JPEG, ConfigError for a prompt of a form or length that cannot be run."""
    image_id = model.tokenizer.image_id
    token_ids = tuple(model.tokenizer.encode(prompt.text))
    num_placeholders = token_ids.count(image_id)
    if not token_ids or num_placeholders > 1:
        raise ConfigError(f"a prompt needs text and at most one {IMAGE_TOKEN}, got {num_placeholders}")
    if num_placeholders == 0:
        _require_room(len(token_ids), model.max_length)
        return _PromptLayout(token_ids, prompt_positions(0, 0, 0, len(token_ids)), 0, None)
    if not prompt.jpeg:
        raise FrameError("the prompt asks for a frame but has none: wait for the camera's first frame")
    _require_room(len(token_ids) - 1 + model.vision.count_tokens(prompt.jpeg), model.max_length)
    image = model.vision.encode(prompt.jpeg)
    at = token_ids.index(image_id)
    expanded = token_ids[:at] + (image_id,) * (image.rows * image.columns) + token_ids[at + 1 :]
    positions = prompt_positions(at, image.rows, image.columns, len(token_ids) - at - 1)
    return _PromptLayout(expanded, positions, at, image.features)


def _require_room(num_tokens: int, max_length: int) -> None:
    if num_tokens > max_length:
        raise ConfigError(
            f"{num_tokens} tokens do not fit a cache of max_length {max_length}: shorten the instruction or "
            "the memories, send a smaller frame, or load the model with a larger max_length"
        )
