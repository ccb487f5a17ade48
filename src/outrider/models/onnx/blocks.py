# SPDX-License-Identifier: Apache-2.0
"""A model's blocks, each with one graph in memory, switched while a prompt is computed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from outrider.core.ports import Pause
from outrider.models.onnx.export import HIDDEN_SCORE
from outrider.models.onnx.providers import Provider, open_graph, run_graph
from outrider.models.onnx.schedule import Profile, plan_switch, prefers_decode

Phase = Literal["prefill", "decode"]
Floats = NDArray[np.float32]
Slots = NDArray[np.int64]
HEAD_FILE = "head.onnx"


@dataclass(frozen=True)
class GraphSizes:
    """The sizes for which a folder's graphs were made; `layers` of each block, in order.

    The first `deep_layers` layers of all take a picture's deep features.
    """

    layers: tuple[int, ...]
    prefill_rows: int
    decode_rows: int
    deep_layers: int = 0

    def rows(self, phase: Phase) -> int:
        """Return the number of rows that a graph of this phase takes."""
        return self.prefill_rows if phase == "prefill" else self.decode_rows

    def deep_in(self, index: int) -> int:
        """Return how many layers of a block take deep features; these are its first ones."""
        before = sum(self.layers[:index])
        return min(max(self.deep_layers - before, 0), self.layers[index])


@dataclass(frozen=True, eq=False)
class Strand:
    """Rows `begin` to before `end` follow each other in one text; `seen` (N,) are the slots before them."""

    begin: int
    end: int
    seen: Slots


@dataclass(frozen=True, eq=False)
class Rows:
    """Embedded tokens (M, H) with their rotation (M, 1, D), for cache `slots` (M,).

    Each row sees the rows before it in its strand, and the slots that the strand sees. `deep` (M, H) is
    added after each of the first layers; empty if nothing is added.
    """

    hidden: Floats
    cos: Floats
    sin: Floats
    slots: Slots
    strands: tuple[Strand, ...]
    deep: tuple[Floats, ...] = ()

    def masks(self, begin: int, end: int, num_rows: int, num_slots: int) -> tuple[Floats, Floats]:
        """Return the masks of rows `begin` to before `end` when they run together, padded to `num_rows`.

        One is for the slots that are filled by then (num_rows, num_slots), one for the rows themselves
        (num_rows, num_rows). Padding sees nothing.
        """
        past = np.full((num_rows, num_slots), HIDDEN_SCORE, dtype=np.float32)
        own = np.full((num_rows, num_rows), HIDDEN_SCORE, dtype=np.float32)
        for strand in self.strands:
            first, last = max(begin, strand.begin), min(end, strand.end)
            if first >= last:
                continue
            here = slice(first - begin, last - begin)
            past[here, strand.seen] = 0.0
            past[here, self.slots[strand.begin : first]] = 0.0
            own[here, here] = np.triu(own[here, here], k=1)
        return past, own

    def added(self, layer: int, here: slice) -> Floats:
        """Return what is added to some rows after a layer, counted from 0."""
        return self.deep[layer][here] if self.deep else np.zeros_like(self.hidden[here])


@dataclass(frozen=True, eq=False)
class GraphCache:
    """Keys and values (layers, kv_heads, slots, head_dim)."""

    keys: Floats
    values: Floats


@dataclass
class LoadTimes:
    """Seconds spent loading graphs since the start, and seconds for which a computation waited."""

    loaded_s: float = 0.0
    waited_s: float = 0.0


@dataclass
class _Block:
    """A block and its graph; `session` is None while another graph is loaded in its place."""

    session: Any = None
    phase: Phase = "prefill"
    coming: Future[None] | None = field(default=None, repr=False)


class GraphBlocks:
    """Runs the blocks of a folder. One thread at a time computes; graphs are loaded in another thread."""

    def __init__(self, folder: Path, sizes: GraphSizes, provider: Provider, threads: int) -> None:
        self.times = LoadTimes()
        self._folder = folder
        self.sizes = sizes
        self._provider = provider
        self._threads = threads
        self._blocks = [_Block() for _ in sizes.layers]
        self._first_layer = np.cumsum([0, *sizes.layers]).tolist()
        self._head = open_graph(folder / HEAD_FILE, provider, threads)
        self._loader = ThreadPoolExecutor(1, "graphs")
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """The number of blocks."""
        return len(self._blocks)

    def settle(self, phase: Phase) -> None:
        """Load every block's graph of this phase, and wait for all of them."""
        for index in range(len(self._blocks)):
            self._begin_load(index, phase)
        for index in range(len(self._blocks)):
            self._wait(index)

    def prefill(self, rows: Rows, cache: GraphCache, profile: Profile, switch: bool = True) -> Floats:
        """Run a prompt's rows in chunks; return the last layer's output (M, H).

        Set `switch` unless more of the prompt follows: decode graphs are then loaded during the
        computation.
        """
        with self._lock:
            chunks = list(_cuts(len(rows.hidden), self.sizes.prefill_rows))
            loads = self._prepare(profile, len(chunks)) if switch else {}
            running = _copied(rows)
            for step in range(len(chunks) * len(self._blocks)):
                chunk, index = divmod(step, len(self._blocks))
                if step in loads:
                    self._begin_load(loads[step], "decode")
                self._advance(index, running, *chunks[chunk], cache)
            if switch:
                self.settle("decode")
            return running.hidden

    def decode(self, rows: Rows, cache: GraphCache, pause: Pause | None = None) -> Floats:
        """Run a forward pass's rows, with a `pause` between blocks; return the last layer's output (M, H)."""
        with self._lock:
            running = _copied(rows)
            for index in range(len(self._blocks)):
                if pause is not None and index:
                    pause()
                self._advance(index, running, 0, len(rows.hidden), cache)
            return running.hidden

    def logits(self, hidden: Floats) -> Floats:
        """Return logits (M, V) of the last layer's output (M, H)."""
        count = self.sizes.decode_rows
        parts = []
        for begin, end in _cuts(len(hidden), count):
            padded = _padded(hidden[begin:end], count)
            parts.append(run_graph(self._head, {"hidden": padded})[0][: end - begin])
        return np.concatenate(parts)

    def measure(self, index: int, phase: Phase, cache: GraphCache, rows: Rows) -> tuple[float, float]:
        """Return the seconds to load a block's graph, and to run a chunk with it;
        other blocks drop their graphs.
        """
        for block in self._blocks:
            block.session = None
        began_s = time.monotonic()
        self._begin_load(index, phase)
        self._wait(index)
        loaded_s = time.monotonic()
        self._advance(index, _copied(rows), 0, len(rows.hidden), cache)
        return loaded_s - began_s, time.monotonic() - loaded_s

    def _prepare(self, profile: Profile, num_chunks: int) -> dict[int, int]:
        """Return which block's decode graph to load at which step;
        start loading prefill graphs if that pays.
        """
        if all(block.phase == "decode" for block in self._blocks):
            if prefers_decode(profile, num_chunks):
                return {}
            for index in range(len(self._blocks)):
                self._begin_load(index, "prefill")
        return {load.first: load.block for load in plan_switch(profile, num_chunks)}

    def _begin_load(self, index: int, phase: Phase) -> None:
        """Drop the block's graph, then load another in the background, unless it is loaded or loading."""
        block = self._blocks[index]
        if block.phase == phase and (block.session is not None or block.coming is not None):
            return
        self._wait(index)
        block.phase = phase
        block.coming = self._loader.submit(self._load, block, self._folder / graph_file(index, phase))

    def _load(self, block: _Block, path: Path) -> None:
        began_s = time.monotonic()
        block.session = None
        block.session = open_graph(path, self._provider, self._threads)
        self.times.loaded_s += time.monotonic() - began_s

    def _wait(self, index: int) -> None:
        block = self._blocks[index]
        if block.coming is None:
            return
        began_s = time.monotonic()
        coming, block.coming = block.coming, None
        try:
            coming.result()
        except BaseException:
            self._end_loads()
            raise
        self.times.waited_s += time.monotonic() - began_s

    def _end_loads(self) -> None:
        """After a failed load, wait for the others and discard their errors."""
        for block in self._blocks:
            coming, block.coming = block.coming, None
            if coming is not None:
                coming.exception()

    def _advance(self, index: int, rows: Rows, begin: int, end: int, cache: GraphCache) -> None:
        """Run rows through a block on the graph it has;
        a smaller graph runs several forward passes instead.
        """
        if self._blocks[index].session is None and self._blocks[index].coming is None:
            self._begin_load(index, self._blocks[index].phase)  # an earlier load failed
        self._wait(index)
        count = self.sizes.rows(self._blocks[index].phase)
        for first, last in _cuts(end - begin, count):
            self._run(index, rows, begin + first, begin + last, count, cache)

    def _run(self, index: int, rows: Rows, begin: int, end: int, count: int, cache: GraphCache) -> None:
        """Run one forward pass of a block's graph; write its keys and values to the cache."""
        here, num_rows, slots = slice(begin, end), end - begin, rows.slots[begin:end]
        first, num_layers = self._first_layer[index], self.sizes.layers[index]
        past, own = rows.masks(begin, end, count, cache.keys.shape[2])
        feeds = {name: _padded(getattr(rows, name)[here], count) for name in ("hidden", "cos", "sin")}
        feeds |= {"past": past, "own": own}
        for number in range(num_layers):
            feeds[f"keys_{number}"] = cache.keys[first + number]
            feeds[f"values_{number}"] = cache.values[first + number]
        for number in range(self.sizes.deep_in(index)):
            feeds[f"deep_{number}"] = _padded(rows.added(first + number, here), count)
        outputs = run_graph(self._blocks[index].session, feeds)
        for number in range(num_layers):
            feeds[f"keys_{number}"][:, slots] = outputs[2 * number][:, :num_rows]
            feeds[f"values_{number}"][:, slots] = outputs[2 * number + 1][:, :num_rows]
        rows.hidden[here] = outputs[-1][:num_rows]


def _copied(rows: Rows) -> Rows:
    """Return a copy of the rows whose hidden states the blocks may overwrite."""
    return replace(rows, hidden=rows.hidden.copy())


def _padded(rows: Floats, count: int) -> Floats:
    """Return rows padded to `count` by repeating the last one."""
    spare = count - len(rows)
    return np.concatenate([rows, np.repeat(rows[-1:], spare, axis=0)]) if spare else rows


def graph_file(index: int, phase: Phase) -> str:
    """Return the file name of a block's graph for a phase."""
    return f"block-{index:02d}-{phase}.onnx"


def _cuts(total: int, size: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, total, size):
        yield begin, min(begin + size, total)
