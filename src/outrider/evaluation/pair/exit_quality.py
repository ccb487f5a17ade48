# SPDX-License-Identifier: Apache-2.0
"""`outrider eval exits`: how good the target's early exits are, and what they cost."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from outrider.core.errors import ModelError
from outrider.core.files.terminal import tracked
from outrider.core.values import Prompt
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.ratios import forward_seconds
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.pair.speculation import Verification, verifications
from outrider.models import QwenModel
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.held_out import Pair, check_frames, held_out_prompts, load_pair

NUM_DRAFT_TOKENS = 4
TIMED_FORWARDS = 400
BINS = 10


@dataclass(frozen=True)
class ExitQuality:
    """One exit over the held-out frames; shares of 1.

    `agreement`: its choice is the target's, at all verified positions; `contested_agreement`: at positions
    where the draft was rejected. `hint_agreement`: its accepted count and next token are the verdict's.
    `auc`: how often a right hint has more confidence than a wrong one. `calibration_error`: expected, over
    ten bins of confidence. `cost`: its marginal time relative to a verification without exits.
    """

    layer: int
    agreement: float
    contested_agreement: float
    hint_agreement: float
    mean_confidence: float
    auc: float
    calibration_error: float
    cost: float


def share(flags: Sequence[bool]) -> float:
    """Return the share that is true; nan for no flags."""
    return sum(flags) / len(flags) if flags else float("nan")


def auc(hints: Sequence[tuple[float, bool]]) -> float:
    """Return the probability that a right hint has more confidence than a wrong one.

    A tie counts half. Return nan without both kinds.
    """
    right = [confidence for confidence, is_right in hints if is_right]
    wrong = [confidence for confidence, is_right in hints if not is_right]
    if not right or not wrong:
        return float("nan")
    wins = sum((r > w) + 0.5 * (r == w) for r in right for w in wrong)
    return wins / (len(right) * len(wrong))


def calibration_error(hints: Sequence[tuple[float, bool]], bins: int = BINS) -> float:
    """Return the expected calibration error over equal bins, weighted by their numbers of hints.

    The error of a bin is |confidence - share right|.
    """
    members: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for confidence, is_right in hints:
        members[min(bins - 1, int(confidence * bins))].append((confidence, is_right))
    gaps = (
        abs(sum(c for c, _ in hints_of_bin) - sum(is_right for _, is_right in hints_of_bin))
        for hints_of_bin in members
    )
    return sum(gaps) / len(hints) if hints else float("nan")


def judge_exit(index: int, layer: int, rounds: Sequence[Verification], cost: float) -> ExitQuality:
    """Return an exit's figures over all verifications."""
    agreeing, contested, hints = [], [], []
    for verification in rounds:
        result, verdict = verification.exits[index], verification.emitted
        right = [choice == token for choice, token in zip(result.choices, verdict, strict=False)]
        agreeing += right
        if len(verdict) <= len(verification.draft) and verdict[-1] != verification.draft[len(verdict) - 1]:
            contested.append(right[-1])
        hints.append((result.confidence, result.hint == verdict))
    return ExitQuality(
        layer=layer,
        agreement=share(agreeing),
        contested_agreement=share(contested),
        hint_agreement=share([is_right for _, is_right in hints]),
        mean_confidence=statistics.mean(confidence for confidence, _ in hints),
        auc=auc(hints),
        calibration_error=calibration_error(hints),
        cost=cost,
    )


def exit_costs(model: QwenModel, prompt: Prompt, timed_forwards: int) -> tuple[float, list[float]]:
    """Return the seconds of a verification without exits, and the relative costs of exits.

    The costs are of each exit alone, and last of all exits together. All variants are timed alternately, so
    that changes of the machine affect them alike. The costs are medians of paired differences of this
    thread's processor time, which other programs do not lengthen.
    """
    assert model.exits is not None
    indices = range(len(model.exits.layers))
    subsets = [*([index] for index in indices), list(indices)]
    sessions = [each.open_session() for each in (model, *(model.with_exits(subset) for subset in subsets))]
    for session in sessions:
        session.prefill(prompt)
    times: list[list[float]] = [[] for _ in sessions]
    for _ in range(timed_forwards):
        for number, session in enumerate(sessions):
            times[number].append(forward_seconds(session, NUM_DRAFT_TOKENS + 1, exits=number > 0))
    plain = statistics.median(times[0])
    extras = [[took_s - base_s for took_s, base_s in zip(each, times[0], strict=True)] for each in times[1:]]
    return plain, [statistics.median(extra) / plain for extra in extras]


def evaluate_exits(
    frames: int,
    seed: int,
    models: Path | None = None,
    json_file: Path | None = None,
    pair: Pair | None = None,
    timed_forwards: int = TIMED_FORWARDS,
) -> dict[str, Any]:
    """Measure, print a table, write JSON. Raises ModelError if the target has no exits.

    `timed_forwards`: the number of verifications that are timed, with each exit and without.
    """
    check_frames(frames, seed)
    pair = pair or load_pair(models)
    info = pair.target.exits
    if info is None or not isinstance(pair.target, QwenModel):
        raise ModelError(f"{pair.target.name} has no early exits: run `outrider train exits` for it")
    prompts = list(held_out_prompts(frames, seed))
    verify_s, costs = exit_costs(pair.target, prompts[0], timed_forwards)
    rounds = [
        verification
        for prompt in tracked(prompts, "frames")
        for verification in verifications(pair, info, prompt, NUM_DRAFT_TOKENS)
    ]
    exits = [judge_exit(index, layer, rounds, costs[index]) for index, layer in enumerate(info.layers)]
    num_tokens = sum(len(verification.emitted) for verification in rounds)
    figures = {
        "frames": frames,
        "seed": seed,
        "tokens": num_tokens,
        "tokens_per_round": num_tokens / len(rounds),
        "num_layers": info.num_layers,
        "shortlist": len(info.token_ids),
        "verify_ms": 1e3 * verify_s,
        "cost_of_all": costs[-1],
        "exits": [asdict(quality) for quality in exits],
    }
    _print(exits, figures)
    write_figures(json_file, figures)
    return figures


def _print(exits: Iterable[ExitQuality], figures: dict[str, Any]) -> None:
    rows = (
        (f"{layer} of {figures['num_layers']}", *(f"{100 * value:.1f}" for value in shares))
        for layer, *shares in (asdict(exit_quality).values() for exit_quality in exits)
    )
    print_results(
        results_table("early exits of the target, per cent", *LEGENDS["eval exits"], rows=rows),
        f"{figures['frames']} frames, {figures['tokens']} tokens, {figures['tokens_per_round']:.2f} a round "
        f"of {NUM_DRAFT_TOKENS} drafted; shortlist of {figures['shortlist']}; all exits together cost "
        f"{100 * figures['cost_of_all']:.1f}% of a verification ({figures['verify_ms']:.2f} ms)",
    )
