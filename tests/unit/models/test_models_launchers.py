"""Two models on one GPU, each in a thread: one captures graphs while the other replays its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from support.captured import Graph, stand_in_for_cuda
from torch import Tensor

from outrider.models.backbone.step_launchers import GraphLauncher


class OneSegment:
    """A step of a single segment."""

    def __init__(self) -> None:
        self.exit_after: dict[int, int] = {}
        self.exit_rows: list[Tensor] = []

    def segments(self) -> Iterator[Callable[[], None]]:
        yield lambda: None


def test_no_graph_is_replayed_while_one_is_captured_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch refuses a replay during a capture, because both use the device's generator."""
    stand_in_for_cuda(monkeypatch)
    events, modes = list[str](), list[str]()
    monkeypatch.setattr(Graph, "replay", lambda graph: events.append("replayed"))
    other = threading.Thread(target=GraphLauncher(OneSegment()).run, args=(None, None))

    @contextmanager
    def captured(graph: Graph, pool: object, capture_error_mode: str) -> Iterator[None]:
        modes.append(capture_error_mode)
        other.start()
        other.join(0.2)  # returns at once if nothing blocks the replay
        yield
        events.append("captured")

    monkeypatch.setattr(torch.cuda, "graph", captured)
    GraphLauncher(OneSegment())
    other.join()
    assert events == ["captured", "replayed"]
    assert modes == ["thread_local"], "what other threads do is no fault of a capture"
