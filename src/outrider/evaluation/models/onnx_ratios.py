# SPDX-License-Identifier: Apache-2.0
"""Compares the choices of a draft's static graphs with the same integers run eagerly; measures loading."""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from outrider.core.ports import ModelSession
from outrider.core.processes import work_apart
from outrider.core.values import Prompt
from outrider.evaluation.common.ratios import Ratio
from outrider.evaluation.models.random_weights import QWEN2_VL_2B, Widths, random_stack
from outrider.models.backbone.batch import DECODE_ROWS, next_span
from outrider.models.backbone.text_stack import TextShape
from outrider.models.onnx.blocks import GraphSizes
from outrider.models.onnx.language import GraphLanguage
from outrider.models.onnx.slots import BRANCH_SLOTS
from outrider.models.onnx.store import PREFILL_ROWS, block_layers, write_graphs

VOCABULARY = 4096
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
PROMPT_TOKENS = 1000
COMPARED_TOKENS = 32


@dataclass(frozen=True)
class GraphTrial:
    """A prompt on prefill graphs alone (plain), and with the switch to decode graphs meanwhile.

    plain_s, switching_s: processor seconds of the computing thread. loaded_s, waited_s: seconds of loading
    decode graphs, and of waiting for them. plain_mb, switching_mb: the peak memory above the process's
    initial memory, without pages of mapped files, which the system reclaims when it needs them.
    """

    num_layers: int
    num_tokens: int
    plain_s: float
    switching_s: float
    loaded_s: float
    waited_s: float
    plain_mb: float
    switching_mb: float

    @property
    def hidden_share(self) -> float:
        """The share of the loading time that computing hides."""
        return 1.0 - self.waited_s / self.loaded_s

    @property
    def memory_ratio(self) -> float:
        """The peak memory with the switch over that without."""
        return self.switching_mb / self.plain_mb


def graph_trial(
    num_layers: int,
    num_tokens: int = PROMPT_TOKENS,
    repeats: int = 1,
    widths: Widths = QWEN2_VL_2B,
) -> GraphTrial:
    """Return the times of static graphs of `num_layers` layers, and their memory, for a prompt.

    They run in separate processes, so that the measured memory is that of the graphs.
    """
    widths = replace(widths, num_layers=num_layers, vocab_size=VOCABULARY)
    with tempfile.TemporaryDirectory() as folder:
        work_apart(partial(_write, Path(folder), widths), num_tokens)
        return work_apart(partial(_measure, Path(folder), widths, num_tokens), repeats)


def _sizes(widths: Widths) -> GraphSizes:
    return GraphSizes(block_layers(widths.num_layers), PREFILL_ROWS, DECODE_ROWS)


def _num_slots(num_tokens: int) -> int:
    return next_span(num_tokens) + BRANCH_SLOTS


def _write(folder: Path, widths: Widths, num_tokens: int) -> None:
    """Build and profile the graphs."""
    torch.set_num_threads(1)
    stack = random_stack(widths, "int4", exact=True)
    num_slots = _num_slots(num_tokens)
    write_graphs(folder, stack, _sizes(widths), num_slots, packs=True)
    GraphLanguage(folder, _sizes(widths), stack.shape, stack.rotary, num_slots)


def _measure(folder: Path, widths: Widths, num_tokens: int, repeats: int) -> GraphTrial:
    torch.set_num_threads(1)
    before_mb = _resident_mb()
    language = _open(folder, widths, _num_slots(num_tokens))
    blocks, cache = language.blocks, language.open_cache()
    hidden = language.embed([index % VOCABULARY for index in range(num_tokens)])
    rows = language.first_rows(hidden, torch.arange(num_tokens).expand(3, -1))
    trials = []
    for _ in range(repeats):
        blocks.settle("prefill")
        plain_s, plain_mb = _watched(lambda: blocks.prefill(rows, cache, language.profile, switch=False))
        before = replace(blocks.times)
        switching_s, switching_mb = _watched(lambda: blocks.prefill(rows, cache, language.profile))
        loads = blocks.times.loaded_s - before.loaded_s, blocks.times.waited_s - before.waited_s
        trials.append((plain_s, switching_s, *loads, plain_mb - before_mb, switching_mb - before_mb))
    medians = [statistics.median(values) for values in zip(*trials, strict=True)]
    return GraphTrial(widths.num_layers, num_tokens, *medians)


def _open(folder: Path, widths: Widths, num_slots: int) -> GraphLanguage:
    rotary = random_stack(replace(widths, num_layers=0, vocab_size=1), "fp32").rotary
    shape: TextShape = widths.shape
    return GraphLanguage(folder, _sizes(widths), shape, rotary, num_slots)


def _watched(work: Callable[[], object]) -> tuple[float, float]:
    """Return the work's seconds of this thread, and the peak memory, sampled every millisecond."""
    peak_mb, done = [_resident_mb()], threading.Event()

    def watch() -> None:
        while not done.wait(0.001):
            peak_mb[0] = max(peak_mb[0], _resident_mb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began_s = time.thread_time()
    work()
    took_s = time.thread_time() - began_s
    done.set()
    watcher.join()
    return took_s, peak_mb[0]


def _resident_mb() -> float:
    """Return the resident memory that belongs to no file."""
    resident, of_files = Path("/proc/self/statm").read_text().split()[1:3]
    return (int(resident) - int(of_files)) * _PAGE_MB


@dataclass(frozen=True)
class Choice:
    """A token as chosen by static graphs, by the same integers in float32, and by the eager int4 draft.

    is_best: the eager draft has no token likelier than the graphs' choice. gap: by how much float32 prefers
    its own choice to the eager one. difference: the largest difference of a logit between these two.
    """

    graphs: int
    in_float32: int
    eager: int
    is_best: bool
    gap: float
    difference: float


def graph_agreement(folder: Path, prompts: Sequence[Prompt]) -> list[Ratio]:
    """Return the share of tokens on which an int4 draft's static graphs choose as the same integers do.

    The integers are run eagerly: once multiplied in float32, as graphs do, and once in bfloat16, as the
    eager draft does. The latter's logits are products rounded to 8 bits of mantissa, so that two close ones
    come out equal. Each of them is then a best choice, though the eager draft takes the one with the lower
    id.
    """
    choices = compare_choices(folder, prompts)
    strays = [choice for choice in choices if choice.graphs != choice.eager]
    gap = max((choice.gap for choice in strays), default=0.0)
    noise = statistics.median(choice.difference for choice in choices)
    why = f"of {len(strays)} it takes another, with gaps to {gap:.3f} where logits differ by {noise:.3f}"
    same_as_float32, best_of_eager = (
        [choice.graphs == choice.in_float32 for choice in choices],
        [choice.is_best for choice in choices],
    )
    return [
        _share("static graphs choose as their integers do in float32", same_as_float32),
        _share("static graphs choose a best token of the eager int4 draft", best_of_eager, why),
    ]


def _share(what: str, right: Sequence[bool], why: str = "") -> Ratio:
    detail = f"{sum(right)} of {len(right)} tokens"
    return Ratio(what, statistics.mean(right), 1.0, False, f"{detail}; {why}" if why else detail)


def compare_choices(folder: Path, prompts: Sequence[Prompt]) -> list[Choice]:
    """Compare COMPARED_TOKENS of each prompt; all three continue with the choice of float32."""
    from outrider.models import load_exact_model, load_graph_model, load_model

    models = load_graph_model(folder), load_exact_model(folder, "int4"), load_model(folder, precision="int4")
    sessions: list[ModelSession] = [model.open_session() for model in models]
    choices = []
    for prompt in prompts:
        rows = [session.prefill(prompt) for session in sessions]
        for _ in range(COMPARED_TOKENS):
            choices.append(_choice(*rows))
            rows = [session.forward([choices[-1].in_float32])[0] for session in sessions]
    return choices


def _choice(graphs: Any, in_float32: Any, eager: Any) -> Choice:
    """Return the choice of three rows of logits (V,)."""
    chosen, float32_choice, eager_choice = (int(row.argmax()) for row in (graphs, in_float32, eager))
    gap, difference = (
        float(in_float32[float32_choice] - in_float32[eager_choice]),
        float((in_float32 - eager).abs().max()),
    )
    return Choice(
        chosen, float32_choice, eager_choice, bool(eager[chosen] == eager[eager_choice]), gap, difference
    )


def graph_ratios(trial: GraphTrial) -> list[Ratio]:
    """Return ratios: hidden share of the loading, the switch's extra computing, its peak memory."""
    hidden = f"{1e3 * trial.waited_s:.1f} of {1e3 * trial.loaded_s:.0f} ms waited for"
    computed = f"{trial.switching_s:.2f} against {trial.plain_s:.2f} s"
    memory = f"{trial.switching_mb:.0f} against {trial.plain_mb:.0f} MB"
    where = f"{trial.num_tokens} tokens, {trial.num_layers} layers of 2B"
    return [
        Ratio(f"graph loading hidden, {where}", trial.hidden_share, 0.95, False, hidden),
        Ratio("computing while switching over not", trial.switching_s / trial.plain_s, 1.1, True, computed),
        Ratio("peak memory while switching over one graph", trial.memory_ratio, 1.1, True, memory),
    ]
