"""What steps are said to take of a GPU, against what the same steps hold here."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from outrider.core.model_options import Precision
from outrider.models.cache import CacheBlock, CachePool, CacheShape
from outrider.models.checkpoint import whole_dtype
from outrider.models.loading import session_bytes
from outrider.models.made_up import QWEN2_VL_7B, Widths, made_up_stack
from outrider.models.step_memory import StepWidths, buffer_bytes, steps_bytes
from outrider.models.steps import BLOCK_SEQUENCES, SegmentedStep, StepTokens, step_spans


class Held(TorchDispatchMode):
    """Counts the bytes of what operations make, as long as it is held, but not of what was there before."""

    def __init__(self, before: CacheBlock) -> None:
        super().__init__()
        self.now = self.most = 0
        self._before = {one.untyped_storage().data_ptr() for one in (*before.keys, *before.values)}
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


def widths_of(made_up: Widths) -> StepWidths:
    return StepWidths(made_up.shape, made_up.hidden, made_up.intermediate, made_up.vocab_size)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("intermediate", "vocab_size", "span"), [(512, 4096, 256), (4096, 1000, 256), (256, 300, 8192)]
)
def test_a_step_holds_about_what_is_said(
    precision: Precision, intermediate: int, vocab_size: int, span: int
) -> None:
    made_up = Widths(256, intermediate, 4, 2, num_layers=3, vocab_size=vocab_size)
    text, dtype = made_up_stack(made_up, precision), whole_dtype(precision)
    pool = CachePool(CacheShape(3, span, 2, 128), dtype, 4)
    block = pool.take().block
    step = SegmentedStep(text, None, block, span)
    with Held(block) as held:
        step.run({0: StepTokens([1, 2], 0, 0)}, None)
    said = buffer_bytes(widths_of(made_up), dtype, span, 4)
    assert held.most <= said <= 2 * held.most


def test_a_large_model_says_what_its_graphs_take() -> None:
    """The 7B in bfloat16, 8 sessions of 4,096 tokens: of its spans each holds 128 rows of 152,064 logits."""
    seven = widths_of(QWEN2_VL_7B)
    assert list(step_spans(4096)) == [1024, 2048, 4096]
    taken = session_bytes(seven, 4096, "bf16", BLOCK_SEQUENCES, on_gpu=True)
    assert taken.steps_bytes > 3 * 128 * 152_064 * 4
    assert taken.steps_bytes < 1e9
    twice = session_bytes(seven, 4096, "bf16", 2 * BLOCK_SEQUENCES, on_gpu=True)
    assert twice.num_bytes == 2 * taken.num_bytes and twice.steps_bytes > 1.7 * taken.steps_bytes


def test_nothing_is_captured_on_a_cpu() -> None:
    assert session_bytes(widths_of(QWEN2_VL_7B), 512, "fp32", 4, on_gpu=False).steps_bytes == 0
    assert steps_bytes(widths_of(QWEN2_VL_7B), torch.bfloat16, 512, 1, 1) > 0
