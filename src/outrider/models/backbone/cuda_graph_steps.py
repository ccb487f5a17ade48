# SPDX-License-Identifier: Apache-2.0
"""Forward passes of a block's sequences over static buffers, in segments that a GPU replays as CUDA graphs.

A step is a forward pass of all sequences of a block, with STEP_ROWS rows for each, whether or not it has
tokens in this step: reading the weights takes longer than these rows. All steps of a block and a span have
one shape, so a row has the same bits whatever its neighbours do. The inputs are a few numbers in one
buffer: a step costs the host one copy, and one launch per segment. Hints are given during the step. While
the host reads an exit, the device runs the next segments. Only as many are queued as keep it
busy, because queued segments run on even if the step is aborted. On a CPU the same segments run one after
the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from outrider.core.model_options import ROWS_OF_A_BATCH, ROWS_TOGETHER
from outrider.core.ports import ExitReader, Pause, Reading
from outrider.models.backbone.attention import fold, unfold
from outrider.models.backbone.batch import Appended, decode_slices, reader_of_slices
from outrider.models.backbone.early_exits import ExitHeads
from outrider.models.backbone.kv_cache import CacheBlock, StaticCache
from outrider.models.backbone.step_launchers import DirectLauncher, GraphLauncher, Launcher, OnExit
from outrider.models.backbone.text_stack import LayerWeights, TextShape, TextStack, project, transform

STEP_ROWS = ROWS_TOGETHER["cuda"]
"""A sequence's rows in a step: enough for its smallest share of a batch."""
BLOCK_SEQUENCES = ROWS_OF_A_BATCH["cuda"] // STEP_ROWS
"""The most sequences of a block: its rows take no longer than reading the weights."""
SHORTEST_SPAN = 1024
"""A token attends over this many slots, or the first doubling that reaches it, at most all slots."""

SEGMENTS_OF_LAYER = 2
"""One up to attention, and one from its output on."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StepTokens:
    """Up to STEP_ROWS tokens of a sequence, starting at slot `start` and at `position`."""

    token_ids: Sequence[int]
    start: int
    position: int


def step_span(slot: int, num_slots: int) -> int:
    """Return how many slots a token at `slot` attends over in a step."""
    span = SHORTEST_SPAN
    while span <= slot:
        span *= 2
    return min(span, num_slots)


def step_spans(num_slots: int) -> Iterator[int]:
    """Yield all spans over which a sequence's tokens attend."""
    span = 0
    while span < num_slots:
        span = step_span(span, num_slots)
        yield span


def step_numbers(tokens_of: Mapping[int, StepTokens], num_sequences: int, num_slots: int) -> list[list[int]]:
    """Return for each row of a step its token, rotary position, last visible slot, and slot in the block.

    Spare rows of a sequence repeat its last token in the same slot. A sequence without tokens writes to its
    last slot, which no text reaches.
    """
    rows = []
    for index in range(num_sequences):
        mine, first = tokens_of.get(index), index * num_slots
        for row in range(STEP_ROWS):
            if mine is None:
                rows.append((0, 0, 0, first + num_slots - 1))
                continue
            offset = min(row, len(mine.token_ids) - 1)
            slot = mine.start + offset
            rows.append((mine.token_ids[offset], mine.position + offset, slot, first + slot))
    return [list(column) for column in zip(*rows, strict=True)]


class SegmentedStep:
    """The segments of one span: two for each layer. The second includes the head of an exit after the
    layer, if any, and the last one the LM head.
    """

    def __init__(self, text: TextStack, heads: ExitHeads | None, block: CacheBlock, span: int) -> None:
        self._text, self._heads, self._block, self._span = text, heads, block, span
        self._num_sequences, self._num_slots = block.keys[0].shape[:2]
        device = text.embeddings.device
        self._inputs = torch.zeros(4, self._num_sequences * STEP_ROWS, dtype=torch.long, device=device)
        self._slots = torch.arange(span, device=device)
        self._launcher: Launcher | None = None
        self._project = Fused(project_folded) if device.type == "cuda" else project_folded
        self._join = Fused(join) if device.type == "cuda" else join
        self._hidden = self._mixed = self._mask = self._places = self._inputs
        layers = () if heads is None else heads.info.layers
        self.exit_after = {SEGMENTS_OF_LAYER * layer - 1: index for index, layer in enumerate(layers)}
        """Segment number to the index of the exit that ends it."""
        self.exit_rows: list[Tensor] = []
        self.logits = self._inputs

    @torch.inference_mode()
    def run(
        self, tokens_of: Mapping[int, StepTokens], on_exit: OnExit | None, pause: Pause | None = None
    ) -> Tensor:
        """Run a step; return logits (rows of the step, V) on the device, which the next step overwrites."""
        on_gpu, numbers = self._inputs.is_cuda, step_numbers(tokens_of, self._num_sequences, self._num_slots)
        # Streams, events and captures use the thread's current device, not that of the tensors.
        with torch.cuda.device(self._inputs.device) if on_gpu else nullcontext():
            self._inputs.copy_(torch.tensor(numbers, pin_memory=on_gpu), non_blocking=True)
            if self._launcher is None:
                self._launcher = GraphLauncher(self) if on_gpu else DirectLauncher(self)
            self._launcher.run(on_exit, pause)
        return self.logits

    def segments(self) -> Iterator[Callable[[], None]]:
        """Yield the segments to capture, in order; each leaves its results in tensors for the next."""
        self.exit_rows = []
        for layer in range(len(self._text.layers)):
            yield partial(self._attend, layer)
            yield partial(self._end_layer, layer)

    def _attend(self, index: int) -> None:
        """Write a layer's keys and values to the caches, then compute attention over them."""
        if index == 0:
            self._begin()
        layer, cached = self._text.layers[index], (self._block.keys[index], self._block.values[index])
        arguments = layer, self._hidden, self._rotation, self._text.shape, self._num_sequences
        queries, *new = self._project(*arguments)
        for slots, rows in zip(cached, new, strict=True):
            slots.flatten(0, 1).index_copy_(0, self._places, rows.to(slots.dtype))
        keys, values = (slots[:, : self._span].transpose(1, 2) for slots in cached)
        self._mixed = F.scaled_dot_product_attention(
            queries.to(keys.dtype), keys, values, attn_mask=self._mask
        )

    def _end_layer(self, index: int) -> None:
        """Compute a layer's output, and the logits of its exit or of the LM head."""
        self._hidden = self._join(self._text.layers[index], self._hidden, self._mixed)
        exit_index = self.exit_after.get(SEGMENTS_OF_LAYER * (index + 1) - 1)
        if index == len(self._text.layers) - 1:
            self.logits = self._text.logits(self._hidden)
        elif self._heads is not None and exit_index is not None:
            del self.exit_rows[exit_index:]
            unit = self._text.layers[index + 1].input_norm.unit(self._hidden)
            self.exit_rows.append(self._heads.logits(exit_index, unit))

    def _begin(self) -> None:
        tokens, positions, visible, self._places = self._inputs.unbind()
        self._hidden = self._text.embeddings.index_select(0, tokens).float()
        self._rotation = self._text.rotary.at(positions.expand(3, -1))
        group = self._text.shape.num_heads // self._text.shape.num_kv_heads
        unseen = self._slots > visible.view(self._num_sequences, 1, STEP_ROWS, 1)
        mask = torch.zeros_like(unseen, dtype=self._text.cache_dtype)
        self._mask = mask.masked_fill_(unseen, -torch.inf).repeat(1, 1, group, 1)


def project_folded(
    layer: LayerWeights, hidden: Tensor, rotation: tuple[Tensor, Tensor], shape: TextShape, num_sequences: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return folded queries, and keys and values (R, kv_heads, dim), of hidden rows (R, width)."""
    queries, keys, values = project(layer.input_norm(hidden), layer, rotation, shape)
    return fold(queries, num_sequences, shape.num_kv_heads), keys, values


def join(layer: LayerWeights, hidden: Tensor, mixed: Tensor) -> Tensor:
    """Return the layer's output (R, width) from the result of attention."""
    read = unfold(mixed, STEP_ROWS).to(hidden.dtype)
    return transform(layer.attention_out.times(read, hidden), layer)


class Fused:
    """A function compiled by torch.compile: one kernel for all operations between a layer's products.

    One compilation serves all layers. If it fails, the plain function runs from then on.
    """

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self._function = function
        self._run = torch.compile(function, dynamic=False, **options)

    def __call__(self, *args: Any) -> Any:
        if self._run is not self._function:
            try:
                return self._run(*args)
            except Exception as error:
                reason = " ".join(str(error).split())[:200] or type(error).__name__
                _log.warning("a target's layers run unfused, for torch.compile failed: %s", reason)
                self._run = self._function
        return self._function(*args)


class StepCache:
    """The steps of a model, one for each block of its caches and each span, created on first use."""

    def __init__(self, text: TextStack, heads: ExitHeads | None) -> None:
        self._text, self._heads = text, heads
        self._steps: dict[tuple[int, int], SegmentedStep] = {}

    def prepare(self, cache: StaticCache) -> None:
        """Compile and capture all steps of a block, whose sequences must still be empty."""
        for span in step_spans(cache.block.keys[0].shape[1]):
            self.step(cache.block, span).run({cache.index: StepTokens([0], 0, 0)}, None)

    def step(self, block: CacheBlock, span: int) -> SegmentedStep:
        """Return the step for a block of caches and a span, created on the first call."""
        key = id(block), span
        if key not in self._steps:
            self._steps[key] = SegmentedStep(self._text, self._heads, block, span)
        return self._steps[key]


@dataclass(frozen=True)
class _Part:
    """Rows of one text in one step: the text's number, its sequence in the block, and its tokens."""

    number: int
    index: int
    tokens: StepTokens


def run_stepped(
    steps: StepCache, texts: Sequence[Appended], read: ExitReader | None, pause: Pause | None = None
) -> list[Tensor]:
    """Return logits (M, V) of each text's M tokens, in as few steps as the longest text needs."""
    rows: list[list[Tensor]] = [[] for _ in texts]
    forwards = list(zip_longest(*(_slices(text) for text in texts)))
    read = reader_of_slices(read, texts, len(forwards))
    for slices in forwards:
        rounds: dict[tuple[int, int], tuple[CacheBlock, list[_Part]]] = {}
        for number, part in enumerate(slices):
            if part is not None:
                block = texts[number].cache.block
                span = step_span(part.start, _num_slots(texts[number]))
                mine = _Part(number, texts[number].cache.index, part)
                rounds.setdefault((id(block), span), (block, []))[1].append(mine)
        for (_, span), (block, parts) in rounds.items():
            for part, logits in zip(parts, _run(steps.step(block, span), parts, read, pause), strict=True):
                rows[part.number].append(logits)
    return [torch.cat(parts) for parts in rows]


def _run(
    step: SegmentedStep, parts: Sequence[_Part], read: ExitReader | None, pause: Pause | None
) -> list[Tensor]:
    """Run one step; return copies of the logits that are kept."""

    def on_exit(index: int, logits: Tensor) -> Reading | None:
        assert read is not None
        return read(index, [(part.number, _rows(logits, part)) for part in parts])

    tokens_of = {part.index: part.tokens for part in parts}
    logits = step.run(tokens_of, None if read is None else on_exit, pause)
    return list(
        torch.cat([_rows(logits, part) for part in parts]).split(
            [len(part.tokens.token_ids) for part in parts]
        )
    )


def _rows(logits: Tensor, part: _Part) -> Tensor:
    first = part.index * STEP_ROWS
    return logits[first : first + len(part.tokens.token_ids)]


def _slices(text: Appended) -> list[StepTokens]:
    """Cut a text where a sequence's rows or a span end."""
    num_slots = _num_slots(text)
    cuts = decode_slices(text.start, len(text.token_ids), STEP_ROWS, partial(step_span, num_slots=num_slots))
    position = text.start + text.rope_delta
    return [
        StepTokens(text.token_ids[begin:end], text.start + begin, position + begin) for begin, end in cuts
    ]


def _num_slots(text: Appended) -> int:
    return text.cache.block.keys[0].shape[1]
