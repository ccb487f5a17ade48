# SPDX-License-Identifier: Apache-2.0
"""Runs the segments of a step: one after the other, or as CUDA graphs with few of them queued."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor

from outrider.core.ports import Pause, Reading

MOST_AHEAD = 16
"""Segments that wait in the device's queue past the exit that is heard, or the pause."""
LOOKS_AT_WORK = 200
"""Having found the device at work so often, its queue is tried one shorter."""

_CAPTURING = defaultdict[int, threading.Lock](threading.Lock)
"""By device. While a graph is captured on it no other may begin there, and none be replayed. What else other
threads do meanwhile, such as a prompt of another model, is let be (`thread_local`).
"""

Heard = Callable[[int, Tensor], Reading | None]
"""Called with an exit's index and its logits (rows of the step, S) on a device that it may not wait for."""


class Segments(Protocol):
    """A step, cut into segments."""

    exit_after: dict[int, int]
    """By the number of a segment the exit that ends it."""
    exit_rows: list[Tensor]

    def segments(self) -> Iterator[Callable[[], None]]:
        """Return what to run, in order; each leaves its results in tensors that the next reads."""


class Launcher(Protocol):
    """Runs the segments of a step; what is read of an exit is heard when it has come to the host. With a
    `pause` between segments, as long as there is anything to be saved.
    """

    def run(self, heard: Heard | None, pause: Pause | None) -> None:
        """Runs all segments; calls `heard` at each exit and `pause` between segments."""


class DirectLauncher:
    """One segment after the other, each exit heard as it comes."""

    def __init__(self, step: Segments) -> None:
        self._step = step
        self._segments = list(step.segments())

    def run(self, heard: Heard | None, pause: Pause | None) -> None:
        """Runs the segments in turn; waits at each exit for what is read of it."""
        for number, segment in enumerate(self._segments):
            segment()
            index = self._step.exit_after.get(number)
            if heard is not None and index is not None:
                reading = heard(index, self._step.exit_rows[index])
                if reading is not None:
                    reading.observe(reading.chosen.cpu())
            if pause is not None and number < len(self._segments) - 1:
                pause()


class Lead:
    """How many segments wait in a device's queue while its host takes in news: as few as keep it at work.

    How long the host takes over that, and the device over a segment, differs from machine to machine.
    """

    def __init__(self, looks_at_work: int = LOOKS_AT_WORK) -> None:
        """`looks_at_work`: looks in a row that find the device at work before one segment fewer is tried."""
        self.segments = 1
        self._at_work, self._looks_at_work = 0, looks_at_work

    def on_look(self, idle: bool) -> None:
        """The host has come to queue more, and found the device with nothing to do or not."""
        self._at_work = 0 if idle else self._at_work + 1
        if idle:
            self.segments = min(self.segments + 1, MOST_AHEAD)
        elif self._at_work == self._looks_at_work:
            self.segments, self._at_work = max(1, self.segments - 1), 0


class GraphLauncher:
    """Each segment a CUDA graph; exits are read and copied to pinned memory beside the later segments."""

    def __init__(self, step: Segments, looks_at_work: int = LOOKS_AT_WORK) -> None:
        """`looks_at_work`: of its `Lead`."""
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

    def run(self, heard: Heard | None, pause: Pause | None) -> None:
        """Where exits are heard or a pause is asked for, few more segments wait in the device's queue, so
        that little is left to run out where a listener ends the step. Once all do, nothing is to be saved,
        and there are no more pauses.
        """
        launched, whole = 0, len(self._graphs)
        for number, computed in enumerate(self._computed):
            index = None if heard is None else self._exit_after.get(number)
            if index is None and (pause is None or launched == whole):
                continue
            launched = self._launch(launched, number + 1)
            if heard is not None and index is not None:
                self._read(number, index, heard)
            if pause is not None and launched < whole:
                computed.synchronize()
                pause()
        self._launch(launched, whole)

    def _launch(self, first: int, end: int) -> int:
        """Queue the segments from `first` to before `end`, and the lead; the next one's number."""
        whole = len(self._graphs)
        if 0 < first < whole:
            self._lead.on_look(self._computed[first - 1].query())
        elif first == 0 and end < whole <= end + self._lead.segments:
            self._lead.on_look(idle=False)  # all at once: nothing else would ever shorten it
        queued = self._graphs[first : end + self._lead.segments]
        for number, graph in enumerate(queued, first):
            with self._capturing:
                graph.replay()
            if number < len(self._computed):
                self._computed[number].record()
        return first + len(queued)

    def _read(self, number: int, index: int, heard: Heard) -> None:
        """Tell of the exit that ends a segment while the device computes on.

        What is read crosses in pinned memory. One exit after the other, so that what one says has left before
        the next is read. Waited for in any case, since the next run overwrites its rows.
        """
        pinned: Tensor | None = None
        with torch.cuda.stream(self._reading):
            self._reading.wait_event(self._computed[number])
            reading = heard(index, self._exits[index])
            if reading is not None:
                pinned = reading.chosen.to("cpu", non_blocking=True)
            self._copied[index].record()
        self._copied[index].synchronize()
        if reading is not None and pinned is not None:
            reading.observe(pinned)

    @staticmethod
    def _warm_up(step: Segments) -> None:
        """Libraries allocate on their first calls, and what is compiled is, which no capture may hold."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                for segment in step.segments():
                    segment()
        torch.cuda.current_stream().wait_stream(side)
