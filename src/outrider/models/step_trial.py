"""A verification by a made-up target of published width: against reading its weights once, and its exits."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from outrider.core.ports import ExitInfo, Reading
from outrider.models.batch import next_span
from outrider.models.cache import CachePool, CacheShape
from outrider.models.exits import ExitHeads
from outrider.models.loading import find_device
from outrider.models.made_up import QWEN2_VL_7B, Widths, made_up_stack
from outrider.models.steps import SegmentedStep, StepTokens
from outrider.models.text_stack import TextStack

SHORTLIST = 2048
PART_VOCABULARY = 4096
NUM_EXITS = 8
VERIFIED = 5
WARM_UPS = 3
_COPIED_BYTES = 2**28


@dataclass(frozen=True)
class StepTrial:
    """Median seconds of a verification of VERIFIED tokens, with and without exits; the host's part of it with
    exits (the queue filled, nothing waited for); and weights_s: the bytes of its weights once, at the
    bandwidth that a copy on the device reaches in reading.
    """

    device: str
    num_layers: int
    context: int
    num_exits: int
    weights_gb: float
    weights_s: float
    plain_s: float
    exits_s: float
    host_s: float


def run_step_trial(
    device: str, num_layers: int, context: int, repeats: int, widths: Widths = QWEN2_VL_7B
) -> StepTrial:
    """In bfloat16 on a GPU, in float32 on a CPU. With fewer layers than the model has, its vocabulary is cut
    as well. Raises ConfigError for a device that is not there.
    """
    place = find_device(device)
    torch.manual_seed(0)
    whole = num_layers == widths.num_layers
    cut = replace(widths, num_layers=num_layers, vocab_size=widths.vocab_size if whole else PART_VOCABULARY)
    made_up = made_up_stack(cut, "fp32" if place.type == "cpu" else "bf16")
    text = made_up.to(place)
    heads = _made_up_exits(text, min(NUM_EXITS, num_layers - 1)).to(place)
    shape = CacheShape(num_layers, next_span(context), text.shape.num_kv_heads, text.shape.head_dim)
    block = CachePool(shape, text.cache_dtype, 1, place).take().block
    given = {0: StepTokens(list(range(10, 10 + VERIFIED)), context, context)}
    steps = [SegmentedStep(text, each, block, next_span(context)) for each in (None, heads)]
    plain_s, exits_s = (
        _seconds(
            partial(step.run, given, lambda index, rows: Reading(rows, lambda logits: None)), place, repeats
        )
        for step in steps
    )
    host_s = _host_seconds(lambda: steps[1].run(given, None), place, repeats)
    num_bytes = weight_bytes(text)
    weights_s = num_bytes * _seconds_per_byte(place, repeats)
    return StepTrial(
        device, num_layers, context, len(heads.matrices), num_bytes / 1e9, weights_s, plain_s, exits_s, host_s
    )


def weight_bytes(text: TextStack) -> int:
    """Of what a step reads: matrices and the head, not the embeddings."""
    matrices = [
        getattr(layer, name) for layer in text.layers for name in ("qkv", "attention_out", "gate_up", "down")
    ]
    width = text.embeddings.element_size()
    return sum(width * matrix.shape[0] * matrix.shape[1] for matrix in [*matrices, text.head])


def _made_up_exits(text: TextStack, count: int) -> ExitHeads:
    """Evenly over the layers."""
    num_layers, hidden = text.shape.num_layers, text.embeddings.shape[1]
    layers = tuple(round(num_layers * (place + 1) / (count + 1)) for place in range(count))
    shortlist = torch.arange(min(SHORTLIST, text.head.shape[1]))
    matrices = tuple(torch.randn(hidden, len(shortlist)) / hidden for _ in layers)
    return ExitHeads(ExitInfo(layers, num_layers, shortlist), matrices, text.final_norm.floor.cpu())


def _seconds(work: Callable[[], object], place: torch.device, repeats: int) -> float:
    """Median of the work, to its end on the device; of this thread's processor where that is the CPU."""
    clock = time.thread_time if place.type == "cpu" else time.monotonic
    times = []
    for number in range(WARM_UPS + repeats):
        _finish(place)
        began_s = clock()
        work()
        _finish(place)
        if number >= WARM_UPS:
            times.append(clock() - began_s)
    return statistics.median(times)


def _host_seconds(work: Callable[[], object], place: torch.device, repeats: int) -> float:
    """Median until the host is free again; on a CPU nothing is queued, so this is all of it."""
    times = []
    for _ in range(repeats):
        _finish(place)
        began_s = time.monotonic()
        work()
        times.append(time.monotonic() - began_s)
    return statistics.median(times)


def _seconds_per_byte(place: torch.device, repeats: int) -> float:
    """Of reading and writing a byte, halved: a copy does both."""
    source: Tensor = torch.zeros(_COPIED_BYTES, dtype=torch.uint8, device=place)
    target = torch.empty_like(source)
    return _seconds(lambda: target.copy_(source), place, repeats) / (2 * _COPIED_BYTES)


def _finish(place: torch.device) -> None:
    if place.type == "cuda":
        torch.cuda.synchronize(place)
