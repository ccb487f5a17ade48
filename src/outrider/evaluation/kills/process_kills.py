# SPDX-License-Identifier: Apache-2.0
"""Kills of `outrider eval kills`: the real processes, killed as by kill -9 while the robot drives.

A verifier is killed and restarted during goals, over and over; then the recorded texts are decoded again,
without disturbance. Each process of the robot's side is killed as well: the base must be commanded to stand
within 0.3 s, and a process that the motion does not need must not keep the robot from its goal. Times and
velocities are the simulated base's own, after its deadman.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from outrider.core.errors import ConfigError, OutriderError
from outrider.core.files.writing import replace_file
from outrider.core.language.actions import ActionTable, Motion
from outrider.core.ports import TextDecoder
from outrider.decoding.protocol.validation import require_choice
from outrider.evaluation.common.decoders import decoder_of
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.common.trials import run_trials
from outrider.evaluation.kills.ends import LIMIT_S
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import models_folder
from outrider.runtime.node_graph.node_specs import MOTIONS
from outrider.runtime.reports.recording import read_steps
from outrider.runtime.reports.replay import replay_steps

# The console is killed while a person holds a button, the others while a text moves the robot.
STOPPING_NODES = ("camera", "navigator", "action", "simulation", "console")
# The motion does not need these: the goal must continue.
OPTIONAL_NODES = ("memory", "record", "markers")
KILLED_NODES = (*STOPPING_NODES, *OPTIONAL_NODES)
# Added to the action's own motion: corrections of sway and heading by the closed loop, and side steps.
OVERSHOOT, CORRECTED_M, CORRECTED_DEG = 1.15, 0.1, 5.0
# Without the simulated base, only the commands sent to it can be watched.
ROW_NAMES = {"simulation": "simulation (cmd_vel)"}
RESULT_FILE = "result.json"
# A recording is complete only if its recorder was not killed.
RUN_FOLDER, RECORDING_FILE = "run", "run.mcap"


@dataclass(frozen=True)
class Kill:
    """One kill -9, with the motion from then until the base stood and a new text was verified.

    `action` was verified last. `to_zero_s` is infinite if nothing shows that the base stood at the end.
    `reached` says, for a process that the motion does not need, whether the goal was reached.
    """

    node: str
    moving: bool
    to_zero_s: float
    metres: float = 0.0
    degrees: float = 0.0
    action: str = ""
    reached: bool | None = None


@dataclass(frozen=True)
class Run:
    """One goal in one home, with the kills during it."""

    seed: int
    reached: bool
    message: str
    kills: tuple[Kill, ...] = field(default_factory=tuple)


@dataclass(frozen=True)
class Texts:
    """Recorded steps with verified tokens, checked by an undisturbed decoding.

    `agree` of the `steps` are reproduced token for token; `broken_off` were aborted. `empty` steps had no
    token; `unread` recordings held no steps.
    """

    steps: int = 0
    agree: int = 0
    broken_off: int = 0
    empty: int = 0
    unread: int = 0

    def __add__(self, other: Texts) -> Texts:
        sums = (getattr(self, name) + getattr(other, name) for name in asdict(self))
        return Texts(*sums)


def is_bounded(kill: Kill, table: ActionTable | None = None) -> bool:
    """Whether the robot drove no more than the one action verified before a kill."""
    motion = (table or ActionTable()).motion(kill.action) or Motion()
    most_m = OVERSHOOT * motion.forward_m + CORRECTED_M
    most_deg = OVERSHOOT * math.degrees(abs(motion.turn_rad)) + CORRECTED_DEG
    return kill.metres <= most_m and kill.degrees <= most_deg


def is_late(kill: Kill) -> bool:
    """Whether the base stood later than LIMIT_S after a kill."""
    return kill.to_zero_s > LIMIT_S + 1e-9


def check_texts(recording: Path, target: TextDecoder) -> Texts:
    """Decode the recorded steps again with the target alone. A part of a text must be its beginning."""
    try:
        steps = read_steps(recording)
    except ConfigError:
        return Texts(unread=1)
    begun_steps = [step for step in steps if step.verified_tokens]
    agree = sum(comparison.agrees for comparison, _ in replay_steps(begun_steps, target))
    return Texts(
        len(begun_steps), agree, sum(not step.finished for step in begun_steps), len(steps) - len(begun_steps)
    )


def evaluate_kills(
    verifier_kills: int,
    node_kills: int,
    seed: int,
    models: Path | None,
    json_file: Path | None,
    motion: str = MOTIONS[0],
) -> dict[str, Any]:
    """Run, check, print, write JSON; `failed` counts what is not as it must be.

    Raises OutriderError if the processes cannot be run, ConfigError if nothing is to be killed or for an
    unknown motion.
    """
    if verifier_kills + node_kills < 1:
        raise ConfigError("nothing is to be killed: ask for at least one kill, of the verifier or of nodes")
    require_choice("motion", motion, MOTIONS)
    folder = models_folder(models.resolve() if models else None)
    with tempfile.TemporaryDirectory() as scratch:
        runs, killed = _run_trials(Path(scratch), verifier_kills, node_kills, seed, folder, motion)
        recordings = sorted(Path(scratch).glob(f"{RUN_FOLDER}*/{RECORDING_FILE}"))
        texts = _check_recordings(recordings, folder)
    figures = figures_of(runs, killed, texts, (verifier_kills, node_kills))
    print_results(*_report(figures))
    details = {
        "seed": seed,
        "motion": motion,
        "runs": [asdict(run) for run in runs],
        "kills": [asdict(kill) for kill in killed],
    }
    write_figures(json_file, figures | details)
    return figures | details


def _run_trials(
    scratch: Path, verifier_kills: int, node_kills: int, seed: int, models: Path, motion: str
) -> tuple[list[Run], list[Kill]]:
    """Run the trials in a process that may use ROS."""
    numbers = [str(number) for number in (verifier_kills, node_kills, seed)]
    if run_trials("outrider.evaluation.kills.kill_trials", str(scratch), *numbers, str(models), motion) != 0:
        raise OutriderError("the trials did not come to their end: the reason is above")
    return read_result(scratch / RESULT_FILE)


def write_result(path: Path, runs: Sequence[Run], kills: Sequence[Kill]) -> None:
    """Writes runs and kills as JSON."""
    content = {"runs": [asdict(run) for run in runs], "kills": [asdict(kill) for kill in kills]}
    replace_file(path, json.dumps(content).encode())


def read_result(path: Path) -> tuple[list[Run], list[Kill]]:
    """Return the runs and kills that `write_result` wrote."""
    content = json.loads(path.read_text())
    runs = [Run(**{**run, "kills": tuple(Kill(**kill) for kill in run["kills"])}) for run in content["runs"]]
    return runs, [Kill(**kill) for kill in content["kills"]]


def _check_recordings(recordings: Sequence[Path], models: Path) -> Texts:
    if not recordings:
        return Texts()
    target = decoder_of("target", models)
    return sum((check_texts(recording, target) for recording in recordings), Texts())


def figures_of(
    runs: Sequence[Run], killed: Sequence[Kill], texts: Texts, wanted: tuple[int, int] = (1, 1)
) -> dict[str, Any]:
    """Return counts and worst cases. A goal that was not reached counts as failed.

    `wanted`: the wanted kills of the verifier, and of nodes. Missing kills fail, as do fewer texts than
    goals, and recordings without texts.
    """
    of_verifier = [kill for run in runs for kill in run.kills]
    nodes = {node: [kill for kill in killed if kill.node == node] for node in KILLED_NODES}
    unreached = sum(kill.reached is False for kill in killed)
    unbounded = sum(not is_bounded(kill) for kill in of_verifier)
    late = sum(is_late(kill) for kill in killed)
    different = texts.steps - texts.agree
    missing = max(0, wanted[0] - len(of_verifier)) + max(0, wanted[1] - len(killed))
    missing += texts.unread + max(0, max(len(runs), min(wanted[0], 1)) - texts.steps)
    return {
        "verifier_kills": _counts(of_verifier) | {"unbounded": unbounded},
        "goals": len(runs),
        "reached": sum(run.reached for run in runs),
        "texts": asdict(texts),
        "node_kills": {
            ROW_NAMES.get(node, node): _counts(nodes[node]) for node in STOPPING_NODES if nodes[node]
        },
        "bystander_kills": {
            node: {"kills": len(nodes[node]), "reached": sum(bool(kill.reached) for kill in nodes[node])}
            for node in OPTIONAL_NODES
            if nodes[node]
        },
        "missing": missing,
        "failed": unbounded + late + different + missing + unreached + sum(not run.reached for run in runs),
    }


def _counts(kills: Sequence[Kill]) -> dict[str, Any]:
    return {
        "kills": len(kills),
        "moving": sum(kill.moving for kill in kills),
        "worst_to_zero_s": round(max((kill.to_zero_s for kill in kills), default=0.0), 3),
        "late": sum(is_late(kill) for kill in kills),
        "most_metres": round(max((kill.metres for kill in kills), default=0.0), 2),
        "most_degrees": round(max((kill.degrees for kill in kills), default=0.0), 1),
    }


def _report(figures: dict[str, Any]) -> tuple[Table, str]:
    texts, goals = figures["texts"], f"{figures['reached']} of {figures['goals']} goals reached"
    note = (
        f"{goals}; {texts['agree']} of {texts['steps']} texts are the target's own, {texts['empty']} more "
        f"had no token; {figures['missing']} kills or texts are missing"
    )
    columns = ("killed", "times", "moving", "worst s to zero", "late", "most m", "most deg", "goal reached")
    table = results_table("kill -9 under way", *columns)
    rows = {"verifier": figures["verifier_kills"], **figures["node_kills"]}
    for name, row in rows.items():
        keys = ("kills", "moving", "worst_to_zero_s", "late", "most_metres", "most_degrees")
        table.add_row(name, *(str(row[key]) for key in keys), "")
    for name, row in figures["bystander_kills"].items():
        table.add_row(name, str(row["kills"]), str(row["kills"]), "", "", "", "", str(row["reached"]))
    return table, note
