# SPDX-License-Identifier: Apache-2.0
"""Runs the segments of a step: one after the other, or as CUDA graphs with only a few of them queued."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor

from outrider.core.ports import Pause, Reading

MAX_AHEAD = 16
"""The most segments in the device's queue beyond the exit that is read, or the pause."""
LOOKS_AT_WORK = 200
"""After this many checks in a row that find the device busy, its queue is made one segment shorter."""

_CAPTURING = defaultdict[int, threading.Lock](threading.Lock)
"""One lock per device. While a graph is captured there, no other capture or replay may run. Other work of
other threads, such as a prompt of another model, may go on (`thread_local`).
"""

OnExit = Callable[[int, Tensor], Reading | None]
"""Called with an exit's index and its logits (rows of the step, S) on a device; must not wait for it."""


class Segments(Protocol):
    """A step, cut into segments."""

    exit_after: dict[int, int]
    """Segment number to the index of the exit that ends it."""
    exit_rows: list[Tensor]

    def segments(self) -> Iterator[Callable[[], None]]:
        """Yield what to run, in order; each segment leaves its results in tensors that the next one reads."""


class Launcher(Protocol):
    """Runs the segments of a step, and passes what is read of an exit on once it is on the host.

    It calls `pause` between segments, as long as an abort would still save anything.
    """

    def run(self, on_exit: OnExit | None, pause: Pause | None) -> None:
        """Run all segments; call `on_exit` at each exit and `pause` between segments."""


class DirectLauncher:
    """Runs one segment after the other, and waits for each exit."""

    def __init__(self, step: Segments) -> None:
        self._step = step
        self._segments = list(step.segments())

    def run(self, on_exit: OnExit | None, pause: Pause | None) -> None:
        """Run the segments in turn; wait at each exit for what is read of it."""
        for number, segment in enumerate(self._segments):
            segment()
            index = self._step.exit_after.get(number)
            if on_exit is not None and index is not None:
                reading = on_exit(index, self._step.exit_rows[index])
                if reading is not None:
                    reading.observe(reading.chosen.cpu())
            if pause is not None and number < len(self._segments) - 1:
                pause()


class Lead:
    """How many segments are queued ahead on a device while its host reads an exit: as few as keep it busy.

    The host's time for that, and the device's for a segment, differ between machines.
    """

    def __init__(self, looks_at_work: int = LOOKS_AT_WORK) -> None:
        """`looks_at_work`: checks in a row that find the device busy before one segment fewer is tried."""
        self.segments = 1
        self._at_work, self._looks_at_work = 0, looks_at_work

    def on_look(self, idle: bool) -> None:
        """Adjust the lead: the host is about to queue more, and has found the device idle or busy."""
        self._at_work = 0 if idle else self._at_work + 1
        if idle:
            self.segments = min(self.segments + 1, MAX_AHEAD)
        elif self._at_work == self._looks_at_work:
            self.segments, self._at_work = max(1, self.segments - 1), 0


class GraphLauncher:
    """Runs each segment as a CUDA graph.

    Exits are read, and copied to pinned memory, while later segments run.
    """

    def __init__(self, step: Segments, looks_at_work: int = LOOKS_AT_WORK) -> None:
        """`looks_at_work`: see `Lead`."""
        self._graphs: list[torch.cuda.CUDAGraph] = []
        self._reading = torch.cuda.Stream()
        self._capturing = _CAPTURING[torch.cuda.current_device()]
        self._warm_up(step)
        pool = torch.cuda.graph_pool_handle()
        for segment in step.segments():
            graph = torch.cuda.CUDAGraph()
            with self._capturing, torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                segment()
            self._graphs.append(graph)
        self._exit_after, self._exits = step.exit_after, list(step.exit_rows)
        self._computed = [torch.cuda.Event() for _ in self._graphs[1:]]
        self._copied = [torch.cuda.Event() for _ in self._exits]
        self._lead = Lead(looks_at_work)

    def run(self, on_exit: OnExit | None, pause: Pause | None) -> None:
        """Run all segments. If exits are read or a pause is given, only few further segments are queued.

        So little is left to run when the step is aborted. Once all segments are queued, an abort would save
        nothing, and there are no more pauses.
        """
        launched, whole = 0, len(self._graphs)
        for number, computed in enumerate(self._computed):
            index = None if on_exit is None else self._exit_after.get(number)
            if index is None and (pause is None or launched == whole):
                continue
            launched = self._launch(launched, number + 1)
            if on_exit is not None and index is not None:
                self._read(number, index, on_exit)
            if pause is not None and launched < whole:
                computed.synchronize()
                pause()
        self._launch(launched, whole)

    def _launch(self, first: int, end: int) -> int:
        """Queue the segments from `first` to before `end`, and the lead;
        return the number of the next one.
        """
        whole = len(self._graphs)
        if 0 < first < whole:
            self._lead.on_look(self._computed[first - 1].query())
        elif first == 0 and end < whole <= end + self._lead.segments:
            self._lead.on_look(idle=False)  # all queued at once: nothing else would ever shorten the lead
        queued = self._graphs[first : end + self._lead.segments]
        for number, graph in enumerate(queued, first):
            with self._capturing:
                graph.replay()
            if number < len(self._computed):
                self._computed[number].record()
        return first + len(queued)

    def _read(self, number: int, index: int, on_exit: OnExit) -> None:
        """Read the exit that ends a segment, while the device computes on.

        What is read is copied to pinned memory. Exits are read one after the other, so that one's result
        has been passed on before the next is read. The copy is always waited for, because the next run
        overwrites the rows.
        """
        pinned: Tensor | None = None
        with torch.cuda.stream(self._reading):
            self._reading.wait_event(self._computed[number])
            reading = on_exit(index, self._exits[index])
            if reading is not None:
                pinned = reading.chosen.to("cpu", non_blocking=True)
            self._copied[index].record()
        self._copied[index].synchronize()
        if reading is not None and pinned is not None:
            reading.observe(pinned)

    @staticmethod
    def _warm_up(step: Segments) -> None:
        """Run the step before its capture, which must not contain what first calls do.

        On their first calls libraries allocate memory, and functions are compiled.
        """
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                for segment in step.segments():
                    segment()
        torch.cuda.current_stream().wait_stream(side)
