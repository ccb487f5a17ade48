# SPDX-License-Identifier: Apache-2.0
"""Kills of `outrider eval kills --hedged`: one of two verifiers at a time, while the robot drives goals.

Control moments, chosen alike in the same goals with nothing killed, show the cost of a kill by comparison.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table

from outrider.core.errors import ConfigError, OutriderError
from outrider.core.ports import TextDecoder
from outrider.decoding.protocol.validation import require_choice
from outrider.evaluation.common.decoders import decoder_of
from outrider.evaluation.common.record_files import RecordFile
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.common.trials import run_trials
from outrider.evaluation.kills.ends import LIMIT_S
from outrider.evaluation.kills.process_kills import RECORDING_FILE, RESULT_FILE
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import models_folder
from outrider.runtime.node_graph.node_specs import MOTIONS
from outrider.runtime.reports.recording import RecordedStep, read_steps
from outrider.runtime.reports.replay import compare

KILLS_PER_GOAL = 16
FEWEST_KILLS_PER_GOAL = 0.5
"""On average; otherwise goals that end too soon for a kill would go on forever."""
VERIFIERS = ("first", "second")
KEPT_FILE = "goals.jsonl"


class Moment(msgspec.Struct, frozen=True):
    """A kill of the verifier `killed`, or a control moment, for which `killed` is empty.

    `stand_s`: the longest time without motion from then until the robot moves by a text that was begun
    later; None if the goal ended before. `moving`: whether the robot moved at that moment.
    """

    killed: str
    moving: bool
    stand_s: float | None


class Texts(msgspec.Struct, frozen=True):
    """The recorded texts of a goal.

    `different` texts are not as the target alone writes them. `ended_early` ones were aborted although the
    robot had not read enough. `tokens_lost`: all tokens of the former, and the missing tokens of the
    latter.
    """

    texts: int = 0
    tokens: int = 0
    different: int = 0
    ended_early: int = 0
    tokens_lost: int = 0


class HedgedGoal(msgspec.Struct, frozen=True):
    """One goal in one home. `failed`: it ended neither at the target nor after a vain search."""

    seed: int
    reached: bool
    failed: bool
    message: str
    moments: tuple[Moment, ...] = ()
    texts: Texts = Texts()


def check_texts(steps: Sequence[RecordedStep], target: TextDecoder) -> Texts:
    """Decode recorded steps again with the target alone; count what they lack."""
    tokens = different = ended_early = lost = 0
    for step in steps:
        decoded = target.decode(step.request)
        tokens += step.verified_tokens
        if not compare(step, decoded).agrees:
            different += 1
            lost += step.verified_tokens
        elif not step.finished and not step.cut:
            ended_early += 1
            lost += len(decoded.token_ids) - step.verified_tokens
    return Texts(len(steps), tokens, different, ended_early, lost)


def evaluate_hedged_kills(
    kills: int,
    seed: int,
    models: Path | None,
    run: Path | None,
    json_file: Path | None,
    motion: str = MOTIONS[0],
) -> dict[str, Any]:
    """Drive goals until `kills` kills are done; print, and write JSON as it goes.

    `failed` counts what is not as it must be. Goals kept in the folder `run` are not driven again. Raises
    OutriderError if the processes cannot be run, ConfigError for an unknown motion or kept goals of another
    kind.
    """
    require_choice("motion", motion, MOTIONS)
    folder = models_folder(models.resolve() if models else None)
    common: dict[str, str | int] = {"seed": seed, "motion": motion}
    records = RecordFile(run and run / KEPT_FILE, HedgedGoal, "goals", common)
    goals, target = list(records.records), decoder_of("target", folder)
    while (remaining := kills - len(_killed(goals))) > 0:
        if len(goals) * FEWEST_KILLS_PER_GOAL > kills:
            raise OutriderError(f"only {kills - remaining} kills in {len(goals)} goals: they end too soon")
        goals.append(drive(seed + len(goals), min(remaining, KILLS_PER_GOAL), folder, target, motion))
        records.add(goals[-1])
        print(f"{len(_killed(goals))} of {kills} kills; {goals[-1].message}", flush=True)
        write_figures(json_file, common | hedged_figures(goals, kills))
    figures = common | hedged_figures(goals, kills)
    print_results(*hedged_tables(figures))
    write_figures(json_file, figures)
    return figures


def drive(seed: int, kills: int, models: Path, target: TextDecoder, motion: str) -> HedgedGoal:
    """Drive one goal with at most `kills` kills, in separate processes that may use ROS."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = (str(kills), str(seed))
        if run_trials("outrider.evaluation.kills.hedged_trials", folder, *numbers, str(models), motion):
            raise OutriderError("the trials did not come to their end: the reason is above")
        goal = msgspec.json.decode((Path(folder) / RESULT_FILE).read_bytes(), type=HedgedGoal)
        return msgspec.structs.replace(goal, texts=_texts_of(Path(folder) / RECORDING_FILE, target))


def _texts_of(recording: Path, target: TextDecoder) -> Texts:
    try:
        return check_texts(read_steps(recording), target)
    except ConfigError:
        return Texts()


def _moments(goals: Sequence[HedgedGoal], kills: bool) -> list[Moment]:
    return [moment for goal in goals for moment in goal.moments if bool(moment.killed) == kills]


def _killed(goals: Sequence[HedgedGoal]) -> list[Moment]:
    return _moments(goals, kills=True)


def hedged_figures(goals: Sequence[HedgedGoal], wanted_kills: int) -> dict[str, Any]:
    """Return the counts, and the longest stands.

    `beyond_s`: by how much the longest stand after a kill exceeds the longest at a control moment. It fails
    above LIMIT_S. Failures are also texts that lost tokens, failed goals, goals without texts, and kills
    missing from the `wanted_kills` number.
    """
    killed = _killed(goals)
    rows = {name: _row([moment for moment in killed if moment.killed == name]) for name in VERIFIERS}
    rows["none"] = _row(_moments(goals, kills=False))
    longest_s = max(rows[name]["longest_s"] for name in VERIFIERS)
    texts = [goal.texts for goal in goals]
    figures: dict[str, Any] = {
        "kills": len(killed),
        "goals": len(goals),
        "reached": sum(goal.reached for goal in goals),
        "failed_goals": sum(goal.failed for goal in goals),
        "rows": rows,
        "beyond_s": round(max(0.0, longest_s - rows["none"]["longest_s"]), 3),
        **{name: sum(getattr(counts, name) for counts in texts) for name in Texts.__struct_fields__},
    }
    missing = max(0, wanted_kills - len(killed)) + sum(not counts.texts for counts in texts)
    figures["failed"] = (
        figures["different"]
        + figures["ended_early"]
        + (figures["beyond_s"] > LIMIT_S)
        + missing
        + figures["failed_goals"]
    )
    figures["each_goal"] = [msgspec.to_builtins(goal) for goal in goals]
    return figures


def _row(moments: Sequence[Moment]) -> dict[str, Any]:
    stands_s = sorted(moment.stand_s for moment in moments if moment.stand_s is not None)
    return {
        "times": len(moments),
        "moving": sum(moment.moving for moment in moments),
        "stands": len(stands_s),
        "median_s": round(statistics.median(stands_s), 3) if stands_s else 0.0,
        "longest_s": round(stands_s[-1], 3) if stands_s else 0.0,
    }


def hedged_tables(figures: dict[str, Any]) -> tuple[Table, str]:
    """Return the table and the note below it."""
    keys = ("times", "moving", "stands", "median_s", "longest_s")
    columns = ("verifier killed", "times", "moving", "stands", "median s", "longest s")
    rows = ((name, *(str(row[key]) for key in keys)) for name, row in figures["rows"].items())
    table = results_table("kill -9 of one of two verifiers", *columns, rows=rows)
    note = (
        f"{figures['tokens_lost']} of {figures['tokens']} tokens lost: {figures['different']} of "
        f"{figures['texts']} texts differ from the target's own, {figures['ended_early']} ended early; "
        f"{figures['reached']} of {figures['goals']} goals reached, "
        f"{figures['failed_goals']} failed; the longest stand after a kill is "
        f"{figures['beyond_s']:g} s beyond the longest without one"
    )
    return table, note
