"""One sequence's forwards over static buffers, cut at the exits: what a GPU replays as CUDA graphs.

A step is a forward of DECODE_ROWS rows at one span. Its inputs are a few numbers in one buffer, so that a
step costs the host one copy and a launch for each segment. Hints leave in mid-forward: all segments are in
the queue before the host waits for the first exit. On a CPU the same segments run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from outrider.models.cache import CacheBlock
from outrider.models.exits import ExitHeads
from outrider.models.text_stack import LayerWeights, TextStack, rotate, transform

Heard = Callable[[int, Tensor], None]
"""Called with an exit's index and its logits (rows, S) on the host."""


@dataclass(frozen=True)
class StepInput:
    """Up to `num_rows` tokens of the sequence `index` of a block, from slot `start` and `position` on."""

    token_ids: Sequence[int]
    index: int
    start: int
    position: int

    def numbers(self, num_rows: int, num_slots: int) -> list[int]:
        """Of each row: token, rotary position, last slot it sees, slot of the block that it is written to;
        then the sequence. Spare rows repeat the last token, in its place.
        """
        places = [min(row, len(self.token_ids) - 1) for row in range(num_rows)]
        return [
            *(self.token_ids[place] for place in places),
            *(self.position + place for place in places),
            *(self.start + place for place in places),
            *(self.index * num_slots + self.start + place for place in places),
            self.index,
        ]


class Launcher(Protocol):
    """Runs the segments of a step; tells of each exit when its logits have come to the host."""

    def run(self, heard: Heard | None) -> None: ...


class SegmentedStep:
    """The segments of one span: layers up to each exit with its head, and the rest with the LM head."""

    def __init__(
        self, text: TextStack, heads: ExitHeads | None, block: CacheBlock, span: int, num_rows: int
    ) -> None:
        self._text, self._heads, self._block, self._span, self._num_rows = text, heads, block, span, num_rows
        device = text.embeddings.device
        on_gpu = device.type == "cuda"
        self._staged = torch.zeros(4 * num_rows + 1, dtype=torch.long, pin_memory=on_gpu)
        self._inputs = torch.zeros_like(self._staged, device=device)
        self._slots = torch.arange(span, device=device)
        self._launcher: Launcher | None = None
        self._hidden = self._mask = self._places = self._sequence = self._inputs
        self.exit_rows: list[Tensor] = []
        self.logits = self._inputs

    @torch.inference_mode()
    def run(self, given: StepInput, heard: Heard | None) -> Tensor:
        """Logits (M, V) of its M tokens, on the device."""
        count = len(given.token_ids)
        numbers = given.numbers(self._num_rows, self._block.keys[0].shape[1])
        self._staged.copy_(torch.tensor(numbers))
        self._inputs.copy_(self._staged, non_blocking=True)
        if self._launcher is None:
            on_gpu = self._inputs.is_cuda
            self._launcher = GraphLauncher(self) if on_gpu else DirectLauncher(self)
        self._launcher.run(None if heard is None else lambda index, rows: heard(index, rows[:count]))
        return self.logits[:count].clone()

    def segments(self) -> Iterator[Callable[[], None]]:
        """What is captured, in order; each leaves its results in tensors that the next reads."""
        self.exit_rows = []
        ends = [] if self._heads is None else list(self._heads.info.layers)
        for number, (first, last) in enumerate(zip([0, *ends], [*ends, len(self._text.layers)], strict=True)):
            yield partial(self._segment, first, last, number)

    def _segment(self, first: int, last: int, number: int) -> None:
        if first == 0:
            self._begin()
        for index in range(first, last):
            self._hidden = self._layer(index, self._hidden)
        if last == len(self._text.layers):
            self.logits = self._text.logits(self._hidden)
        elif self._heads is not None:
            del self.exit_rows[number:]
            self.exit_rows.append(self._heads.logits(number, self._hidden))

    def _begin(self) -> None:
        tokens, positions, visible, self._places = self._inputs[:-1].view(4, -1).unbind()
        self._sequence = self._inputs[-1:]
        self._hidden = self._text.embeddings.index_select(0, tokens).float()
        self._rotation = self._text.rotary.at(positions.expand(3, -1))
        group = self._text.shape.num_heads // self._text.shape.num_kv_heads
        unseen = (self._slots > visible.unsqueeze(1)).repeat(group, 1)
        mask = torch.zeros_like(unseen, dtype=self._text.cache_dtype)
        self._mask = mask.masked_fill_(unseen, -torch.inf)

    def _layer(self, index: int, hidden: Tensor) -> Tensor:
        layer, cached = self._text.layers[index], (self._block.keys[index], self._block.values[index])
        return transform(self._attend(layer, cached, hidden), layer)

    def _attend(self, layer: LayerWeights, cached: tuple[Tensor, Tensor], hidden: Tensor) -> Tensor:
        shape, count = self._text.shape, self._num_rows
        heads = layer.qkv.times(layer.input_norm(hidden), layer.qkv_bias).view(count, -1, shape.head_dim)
        turned = rotate(heads[:, : shape.num_heads + shape.num_kv_heads], self._rotation)
        queries, keys = turned.split([shape.num_heads, shape.num_kv_heads], dim=1)
        own = []
        for slots, new in zip(cached, (keys, heads[:, -shape.num_kv_heads :]), strict=True):
            slots.flatten(0, 1).index_copy_(0, self._places, new.to(slots.dtype))
            own.append(slots[:, : self._span].index_select(0, self._sequence).transpose(1, 2))
        grouped = queries.view(count, shape.num_kv_heads, -1, shape.head_dim).permute(1, 2, 0, 3)
        folded = grouped.reshape(1, shape.num_kv_heads, -1, shape.head_dim).to(own[0].dtype)
        mixed = F.scaled_dot_product_attention(folded, own[0], own[1], attn_mask=self._mask)
        flat = mixed.view(-1, count, shape.head_dim).transpose(0, 1).reshape(count, -1)
        return layer.attention_out.times(flat.to(hidden.dtype), hidden)


class DirectLauncher:
    """One segment after the other, each exit told as it comes."""

    def __init__(self, step: SegmentedStep) -> None:
        self._step = step
        self._segments = list(step.segments())

    def run(self, heard: Heard | None) -> None:
        for number, segment in enumerate(self._segments):
            segment()
            if heard is not None and number < len(self._segments) - 1:
                heard(number, self._step.exit_rows[number])


class GraphLauncher:
    """Each segment a CUDA graph; exits are copied to pinned memory beside the segments that follow."""

    def __init__(self, step: SegmentedStep) -> None:
        self._graphs: list[torch.cuda.CUDAGraph] = []
        self._copies = torch.cuda.Stream()
        self._warm_up(step)
        pool = torch.cuda.graph_pool_handle()
        for segment in step.segments():
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                segment()
            self._graphs.append(graph)
        self._exits = list(step.exit_rows)
        self._pinned = [torch.empty_like(rows, device="cpu", pin_memory=True) for rows in self._exits]
        self._computed = [torch.cuda.Event() for _ in self._exits]
        self._copied = [torch.cuda.Event() for _ in self._exits]

    def run(self, heard: Heard | None) -> None:
        for number, graph in enumerate(self._graphs):
            graph.replay()
            if heard is not None and number < len(self._exits):
                self._copy(number)
        if heard is not None:
            for number, event in enumerate(self._copied):
                event.synchronize()
                heard(number, self._pinned[number].clone())

    def _copy(self, number: int) -> None:
        self._computed[number].record()
        self._copies.wait_event(self._computed[number])
        with torch.cuda.stream(self._copies):
            self._pinned[number].copy_(self._exits[number], non_blocking=True)
            self._copied[number].record()

    @staticmethod
    def _warm_up(step: SegmentedStep) -> None:
        """Libraries allocate on their first calls, which no capture may hold."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                for segment in step.segments():
                    segment()
        torch.cuda.current_stream().wait_stream(side)


class StepCache:
    """The steps of a model, one for each block of its caches and each span, made when first needed."""

    def __init__(self, text: TextStack, heads: ExitHeads | None, num_rows: int) -> None:
        self._text, self._heads, self._num_rows = text, heads, num_rows
        self._steps: dict[tuple[int, int], SegmentedStep] = {}

    def step(self, block: CacheBlock, span: int) -> SegmentedStep:
        key = id(block), span
        if key not in self._steps:
            self._steps[key] = SegmentedStep(self._text, self._heads, block, span, self._num_rows)
        return self._steps[key]
