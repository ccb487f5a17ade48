# SPDX-License-Identifier: Apache-2.0
"""Computes the GPU memory for a target's static steps and for choosing tokens, before anything is loaded.

Weights and caches are not included.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from outrider.core.frames import MAX_CHUNK_TOKENS
from outrider.core.model_options import ROWS_OF_A_BATCH
from outrider.models.backbone.cuda_graph_steps import STEP_ROWS, step_spans
from outrider.models.backbone.text_stack import TextShape

WORKSPACE_BYTES = 3 * 32 * 2**20
"""cuBLAS's workspaces for three streams: the one that runs steps, and those that try and capture them."""
PIECE_BYTES = 20 * 2**20
"""torch's allocator uses pieces of this size for medium allocations, new ones for each capture."""
CHOICE_BYTES = 4 + 4 + 8
"""For each logit of a batch, float32: its session's own, a copy next to the others', and its noise."""
CHOICE_WORKSPACE_BYTES = 144 * 2**20
"""The extra memory of noise and choice; both are computed in parts (`acceptance.philox` and `coupled`)."""


@dataclass(frozen=True)
class StepWidths:
    """The widths that determine a step's buffers."""

    shape: TextShape
    hidden: int
    intermediate: int
    vocab_size: int


def steps_bytes(widths: StepWidths, dtype: torch.dtype, num_slots: int, block_size: int, blocks: int) -> int:
    """Return the bytes of all steps' buffers for `blocks` cache blocks, and of what libraries keep."""
    of_block = (buffer_bytes(widths, dtype, span, block_size) + PIECE_BYTES for span in step_spans(num_slots))
    return WORKSPACE_BYTES + blocks * sum(of_block)


def choice_bytes(vocab_size: int, sessions: int) -> int:
    """Return the memory for choosing the tokens of a batch with noise, for as many rows as it may have."""
    rows = min(ROWS_OF_A_BATCH["cuda"], sessions * (MAX_CHUNK_TOKENS + 1))
    return rows * vocab_size * CHOICE_BYTES + CHOICE_WORKSPACE_BYTES


def buffer_bytes(widths: StepWidths, dtype: torch.dtype, span: int, num_sequences: int) -> int:
    """Return the buffers of one step, without its exits' rows.

    These are what lasts until the next run, and the most that a part of it holds at once. The inputs of a
    product are of `dtype`, its result is float32.
    """
    rows, whole, narrow = num_sequences * STEP_ROWS, 4, dtype.itemsize
    group = widths.shape.num_heads // widths.shape.num_kv_heads
    lasting = whole * (widths.vocab_size + 2 * widths.hidden + 2 * widths.shape.head_dim)
    lasting += narrow * group * span  # the mask
    parts = (
        span * (1 + narrow),  # the mask before it is repeated
        widths.intermediate * (4 * whole + 3 * narrow),
        widths.vocab_size * narrow,
    )
    return rows * (lasting + max(parts) + 2 * widths.hidden * whole)
