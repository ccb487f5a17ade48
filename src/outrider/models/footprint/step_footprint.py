# SPDX-License-Identifier: Apache-2.0
"""What a target's static steps, and choosing by their logits, take of a GPU beside weights and caches: known
before anything is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from outrider.core.frames import MAX_CHUNK_TOKENS
from outrider.core.model_options import ROWS_OF_A_BATCH
from outrider.models.backbone.cuda_graph_steps import STEP_ROWS, step_spans
from outrider.models.backbone.text_stack import TextShape

WORKSPACE_BYTES = 3 * 32 * 2**20
"""cuBLAS has as much for each stream: the one that steps run on, and those that try and capture them."""
PIECE_BYTES = 20 * 2**20
"""torch's allocator takes what is neither small nor large in pieces of this size, for each capture anew."""
CHOICE_BYTES = 4 + 4 + 8
"""Of each of a batch's logits, float32: as a session's own, side by side with the others', and its noise."""
CHOICE_WORKSPACE_BYTES = 144 * 2**20
"""What noise and choosing take beside these: both are made in parts (`acceptance.philox` and `coupled`)."""


@dataclass(frozen=True)
class StepWidths:
    """What a step's buffers are as wide as."""

    shape: TextShape
    hidden: int
    intermediate: int
    vocab_size: int


def steps_bytes(widths: StepWidths, dtype: torch.dtype, num_slots: int, block_size: int, blocks: int) -> int:
    """The buffers of all steps of so many `blocks` of caches, and what the libraries keep for them."""
    of_block = (buffer_bytes(widths, dtype, span, block_size) + PIECE_BYTES for span in step_spans(num_slots))
    return WORKSPACE_BYTES + blocks * sum(of_block)


def choice_bytes(vocab_size: int, sessions: int) -> int:
    """What the tokens of a batch are chosen by, where noise is added: of as many rows as it may have."""
    rows = min(ROWS_OF_A_BATCH["cuda"], sessions * (MAX_CHUNK_TOKENS + 1))
    return rows * vocab_size * CHOICE_BYTES + CHOICE_WORKSPACE_BYTES


def buffer_bytes(widths: StepWidths, dtype: torch.dtype, span: int, num_sequences: int) -> int:
    """Of one step, its exits' rows left out: what lasts until the next run, and the most that a part of it
    holds at once. A product is of `dtype`, and what it gives is float32.
    """
    rows, whole, narrow = num_sequences * STEP_ROWS, 4, dtype.itemsize
    group = widths.shape.num_heads // widths.shape.num_kv_heads
    lasting = whole * (widths.vocab_size + 2 * widths.hidden + 2 * widths.shape.head_dim)
    lasting += narrow * group * span  # the mask
    parts = (
        span * (1 + narrow),  # of the mask before it is repeated
        widths.intermediate * (4 * whole + 3 * narrow),
        widths.vocab_size * narrow,
    )
    return rows * (lasting + max(parts) + 2 * widths.hidden * whole)
