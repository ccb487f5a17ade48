# SPDX-License-Identifier: Apache-2.0
"""The record of a run, and its files: report.json and rounds.jsonl."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from outrider.core.files.private_files import make_private_folder
from outrider.core.files.writing import replace_file
from outrider.core.values import Pose2D, RoundStats, TokenFate, wrap_angle
from outrider.runtime.common.json_figures import REPORT_FILE, write_figures
from outrider.runtime.plans.progress import Progress
from outrider.runtime.reports.verdict import Verdict
from outrider.simulation.homes.home import Home


@dataclass(frozen=True)
class StepRecord:
    """One step of a run. Times are seconds since the goal was given.

    `action_s` is when the action was verified, `finished_s` when the whole text was, and `moved_s` when the
    motion ended. `latency_s` is the time from the frame's stamp to the verified action.
    """

    index: int
    frame_s: float
    action_s: float
    finished_s: float
    moved_s: float
    text: str
    action: str
    latency_s: float
    tokens: int
    tokens_per_s: float
    tokens_per_round: float
    target_passes: int
    note: str = ""


@dataclass(frozen=True)
class Shot:
    """One camera picture (JPEG), with its time in seconds since the goal was given."""

    time_s: float
    jpeg: bytes


@dataclass(frozen=True)
class PoseRecord:
    """The robot's pose by odometry, and its true pose (the same if the true one is unknown)."""

    time_s: float
    odometry: Pose2D
    truth: Pose2D


@dataclass(frozen=True)
class RoundRecord:
    """A decoding round and the step it belongs to."""

    step: int
    stats: RoundStats


@dataclass(frozen=True)
class RunRecord:
    """The complete record of one run. `home` is None in unknown surroundings (a real robot).

    `checked`: `success` was measured; otherwise the robot reported it. `conditions` are what the figures
    depend on: seed, link, versions, machine. `link_states` are the states with the time of each change.
    `tokens` are each step's tokens by its index, final and rejected ones, in text order. `plan` is the plan
    with its progress.
    """

    instruction: str
    success: bool
    outcome: str
    message: str
    strategy: str
    duration_s: float
    target_distance_m: float | None = None
    collisions: int = 0
    link_states: tuple[tuple[float, str], ...] = ()
    home: Home | None = None
    checked: bool = False
    conditions: Mapping[str, Any] = field(default_factory=dict)
    plan: Progress = field(default_factory=Progress)
    steps: list[StepRecord] = field(default_factory=list)
    shots: list[Shot] = field(default_factory=list)
    poses: list[PoseRecord] = field(default_factory=list)
    rounds: list[RoundRecord] = field(default_factory=list)
    tokens: Mapping[int, Sequence[tuple[str, TokenFate]]] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """Returns the verdict that was printed for the run."""
        if not self.success:
            return Verdict.FAILED
        return Verdict.SUCCESS if self.checked else Verdict.DONE


def summary(run: RunRecord) -> dict[str, Any]:
    """Returns the figures of report.json. A mean over nothing is None."""
    tokens = sum(step.tokens for step in run.steps)
    decoding_s = sum(step.tokens / step.tokens_per_s for step in run.steps if step.tokens_per_s > 0.0)
    emitted = [record.stats.emitted for record in run.rounds]
    return {
        "instruction": run.instruction,
        "plan": list(run.plan.steps),
        "plan_steps_done": run.plan.current,
        "success": run.success,
        "checked": run.checked,
        "verdict": run.verdict.value,
        "outcome": run.outcome,
        "message": run.message,
        "strategy": run.strategy,
        "duration_s": round(run.duration_s, 3),
        "steps": len(run.steps),
        "path_m": round(path_length_m(run.poses), 3),
        "target_distance_m": run.target_distance_m,
        "collisions": run.collisions,
        "tokens": tokens,
        "tokens_per_s": tokens / decoding_s if decoding_s > 0.0 else None,
        "tokens_per_round": _mean(emitted),
        "target_passes": sum(step.target_passes for step in run.steps),
        "decision_latency_s": _mean([step.latency_s for step in run.steps]),
        "rounds": len(run.rounds),
        "bytes_up": sum(record.stats.bytes_up for record in run.rounds),
        "bytes_down": sum(record.stats.bytes_down for record in run.rounds),
        "link_states": [state for _, state in run.link_states],
        **run.conditions,
        "step_log": [asdict(step) for step in run.steps],
    }


def path_length_m(poses: list[PoseRecord]) -> float:
    """Returns the length of the true path."""
    pairs = pairwise(poses)
    return sum(before.truth.distance_to(after.truth.x, after.truth.y) for before, after in pairs)


def write_summary(run: RunRecord, folder: Path) -> Path:
    """Write report.json, then rounds.jsonl. Returns the path of the first."""
    make_private_folder(folder)
    report = folder / REPORT_FILE
    write_figures(report, summary(run))
    lines = [json.dumps({"step": record.step, **asdict(record.stats)}) + "\n" for record in run.rounds]
    replace_file(folder / "rounds.jsonl", "".join(lines).encode())
    return report


def pose_at(poses: Sequence[PoseRecord], time_s: float) -> Pose2D:
    """Returns the robot's true pose at a time, interpolated between two records."""
    after = bisect_right(poses, time_s, key=lambda record: record.time_s)
    if after in (0, len(poses)):
        return poses[min(after, len(poses) - 1)].truth
    a, b = poses[after - 1], poses[after]
    share = (time_s - a.time_s) / (b.time_s - a.time_s)
    turned = wrap_angle(b.truth.yaw - a.truth.yaw)
    return Pose2D(
        a.truth.x + share * (b.truth.x - a.truth.x),
        a.truth.y + share * (b.truth.y - a.truth.y),
        wrap_angle(a.truth.yaw + share * turned),
    )


def _mean(values: list[int] | list[float]) -> float | None:
    return sum(values) / len(values) if values else None
