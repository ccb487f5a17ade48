"""Counts the memory that torch operations hold."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Held(TorchDispatchMode):
    """Counts the bytes of tensors that operations create, while they are alive. `before` is not counted."""

    def __init__(self, *before: torch.Tensor) -> None:
        super().__init__()
        self.now = self.most = 0
        self._before = {one.untyped_storage().data_ptr() for one in before}
        self._users: Counter[int] = Counter()
        self._seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, torch.Tensor) and id(one) not in self._seen:
                self._hold(one)
        return result

    def _hold(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        place, size = storage.data_ptr(), storage.nbytes()
        if place in self._before:
            return
        self._seen.add(id(tensor))
        self.now += 0 if self._users[place] else size
        self.most = max(self.most, self.now)
        self._users[place] += 1
        weakref.finalize(tensor, self._let_go, id(tensor), place, size)

    def _let_go(self, number: int, place: int, size: int) -> None:
        self._seen.discard(number)
        self._users[place] -= 1
        self.now -= 0 if self._users[place] else size
