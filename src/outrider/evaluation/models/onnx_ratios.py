# SPDX-License-Identifier: Apache-2.0
"""What static graphs of a draft choose beside the same integers run eagerly, and what loading them costs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.core.ports import ModelSession
from outrider.core.values import Prompt
from outrider.evaluation.common.ratios import Ratio

if TYPE_CHECKING:
    from outrider.evaluation.models.graph_trial import GraphTrial

PROMPT_TOKENS = 1000
COMPARED_TOKENS = 32


@dataclass(frozen=True)
class Choice:
    """A token as static graphs, the same integers in float32, and the eager int4 draft choose it.

    is_best: the eager draft has no token likelier than the graphs' choice. gap: by how much float32 sets its
    own choice above the eager one. difference: the most that any logit is off between these two.
    """

    graphs: int
    in_float32: int
    eager: int
    is_best: bool
    gap: float
    difference: float


def graph_agreement(folder: Path, prompts: Sequence[Prompt]) -> list[Ratio]:
    """Tokens on which an int4 draft as static graphs chooses as the same integers do eagerly.

    Once multiplied in float32, as graphs multiply them, and once in bfloat16, as the eager draft runs: its
    logits are products rounded to 8 bits of mantissa, so that two close ones come out equal. Either of them
    is then a best choice of its own, though it takes the one of the lower id.
    """
    choices = compare_choices(folder, prompts)
    strays = [one for one in choices if one.graphs != one.eager]
    gap = max((one.gap for one in strays), default=0.0)
    noise = statistics.median(one.difference for one in choices)
    why = f"of {len(strays)} it takes another, with gaps to {gap:.3f} where logits differ by {noise:.3f}"
    alike, best = [one.graphs == one.in_float32 for one in choices], [one.is_best for one in choices]
    return [
        _share("static graphs choose as their integers do in float32", alike),
        _share("static graphs choose a best token of the eager int4 draft", best, why),
    ]


def _share(what: str, right: Sequence[bool], why: str = "") -> Ratio:
    detail = f"{sum(right)} of {len(right)} tokens"
    return Ratio(what, statistics.mean(right), 1.0, False, f"{detail}; {why}" if why else detail)


def compare_choices(folder: Path, prompts: Sequence[Prompt]) -> list[Choice]:
    """COMPARED_TOKENS of each prompt; what float32 chooses is what all three go on from."""
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
    """Of three rows of logits (V,)."""
    chosen, own, mine = (int(row.argmax()) for row in (graphs, in_float32, eager))
    gap, difference = float(in_float32[own] - in_float32[mine]), float((in_float32 - eager).abs().max())
    return Choice(chosen, own, mine, bool(eager[chosen] == eager[mine]), gap, difference)


def graph_trial(num_layers: int) -> GraphTrial:
    """Returns the times of static graphs of so many layers."""
    from outrider.evaluation.models.graph_trial import run_trial

    return run_trial(num_layers, PROMPT_TOKENS, repeats=1)


def graph_ratios(trial: GraphTrial) -> list[Ratio]:
    """What of the loading is hidden, what the switch computes more, and its peak memory."""
    hidden = f"{1e3 * trial.waited_s:.1f} of {1e3 * trial.loaded_s:.0f} ms waited for"
    computed = f"{trial.switching_s:.2f} against {trial.plain_s:.2f} s"
    memory = f"{trial.switching_mb:.0f} against {trial.plain_mb:.0f} MB"
    where = f"{trial.num_tokens} tokens, {trial.num_layers} layers of 2B"
    return [
        Ratio(f"graph loading hidden, {where}", trial.hidden_share, 0.95, False, hidden),
        Ratio("computing while switching over not", trial.switching_s / trial.plain_s, 1.1, True, computed),
        Ratio("peak memory while switching over one graph", trial.memory_ratio, 1.1, True, memory),
    ]
