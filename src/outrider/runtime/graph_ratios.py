"""What static graphs of a draft choose beside the same integers run eagerly, and what loading them costs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.core.ports import ModelSession
from outrider.core.values import Prompt
from outrider.runtime.ratios import Ratio

if TYPE_CHECKING:
    from outrider.models.graphs.trial import GraphTrial

PROMPT_TOKENS = 1000
COMPARED_TOKENS = 32


@dataclass(frozen=True)
class Choice:
    """A token as static graphs, the same integers in float32, and the eager int4 draft choose it.

    ties: the eager draft has another token exactly as likely as its own. gap: by how much float32 sets its
    own choice above the eager one. difference: the most that any logit is off between these two.
    """

    graphs: int
    in_float32: int
    eager: int
    ties: bool
    gap: float
    difference: float


def graph_agreement(folder: Path, prompts: Sequence[Prompt]) -> list[Ratio]:
    """Tokens on which an int4 draft as static graphs chooses as the same integers do eagerly.

    Once multiplied in float32, as graphs multiply them, and once in bfloat16, as the eager draft runs: its
    logits are products rounded to 8 bits of mantissa, so that two close ones come out equal. The last ratio
    is of those tokens that it tells apart itself.
    """
    choices = compare_choices(folder, prompts)
    apart = [one for one in choices if not one.ties]
    strays = [one for one in choices if one.graphs != one.eager]
    noise = statistics.median(one.difference for one in choices)
    why = f"{sum(one.ties for one in strays)} of {len(strays)} others tie eagerly, "
    why += f"gaps to {max((one.gap for one in strays), default=0.0):.3f} where logits differ by {noise:.3f}"
    eager = "static graphs choose as the eager int4 draft"
    return [
        _alike("static graphs choose as their integers do in float32", choices, "in_float32"),
        _alike(eager, choices, "eager", why),
        _alike(f"{eager}, where its best do not tie", apart, "eager"),
    ]


def _alike(what: str, choices: Sequence[Choice], other: str, why: str = "") -> Ratio:
    alike = [one.graphs == getattr(one, other) for one in choices]
    detail = f"{sum(alike)} of {len(alike)} tokens"
    share = statistics.mean(alike) if alike else 1.0
    return Ratio(what, share, 1.0, False, f"{detail}; {why}" if why else detail)


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
    best, second = eager.topk(2).values.tolist()
    mine, own = int(eager.argmax()), int(in_float32.argmax())
    gap, difference = float(in_float32[own] - in_float32[mine]), float((in_float32 - eager).abs().max())
    return Choice(int(graphs.argmax()), own, mine, best == second, gap, difference)


def graph_trial(num_layers: int) -> GraphTrial:
    from outrider.models.graphs.trial import run_trial

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
