"""CUDA graphs on the CPU: a capture records the operations that run, a replay writes into the same tensors.

As on a GPU, a replay runs no Python code again, and a capture fails if it needs a number on the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Graph:
    """Stands in for torch.cuda.CUDAGraph."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def replay(self) -> None:
        for operation, given, options, made in self.calls:
            again = operation(*given, **options)
            held = {one.untyped_storage().data_ptr() for one in _tensors((given, options))}
            for old, new in zip(_tensors(made), _tensors(again), strict=True):
                if old.untyped_storage().data_ptr() not in held:
                    old.copy_(new)


class _Capture(TorchDispatchMode):
    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def __torch_dispatch__(self, operation: Any, types: Any, given: Any = (), options: Any = None) -> Any:
        if operation is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("a capture waits for the device")
        made = operation(*given, **(options or {}))
        self._graph.calls.append((operation, given, options or {}, made))
        return made


class Event:
    """Stands in for torch.cuda.Event: on a CPU, all work is in order and complete at once."""

    def record(self) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True


class Stream:
    """Stands in for torch.cuda.Stream."""

    def wait_event(self, event: Event) -> None: ...

    def wait_stream(self, stream: Stream) -> None: ...


@contextmanager
def _captured(graph: Graph, pool: object, capture_error_mode: str) -> Iterator[None]:
    with _Capture(graph):
        yield


def stand_in_for_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the parts of torch.cuda that `GraphLauncher` uses."""
    for name, thing in {
        "CUDAGraph": Graph,
        "graph": _captured,
        "Stream": Stream,
        "Event": Event,
        "current_device": lambda: 0,
        "current_stream": Stream,
        "stream": lambda stream: nullcontext(),
        "graph_pool_handle": object,
    }.items():
        monkeypatch.setattr(torch.cuda, name, thing)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
