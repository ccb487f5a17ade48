# SPDX-License-Identifier: Apache-2.0
"""A verification by a made-up target of the 7B's width: what exits, other robots and fewer bits add to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from outrider.core.model_options import Precision
from outrider.evaluation.common.ratios import Ratio

if TYPE_CHECKING:
    from outrider.evaluation.models.step_trial import StepTrial

STEP_LAYERS = {"cpu": 3, "cuda": 28}
STEP_REPEATS = 9
CONTEXT = 1000
PACKED_PRECISIONS: tuple[Precision, ...] = ("int8", "int4")


def step_trial(device: str, num_layers: int) -> StepTrial:
    """Returns the times of a target of the 7B's width with so many layers."""
    from outrider.evaluation.models.step_trial import run_step_trial

    return run_step_trial(device, num_layers, CONTEXT, STEP_REPEATS)


def step_ratios(trial: StepTrial) -> list[Ratio]:
    """What exits add to a verification by a 7B's layers; on a GPU also over reading its weights once."""
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
    """Seconds of a verification by weights of fewer bits, on a GPU."""
    from outrider.evaluation.models.step_trial import packed_verify_seconds

    if device == "cpu":
        return {}
    return {
        precision: packed_verify_seconds(device, precision, num_layers, CONTEXT, STEP_REPEATS)
        for precision in PACKED_PRECISIONS
    }


def packed_ratios(packed_s: Mapping[Precision, float], trial: StepTrial) -> list[Ratio]:
    """A verification by weights of fewer bits over one in bfloat16, both without exits."""
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
