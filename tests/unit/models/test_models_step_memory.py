"""The GPU memory that steps are said to need, against what the same steps hold here."""

from __future__ import annotations

import pytest
import torch
from support.held import Held

from outrider.core.model_options import Precision
from outrider.evaluation.models.random_weights import QWEN2_VL_7B, Widths, random_stack
from outrider.models.backbone.cuda_graph_steps import BLOCK_SEQUENCES, SegmentedStep, StepTokens, step_spans
from outrider.models.backbone.kv_cache import CachePool, CacheShape
from outrider.models.checkpoint.weights import whole_dtype
from outrider.models.footprint.step_footprint import StepWidths, buffer_bytes, steps_bytes
from outrider.models.loading import session_bytes


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
    text, dtype = random_stack(made_up, precision), whole_dtype(precision)
    pool = CachePool(CacheShape(3, span, 2, 128), dtype, 4)
    block = pool.take().block
    step = SegmentedStep(text, None, block, span)
    with Held(*block.keys, *block.values) as held:
        step.run({0: StepTokens([1, 2], 0, 0)}, None)
    said = buffer_bytes(widths_of(made_up), dtype, span, 4)
    assert held.most <= said <= 2 * held.most


def test_a_large_model_says_what_its_graphs_take() -> None:
    """The 7B in bfloat16, 8 sessions of 4,096 tokens: each of its spans holds 128 rows of 152,064 logits."""
    seven = widths_of(QWEN2_VL_7B)
    assert list(step_spans(4096)) == [1024, 2048, 4096]
    taken = session_bytes(seven, 4096, "bf16", BLOCK_SEQUENCES, on_gpu=True)
    assert taken.steps_bytes > 3 * 128 * 152_064 * 4
    assert taken.steps_bytes < 1e9
    twice = session_bytes(seven, 4096, "bf16", 2 * BLOCK_SEQUENCES, on_gpu=True)
    assert twice.num_bytes == 2 * taken.num_bytes and twice.steps_bytes > 1.7 * taken.steps_bytes


def test_nothing_is_captured_on_a_cpu() -> None:
    here = session_bytes(widths_of(QWEN2_VL_7B), 512, "fp32", 4, on_gpu=False)
    assert here.all_bytes == here.num_bytes
    assert steps_bytes(widths_of(QWEN2_VL_7B), torch.bfloat16, 512, 1, 1) > 0
