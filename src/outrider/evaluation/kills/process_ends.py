# SPDX-License-Identifier: Apache-2.0
"""Ends of `outrider eval kills`: a process ends, freezes or is asked to end, and what must follow."""

from __future__ import annotations

import json
import math
import statistics
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from outrider.core.errors import OutriderError
from outrider.core.files.writing import replace_file
from outrider.decoding.protocol.validation import require_choice
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.common.trials import run_trials
from outrider.evaluation.kills.ends import ENDS, GOES_ON, LIMIT_S, End
from outrider.evaluation.kills.process_kills import Kill, is_bounded
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import models_folder
from outrider.runtime.node_graph.node_specs import MOTIONS


@dataclass(frozen=True)
class Trial:
    """What followed one end. Times are seconds from it on.

    `to_zero_s` is infinite if nothing shows that the base stood. `action` was verified last. `there`:
    whether the process was still there; `outlived` names processes that should have ended and had not.
    `went_on`: whether the robot moved again. `reason` is its first message. `error` says why there was no
    trial, `seen` what was observed.
    """

    kind: str
    to_zero_s: float = math.inf
    metres: float = 0.0
    degrees: float = 0.0
    action: str = ""
    there: bool = False
    outlived: tuple[str, ...] = ()
    went_on: bool = False
    reason: str = ""
    error: str = ""
    seen: str = ""


def faults_of(trial: Trial) -> list[str]:
    """Return what is not as it must be; empty if all is."""
    if trial.error:
        return [f"no trial: {trial.error}"]
    end = ENDS[trial.kind]
    faults = [f"{name} outlived it" for name in trial.outlived]
    if end.survives and not trial.there:
        faults.append(f"{end.process} ended")
    if not end.stands:
        return faults if trial.went_on else [*faults, "the robot did not go on"]
    if math.isinf(trial.to_zero_s):
        return [*faults, "the robot never stood"]
    if end.bounded and not is_bounded(Kill("", True, 0.0, trial.metres, trial.degrees, trial.action)):
        faults.append(
            f"{trial.metres:.2f} m and {trial.degrees:.0f} degrees after {trial.action or 'nothing'!r}"
        )
    if not end.bounded and trial.to_zero_s > LIMIT_S + 1e-9:
        faults.append(f"stood after {trial.to_zero_s:.2f} s, {LIMIT_S:g} s are allowed")
    return faults


def ends_figures(trials: Sequence[Trial]) -> dict[str, dict[str, Any]]:
    """Return a row for each kind that was tried, in the order of ENDS."""
    by_kind = {kind: [trial for trial in trials if trial.kind == kind] for kind in ENDS}
    return {kind: _row(ENDS[kind], of_kind) for kind, of_kind in by_kind.items() if of_kind}


def _row(end: End, trials: Sequence[Trial]) -> dict[str, Any]:
    finished = [trial for trial in trials if not trial.error]
    stood_s = [trial.to_zero_s for trial in finished] if end.stands else []
    reasons = Counter(trial.reason for trial in finished if trial.reason)
    return {
        "trials": len(finished),
        "median_to_zero_s": round(statistics.median(stood_s), 3) if stood_s else None,
        "worst_to_zero_s": round(max(stood_s), 3) if stood_s else None,
        "bound": end.bound,
        "outlived": sum(bool(trial.outlived) for trial in finished),
        "reason": reasons.most_common(1)[0][0] if reasons else "",
        "failed": sum(bool(faults_of(trial)) for trial in trials),
    }


def ends_table(rows: dict[str, dict[str, Any]]) -> Table:
    """Return the table of every kind of end."""
    columns = ("trials", "median s", "worst s", "bound", "outlived", "failed")
    keys = ("trials", "median_to_zero_s", "worst_to_zero_s", "bound", "outlived", "failed")
    cells = (
        (kind, *("" if row[key] is None else str(row[key]) for key in keys)) for kind, row in rows.items()
    )
    return results_table("ends of processes under way", "end", *columns, rows=cells)


def reasons(rows: dict[str, dict[str, Any]]) -> list[str]:
    """Return the robot's most frequent message, for each kind after which it must stand."""
    return [f"{kind}: {row['reason'] or 'nothing'}" for kind, row in rows.items() if row["bound"] != GOES_ON]


def failures(trials: Sequence[Trial]) -> list[str]:
    """Return each failed trial with what was observed: a line for each fault and each observation."""
    lines = []
    for trial in trials:
        faults = faults_of(trial)
        lines += [f"{trial.kind}: {fault}" for fault in faults]
        lines += [f"    {line}" for line in trial.seen.splitlines()] if faults else []
    return lines


def trial_line(trial: Trial) -> str:
    """Return one line of progress for a trial."""
    faults = faults_of(trial)
    if faults:
        return f"{trial.kind}: FAILED: {'; '.join(faults)}"
    end = ENDS[trial.kind]
    outcome = f"stood after {trial.to_zero_s:.2f} s" if end.stands else "went on"
    return f"{trial.kind}: {outcome}" + (f" ({trial.reason})" if trial.reason else "")


def write_trials(file: Path, trials: Sequence[Trial]) -> None:
    """Writes trials as JSON."""
    replace_file(file, json.dumps([asdict(trial) for trial in trials]).encode())


def read_trials(file: Path) -> list[Trial]:
    """Return the trials that `write_trials` wrote."""
    content = json.loads(file.read_text())
    return [Trial(**{**trial, "outlived": tuple(trial["outlived"])}) for trial in content]


def evaluate_ends(
    ends: Sequence[End],
    trials: int,
    seed: int,
    models: Path | None,
    json_file: Path | None,
    kills: dict[str, Any] | None = None,
    motion: str = MOTIONS[0],
) -> dict[str, Any]:
    """Run, print, write JSON with the figures of `kills`; `failed` counts the failed trials.

    Raises OutriderError if the trials cannot be run, ConfigError for an unknown motion.
    """
    require_choice("motion", motion, MOTIONS)
    folder = models_folder(models.resolve() if models else None)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "ends.json"
        arguments = (scratch, str(file), str(trials), str(seed), str(folder), motion)
        if run_trials("outrider.evaluation.kills.end_trials", *arguments, *(end.kind for end in ends)) != 0:
            raise OutriderError("the trials did not come to their end: the reason is above")
        finished = read_trials(file)
    rows = ends_figures(finished)
    print_results(ends_table(rows), "what the robot said:", *reasons(rows), *failures(finished))
    figures = {"ends": rows, "failed": sum(row["failed"] for row in rows.values())}
    details = {"seed": seed, "motion": motion, "trials": [asdict(trial) for trial in finished]}
    write_figures(json_file, (kills or {}) | figures | details)
    return figures
