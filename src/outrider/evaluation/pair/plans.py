# SPDX-License-Identifier: Apache-2.0
"""`outrider eval plans`: plans of several finds in simulated homes, compared with each find alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from outrider.core.errors import ConfigError
from outrider.core.language.words.things import Thing
from outrider.decoding.protocol.validation import require_choice
from outrider.evaluation.common.decoders import decoder_of
from outrider.evaluation.common.intervals import mean_difference_interval
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.record_files import HomeOutcome, HomeRecords
from outrider.evaluation.common.tables import interval_text, print_results, results_table
from outrider.evaluation.robot.navigation import NavigationTask, placed_homes, share_cells
from outrider.models.checkpoint.card import read_card
from outrider.navigation.goal.navigator import NavigatorSettings
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import models_folder
from outrider.runtime.datasets.dataset import ODOMETRY_NOISE
from outrider.runtime.mission.episode import stands_at
from outrider.runtime.mission.goal_run import GoalSettings
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.no_ros.simulated_side import SimulatedSide
from outrider.runtime.plans.errand import Errand
from outrider.runtime.reports.live_view import LiveView
from outrider.runtime.reports.recorder import Recorder
from outrider.runtime.wiring.memory_stores import temporary_memory, this_home
from outrider.simulation.homes.furnishing import HomeObject
from outrider.simulation.homes.home import Home, generate_home, meant
from outrider.simulation.homes.vocabulary import Wanted
from outrider.simulation.simulator import open_simulator

MODELS = ("pair", "target", "draft")
MAX_FINDS = 3
ANY_TIME_S = 1e6
SHARES = {
    "plans_reached": ("plans whose every find was reached", "homes"),
    "alone_all_reached": ("homes in which every find alone was", "homes"),
    "finds_reached": ("finds reached within plans", "finds"),
    "alone_reached": ("the same finds alone, from the home's start", "finds"),
    "collision_rate": ("plans that touched something", "homes"),
}


@dataclass(frozen=True)
class PlanTask(NavigationTask):
    """One home to try: a plan of `finds` finds, and each of them alone."""

    finds: int


class PlanOutcome(HomeOutcome, frozen=True):
    """The outcome of a plan, and of its finds alone, in the plan's order.

    A find not begun counts as not reached.
    """

    sentence: str
    reached: tuple[bool, ...]
    alone: tuple[bool, ...]
    steps: int
    collisions: int
    message: str


def plan_tasks(homes: int, seed: int, finds: int, model: str, folder: Path, max_steps: int) -> list[PlanTask]:
    """Return homes as in `eval navigation`: the first object is in view, hidden, or in another room."""
    return [PlanTask(*home, model, folder, max_steps, finds) for home in placed_homes(homes, seed)]


def distinguishable_objects(home: Home) -> list[HomeObject]:
    """Return the objects that kind and colour distinguish from all others in a home, the target first."""
    candidates = dict.fromkeys((home.target, *home.standing))
    wanted_objects = {thing: Wanted(Thing(thing.spec.kind, thing.spec.colour)) for thing in candidates}
    return [thing for thing in candidates if meant(home, wanted_objects[thing]) == (thing,)]


def run_task(task: PlanTask) -> PlanOutcome:
    """Try the plan, then each find in the home as it was. The plan's first find counts as the first alone."""
    home = generate_home(task.home_seed, placement=task.placement)
    things = distinguishable_objects(home)[: task.finds]
    sentence = ", then ".join(f"find the {thing.spec.phrase}" for thing in things)
    run = _carry_out(home, sentence, task)
    alone = [_carry_out(home, f"find the {thing.spec.phrase}", task) for thing in things[1:]]
    reached = run.reached(things)
    return PlanOutcome(
        home.seed,
        sentence,
        reached,
        (
            reached[0],
            *(run_alone.reached([thing])[0] for run_alone, thing in zip(alone, things[1:], strict=True)),
        ),
        run.steps,
        run.collisions,
        run.message,
    )


@dataclass(frozen=True)
class _Run:
    home: Home
    recorder: Recorder
    steps: int
    message: str

    @property
    def collisions(self) -> int:
        return self.recorder.truth.collisions if self.recorder.truth else 0

    def reached(self, things: Sequence[HomeObject]) -> tuple[bool, ...]:
        """Whether the robot stood in front of each thing at the end of its step."""
        poses = [*self.recorder.step_poses, *[None] * len(things)]
        pairs = zip(things, poses, strict=False)
        return tuple(pose is not None and stands_at(self.home, pose, thing) for thing, pose in pairs)


def _carry_out(home: Home, sentence: str, task: PlanTask) -> _Run:
    recorder, view = Recorder(sentence), LiveView(Console(file=StringIO()))
    vocabulary = read_card(task.folder / ("target" if task.model == "target" else "draft")).vocabulary
    with (
        closing(open_simulator(home, home.seed, ODOMETRY_NOISE, False)) as simulator,
        temporary_memory() as memory,
    ):
        recollection = Recollection(memory, this_home(""), time.time)
        robot = SimulatedSide(simulator, recorder, view, False, recollection)
        errand = Errand(
            robot,
            decoder_of(task.model, task.folder),
            vocabulary,
            _settings(task.max_steps),
            recollection,
            floor=robot.floor,
            on_progress=robot.on_progress,
        )
        result = errand.run(sentence, lambda: False)
        recorder.truth = robot.truth()
    return _Run(home, recorder, result.steps, result.message)


def _settings(max_steps: int) -> GoalSettings:
    """Return settings of a goal that only steps and metres limit, so that a busy machine changes nothing."""
    navigator = NavigatorSettings(max_steps=max_steps, max_time_s=ANY_TIME_S, max_answer_age_s=ANY_TIME_S)
    return GoalSettings(answer_deadline_s=ANY_TIME_S, navigator=navigator)


def summarise(outcomes: Sequence[PlanOutcome]) -> dict[str, Any]:
    """Return the figures over all homes; `difference` is what plans lose, as a share of the same homes."""
    plans = [all(outcome.reached) for outcome in outcomes]
    parts = [all(outcome.alone) for outcome in outcomes]
    pairs = [(float(part), float(plan)) for part, plan in zip(parts, plans, strict=True)]
    reached = [reached for outcome in outcomes for reached in outcome.reached]
    alone = [reached for outcome in outcomes for reached in outcome.alone]
    return {
        "homes": len(outcomes),
        "finds": len(reached),
        "plans_reached": statistics.mean(plans),
        "alone_all_reached": statistics.mean(parts),
        "difference": statistics.mean(part - plan for part, plan in pairs),
        "difference_interval": mean_difference_interval(pairs),
        "finds_reached": statistics.mean(reached),
        "alone_reached": statistics.mean(alone),
        "collision_rate": statistics.mean(outcome.collisions > 0 for outcome in outcomes),
    }


def evaluate_plans(
    homes: int,
    seed: int,
    finds: int = MAX_FINDS,
    model: str = "pair",
    models: Path | None = None,
    run: Path | None = None,
    json_file: Path | None = None,
    processes: int = 1,
    max_steps: int = NavigatorSettings.max_steps,
) -> dict[str, Any]:
    """Run, print a table, write JSON. Homes already in the folder `run` are not tried again.

    Raises ConfigError for a wrong option, ModelError without models.
    """
    require_choice("model", model, MODELS)
    if homes < 1 or processes < 1 or seed < 0 or not 1 <= finds <= MAX_FINDS:
        raise ConfigError(f"homes and processes must be at least 1, seed 0, finds from 1 to {MAX_FINDS}")
    tasks = plan_tasks(homes, seed, finds, model, models_folder(models), max_steps)
    common: dict[str, str | int] = {"model": model, "seed": seed, "finds": finds, "max_steps": max_steps}
    outcomes = HomeRecords(run, PlanOutcome, common).run_missing(tasks, run_task, processes)
    figures = {"model": model, "seed": seed, **summarise(outcomes)}
    print_results(_table(figures))
    write_figures(json_file, {**figures, "runs": [msgspec.to_builtins(outcome) for outcome in outcomes]})
    return figures


def _table(figures: dict[str, Any]) -> Table:
    title = f"plans of finds, {figures['model']}, {figures['homes']} homes, seed {figures['seed']}"
    rows = [
        (meaning, *share_cells(figures[name], figures[count])) for name, (meaning, count) in SHARES.items()
    ]
    lost = f"{figures['difference']:+.3f}", interval_text(figures["difference_interval"], "+.2f")
    rows.append(("lost by plans, of the homes", *lost))
    return results_table(title, *LEGENDS["eval plans"], rows=rows)
