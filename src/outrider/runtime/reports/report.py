# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind: report.json, rounds.jsonl, trajectory.png, run.mp4; from recorded data alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from outrider.core.files.private_files import make_private_folder
from outrider.core.files.writing import replace_file
from outrider.core.values import Pose2D, RoundStats
from outrider.runtime.common.json_figures import REPORT_FILE, write_figures
from outrider.runtime.reports.drawing import draw_trajectory
from outrider.runtime.reports.film import Shot, write_film
from outrider.runtime.reports.verdict import Verdict
from outrider.simulation.homes import Home


@dataclass(frozen=True)
class StepRecord:
    """One step as it happened. Times are seconds since the goal was given.

    `action_s` is when the action was verified, `finished_s` when the whole text was, `moved_s` when the robot
    stood again; `latency_s` runs from the frame's stamp to the verified action.
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
class PoseRecord:
    """Where the robot was: by its odometry and in truth (the same where the truth is unknown)."""

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
    """All that was recorded of one run. `home` is None where the surroundings are unknown (a real robot).

    `checked`: whether `success` was measured; else it is the robot's own account. `conditions` are what the
    figures depend on: seed, link, versions, machine.
    """

    instruction: str
    success: bool
    outcome: str
    message: str
    strategy: str
    duration_s: float
    target_distance_m: float | None = None
    collisions: int = 0
    link_states: tuple[str, ...] = ()
    home: Home | None = None
    checked: bool = False
    conditions: Mapping[str, Any] = field(default_factory=dict)
    steps: list[StepRecord] = field(default_factory=list)
    shots: list[Shot] = field(default_factory=list)
    poses: list[PoseRecord] = field(default_factory=list)
    rounds: list[RoundRecord] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """As it was printed."""
        if not self.success:
            return Verdict.FAILED
        return Verdict.SUCCESS if self.checked else Verdict.DONE


def summary(run: RunRecord) -> dict[str, Any]:
    """The figures of report.json. A mean over nothing is None."""
    tokens = sum(step.tokens for step in run.steps)
    decoding_s = sum(step.tokens / step.tokens_per_s for step in run.steps if step.tokens_per_s > 0.0)
    emitted = [record.stats.emitted for record in run.rounds]
    return {
        "instruction": run.instruction,
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
        "link_states": list(run.link_states),
        **run.conditions,
        "step_log": [asdict(step) for step in run.steps],
    }


def path_length_m(poses: list[PoseRecord]) -> float:
    """Length of the true path."""
    pairs = pairwise(poses)
    return sum(before.truth.distance_to(after.truth.x, after.truth.y) for before, after in pairs)


def write_report(run: RunRecord, folder: Path) -> Path:
    """Write all four files; the path of report.json. Files of an earlier run are replaced."""
    report = write_summary(run, folder)
    write_pictures(run, folder)
    return report


def write_summary(run: RunRecord, folder: Path) -> Path:
    """Write report.json, then rounds.jsonl; the path of the first."""
    make_private_folder(folder)
    report = folder / REPORT_FILE
    write_figures(report, summary(run))
    lines = [json.dumps({"step": record.step, **asdict(record.stats)}) + "\n" for record in run.rounds]
    replace_file(folder / "rounds.jsonl", "".join(lines).encode())
    return report


def write_pictures(
    run: RunRecord, folder: Path, stopped: Callable[[], bool] = lambda: False, video: bool = True
) -> None:
    """Draw trajectory.png and the film, which takes long: it is given up once `stopped` says so."""
    odometry, truth = [p.odometry for p in run.poses], [p.truth for p in run.poses]
    draw_trajectory(folder / "trajectory.png", run.instruction, run.success, odometry, truth, run.home)
    path = [(p.time_s, p.truth) for p in run.poses]
    (folder / "run.mp4").unlink(missing_ok=True)  # of an earlier run; without pictures there is no new one
    if not video:
        return
    write_film(folder / "run.mp4", run.instruction, run.shots, path, run.home, stopped)


def _mean(values: list[int] | list[float]) -> float | None:
    return sum(values) / len(values) if values else None
