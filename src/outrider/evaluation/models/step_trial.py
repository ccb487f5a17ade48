# SPDX-License-Identifier: Apache-2.0
"""A verification by a target of published width and random weights: against reading them, and with exits."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from outrider.core.model_options import Precision
from outrider.core.ports import ExitInfo, Reading
from outrider.evaluation.common.ratios import Ratio
from outrider.evaluation.models.random_weights import QWEN2_VL_7B, Widths, random_stack
from outrider.models.backbone.batch import next_span
from outrider.models.backbone.cuda_graph_steps import BLOCK_SEQUENCES, SegmentedStep, StepTokens
from outrider.models.backbone.early_exits import ExitHeads
from outrider.models.backbone.kv_cache import CacheBlock, CachePool, CacheShape
from outrider.models.backbone.text_stack import TextStack
from outrider.models.loading import find_device

SHORTLIST = 2048
PART_VOCABULARY = 4096
NUM_EXITS = 8
VERIFIED = 5
WARM_UPS = 3
_COPIED_BYTES = {"cpu": 2**28, "cuda": 2**30}
_CROWD = {"cpu": 2, "cuda": BLOCK_SEQUENCES}
STEP_LAYERS = {"cpu": 3, "cuda": 28}
STEP_REPEATS = 9
CONTEXT = 1000
PACKED_PRECISIONS: tuple[Precision, ...] = ("int8", "int4")


@dataclass(frozen=True)
class StepTrial:
    """Median seconds of a verification of VERIFIED tokens.

    plain_s: without exits; exits_s: with them; crowd_s: for `crowd` robots at once. exits_ratio: the median
    of exits over plain, timed alternately. host_s: until the host has queued it (on a CPU, all of it).
    weights_s: the time to read its weights once at copy_gb_s, the bytes that a copy on the device reads and
    writes per second. `same_bits`: a token's logits are the same in a chunk and in a batch with other
    robots' tokens.
    """

    device: str
    num_layers: int
    context: int
    num_exits: int
    crowd: int
    weights_gb: float
    copy_gb_s: float
    weights_s: float
    plain_s: float
    exits_s: float
    exits_ratio: float
    crowd_s: float
    host_s: float
    same_bits: bool


def step_trial(
    device: str,
    num_layers: int,
    context: int = CONTEXT,
    repeats: int = STEP_REPEATS,
    widths: Widths = QWEN2_VL_7B,
) -> StepTrial:
    """Measure a verification by a target of these widths in bfloat16 on a GPU, in float32 on a CPU.

    With fewer layers than the model has, its vocabulary is cut as well. Raises ConfigError for a device
    that is not there.
    """
    torch_device = find_device(device)
    torch.manual_seed(0)
    dense: Precision = "fp32" if torch_device.type == "cpu" else "bf16"
    text = random_stack(_cut(widths, num_layers), dense, device=torch_device)
    heads = _random_exits(text, min(NUM_EXITS, num_layers - 1)).to(torch_device, text.embeddings.dtype)
    alone, crowd = (_block(text, context, count, torch_device) for count in (1, _CROWD[torch_device.type]))
    chunk = _chunk(0, VERIFIED, context)
    plain, exits = (SegmentedStep(text, each, alone, next_span(context)) for each in (None, heads))
    without, added = _seconds_in_turn(
        [partial(step.run, {0: chunk}, _read_exit) for step in (plain, exits)], torch_device, repeats
    )
    host_s = _host_seconds(lambda: exits.run({0: chunk}, None), torch_device, repeats)
    many = SegmentedStep(text, heads, crowd, next_span(context))
    crowded = {index: _chunk(index, VERIFIED, context) for index in range(_CROWD[torch_device.type])}
    crowd_s = _seconds(partial(many.run, crowded, _read_exit), torch_device, repeats)
    num_bytes, byte_s = weight_bytes(text), _seconds_per_byte(torch_device, repeats)
    return StepTrial(
        device=device,
        num_layers=num_layers,
        context=context,
        num_exits=len(heads.matrices),
        crowd=len(crowded),
        weights_gb=num_bytes / 1e9,
        copy_gb_s=1e-9 / byte_s,
        weights_s=num_bytes * byte_s,
        plain_s=statistics.median(without),
        exits_s=statistics.median(added),
        exits_ratio=statistics.median(more / less for more, less in zip(added, without, strict=True)),
        crowd_s=crowd_s,
        host_s=host_s,
        same_bits=_same_bits(many, crowded, context),
    )


def packed_verify_seconds(
    device: str,
    precision: Precision,
    num_layers: int,
    context: int = CONTEXT,
    repeats: int = STEP_REPEATS,
    widths: Widths = QWEN2_VL_7B,
) -> float:
    """Return the median seconds of a verification without exits, with weights of another precision."""
    torch_device = find_device(device)
    text = random_stack(_cut(widths, num_layers), precision, device=torch_device)
    block = _block(text, context, 1, torch_device)
    step = SegmentedStep(text, None, block, next_span(context))
    return _seconds(partial(step.run, {0: _chunk(0, VERIFIED, context)}, None), torch_device, repeats)


def _cut(widths: Widths, num_layers: int) -> Widths:
    whole = num_layers == widths.num_layers
    return replace(widths, num_layers=num_layers, vocab_size=widths.vocab_size if whole else PART_VOCABULARY)


def _read_exit(index: int, rows: Tensor) -> Reading:
    """Return what a verification reads from an exit: its choices."""
    return Reading(rows.argmax(-1), lambda choices: None)


def _block(text: TextStack, context: int, sequences: int, torch_device: torch.device) -> CacheBlock:
    """Return caches that are filled everywhere with random values."""
    shape = CacheShape(
        text.shape.num_layers, next_span(context + VERIFIED), text.shape.num_kv_heads, text.shape.head_dim
    )
    block = CachePool(shape, text.cache_dtype, sequences, torch_device).take().block
    for slots in (*block.keys, *block.values):
        slots.normal_(std=0.1)
    return block


def _chunk(index: int, count: int, context: int) -> StepTokens:
    return StepTokens(list(range(10 + index, 10 + index + count)), context, context)


def _same_bits(step: SegmentedStep, crowded: Mapping[int, StepTokens], context: int) -> bool:
    """Whether the first token of a chunk has the same logits alone, in the chunk, and in a crowd."""
    cases = {0: _chunk(0, 1, context)}, {0: _chunk(0, VERIFIED, context)}, crowded
    alone, *more_logits = (step.run(case, None)[0].clone() for case in cases)
    return all(torch.equal(alone, logits) for logits in more_logits)


def weight_bytes(text: TextStack) -> int:
    """Return the bytes that a step reads: matrices and the head, not the embeddings."""
    matrices = [
        getattr(layer, name) for layer in text.layers for name in ("qkv", "attention_out", "gate_up", "down")
    ]
    width = text.embeddings.element_size()
    return sum(width * matrix.shape[0] * matrix.shape[1] for matrix in [*matrices, text.head])


def _random_exits(text: TextStack, count: int) -> ExitHeads:
    """Return random exit heads, spread evenly over the layers."""
    num_layers, hidden = text.shape.num_layers, text.embeddings.shape[1]
    layers = tuple(round(num_layers * (number + 1) / (count + 1)) for number in range(count))
    shortlist = torch.arange(min(SHORTLIST, text.head.shape[1]))
    matrices = tuple(torch.randn(hidden, len(shortlist)) / hidden for _ in layers)
    return ExitHeads(ExitInfo(layers, num_layers, shortlist), matrices)


def _seconds(work: Callable[[], object], torch_device: torch.device, repeats: int) -> float:
    """Return the median seconds of the work."""
    return statistics.median(_seconds_in_turn([work], torch_device, repeats)[0])


def _seconds_in_turn(
    works: Sequence[Callable[[], object]], torch_device: torch.device, repeats: int
) -> list[list[float]]:
    """Return each work's seconds, to its end on the device; on a CPU, processor seconds of this thread."""
    clock = time.thread_time if torch_device.type == "cpu" else time.monotonic
    times: list[list[float]] = [[] for _ in works]
    for _ in range(WARM_UPS + repeats):
        for work, own in zip(works, times, strict=True):
            _finish(torch_device)
            began_s = clock()
            work()
            _finish(torch_device)
            own.append(clock() - began_s)
    return [own[WARM_UPS:] for own in times]


def _host_seconds(work: Callable[[], object], torch_device: torch.device, repeats: int) -> float:
    """Return the median seconds until the host is free again; on a CPU nothing is queued, so that is all."""
    times = []
    for _ in range(repeats):
        _finish(torch_device)
        began_s = time.monotonic()
        work()
        times.append(time.monotonic() - began_s)
    return statistics.median(times)


def _seconds_per_byte(torch_device: torch.device, repeats: int) -> float:
    """Return the seconds of reading or writing a byte: a copy does both."""
    copied = _COPIED_BYTES[torch_device.type]
    source: Tensor = torch.empty(copied, dtype=torch.uint8, device=torch_device).random_()
    target = torch.empty_like(source)
    return _seconds(lambda: target.copy_(source), torch_device, repeats) / (2 * copied)


def _finish(torch_device: torch.device) -> None:
    if torch_device.type == "cuda":
        torch.cuda.synchronize(torch_device)


def step_ratios(trial: StepTrial) -> list[Ratio]:
    """Return ratios: what exits add to a verification; on a GPU also over reading the weights once."""
    where = f"{trial.num_layers} layers of 7B on {trial.device}"
    added = f"{1e3 * trial.exits_s:.2f} against {1e3 * trial.plain_s:.2f} ms, {trial.num_exits} exits"
    read = f"{1e3 * trial.exits_s:.2f} against {1e3 * trial.weights_s:.2f} ms: "
    read += f"{trial.weights_gb:.1f} GB at {trial.copy_gb_s:.0f} GB/s of a copy"
    ratios = [
        Ratio(f"verify with exits over without, {where}", trial.exits_ratio, 1.1, True, added),
        Ratio(
            "its bits: as one token, in a chunk, in a crowd",
            float(trial.same_bits),
            1.0,
            False,
            "equal or not",
        ),
    ]
    if trial.device == "cpu":
        return ratios
    crowd = f"{1e3 * trial.crowd_s:.2f} against {1e3 * trial.exits_s:.2f} ms, {trial.crowd} robots"
    return [
        *ratios,
        Ratio("verify of 5 over reading the weights", trial.exits_s / trial.weights_s, 1.35, True, read),
        Ratio("verify of a crowd over one robot's", trial.crowd_s / trial.exits_s, 2.0, True, crowd),
        Ratio("host's part of a verify, ms", 1e3 * trial.host_s, 0.5, True, "until the queue is filled"),
    ]


def packed_verifies(device: str, num_layers: int) -> dict[Precision, float]:
    """Return the seconds of a verification with weights of fewer bits, on a GPU; empty on a CPU."""
    if device == "cpu":
        return {}
    return {
        precision: packed_verify_seconds(device, precision, num_layers) for precision in PACKED_PRECISIONS
    }


def packed_ratios(packed_s: Mapping[Precision, float], trial: StepTrial) -> list[Ratio]:
    """Return a verification with weights of fewer bits over one in bfloat16, both without exits."""
    where = f"{trial.num_layers} layers of 7B on {trial.device}"
    return [
        Ratio(
            f"verify in {precision} over bf16, {where}",
            took_s / trial.plain_s,
            1.0,
            True,
            f"{1e3 * took_s:.2f} against {1e3 * trial.plain_s:.2f} ms",
        )
        for precision, took_s in packed_s.items()
    ]
