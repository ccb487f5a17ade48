# SPDX-License-Identifier: Apache-2.0
"""`outrider eval navigation`: success, collisions and path over freshly generated homes, in closed loop."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.core.processes import work_through
from outrider.core.values import Sighting
from outrider.decoding.protocol.validation import require_choice
from outrider.evaluation.common.choices import check_paced
from outrider.evaluation.common.decoders import decoder_of
from outrider.evaluation.common.intervals import wilson_interval
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import interval_text, optional, print_results, results_table
from outrider.evaluation.robot.paced_side import AnswerTimes, Pace, run_paced_episode
from outrider.navigation.goal.navigator import NavigatorSettings
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import models_folder
from outrider.runtime.datasets.dataset import ODOMETRY_NOISE
from outrider.runtime.datasets.held_out import first_home_seed
from outrider.runtime.mission.episode import (
    Answerer,
    EpisodeResult,
    expert_answerer,
    led_answerer,
    run_episode,
)
from outrider.runtime.node_graph.node_specs import MOTIONS
from outrider.simulation.contexts import instruction_for, true_sighting
from outrider.simulation.homes.home import Home, generate_home
from outrider.simulation.looks.styles import checked_looks
from outrider.simulation.simulator import Simulator

MODELS = ("target", "draft", "pair", "expert")
MEMORY = ("on", "off")
# For each share: its name in a table, and the number of episodes that it refers to.
SHARES = {
    "success_rate": ("object found", "episodes"),
    "success_same_room": ("object found, in the starting room", "episodes_same_room"),
    "success_other_room": ("object found, in another room", "episodes_other_room"),
    "collision_rate": ("something touched", "episodes"),
    "expert_success_rate": ("object found by the expert", "episodes"),
    "expert_collision_rate": ("something touched by the expert", "episodes"),
}
MEDIANS = {
    "path_ratio": "path over the expert's, median where both found it",
    "steps_median": "steps, median",
    "steps_hidden": "steps where the object was hidden, median",
    "steps_other_room": "steps where it was in another room, median",
}
TIMES = {
    "time_median_s": "seconds to the end, median",
    "time_mean_s": "seconds to the end, mean",
    "standing_share": "share of the time that the robot stands",
}
PLACEMENT_CYCLE = ("in_view", "hidden", "in_view", "other_room")


@dataclass(frozen=True)
class NavigationTask:
    """A home to navigate in, and the model of `folder` that answers there."""

    home_seed: int
    placement: str
    model: str
    folder: Path
    max_steps: int


@dataclass(frozen=True)
class EpisodeTask(NavigationTask):
    """One episode to run. `memory`: the object's place is known from an earlier visit.

    Without a `pace` the simulated clock stands while a text is decoded.
    """

    memory: bool = False
    legs: bool = False
    look: str = "plain"
    pace: Pace | None = None


@dataclass(frozen=True)
class EpisodePair:
    """An episode, and the exploring expert's episode in the same home with the same memory."""

    result: EpisodeResult
    expert: EpisodeResult


def placed_homes(number: int, seed: int) -> list[tuple[int, str]]:
    """Returns the seeds of `number` held-out homes, each with the placement of its target."""
    first, cycle = first_home_seed(seed), PLACEMENT_CYCLE
    return [(first + index, cycle[index % len(cycle)]) for index in range(number)]


def plan(
    episodes: int,
    seed: int,
    model: str,
    folder: Path,
    max_steps: int,
    memory: bool = False,
    legs: bool = False,
    look: str = "plain",
    pace: Pace | None = None,
) -> list[EpisodeTask]:
    """Returns the episodes: half with the target in view, a quarter hidden, a quarter in another room."""
    return [
        EpisodeTask(*home, model, folder, max_steps, memory, legs, look, pace)
        for home in placed_homes(episodes, seed)
    ]


def run_task(task: EpisodeTask) -> EpisodePair:
    """Run the model's episode and the expert's in the same home."""
    home = generate_home(task.home_seed, placement=task.placement)
    instruction = instruction_for(home)
    sightings = _earlier_visit(home) if task.memory else ()
    settings = NavigatorSettings(max_steps=task.max_steps)
    arguments = (settings, ODOMETRY_NOISE, sightings, task.legs, task.look)
    expert = run_episode(home, instruction, expert_answerer, *arguments)
    if task.model == "expert":
        return EpisodePair(expert, expert)
    decoder = decoder_of(task.model, task.folder)

    if task.pace is not None:
        paced = run_paced_episode(
            home, instruction, decoder, settings, ODOMETRY_NOISE, task.pace, task.legs, task.look
        )
        return EpisodePair(paced, expert)

    def make_answerer(simulator: Simulator) -> Answerer:
        return led_answerer(decoder, simulator, sightings)

    result = run_episode(home, instruction, make_answerer, *arguments)
    return EpisodePair(result, expert)


def _earlier_visit(home: Home) -> tuple[Sighting, ...]:
    """The target's place as an earlier visit would have noted it."""
    sighting = true_sighting(np.random.default_rng([home.seed, 17]), home, home.target.spec)
    return () if sighting is None else (sighting,)


def summarise(pairs: Sequence[EpisodePair]) -> dict[str, Any]:
    """Returns the figures of an evaluation. A rate without episodes or a ratio without successes is None."""
    results = [pair.result for pair in pairs]
    other_room = [r for r in results if r.placement == "other_room"]
    same_room = [r for r in results if r.placement != "other_room"]
    ratios = [
        pair.result.path_m / pair.expert.path_m
        for pair in pairs
        if pair.result.success and pair.expert.success and pair.expert.path_m > 0.0
    ]
    return {
        "episodes": len(results),
        "episodes_same_room": len(same_room),
        "episodes_other_room": len(other_room),
        "success_rate": _success_rate(results),
        "success_same_room": _success_rate(same_room),
        "success_other_room": _success_rate(other_room),
        "collision_rate": statistics.mean(r.collisions > 0 for r in results),
        "path_ratio": statistics.median(ratios) if ratios else None,
        "steps_median": statistics.median(r.steps for r in results),
        "steps_hidden": _steps_to_find(results, "hidden"),
        "steps_other_room": _steps_to_find(results, "other_room"),
        "expert_success_rate": _success_rate([pair.expert for pair in pairs]),
        "expert_collision_rate": statistics.mean(pair.expert.collisions > 0 for pair in pairs),
        **_times(results),
    }


def _times(results: Sequence[EpisodeResult]) -> dict[str, float]:
    """The times of an episode, and the share in which the robot stands; empty unless answers take time."""
    standing_s = [r.standing_s for r in results if r.standing_s is not None]
    if not standing_s:
        return {}
    total_s = sum(r.duration_s for r in results)
    return {
        "time_median_s": statistics.median(r.duration_s for r in results),
        "time_mean_s": total_s / len(results),
        "standing_share": sum(standing_s) / total_s,
    }


def _steps_to_find(results: Sequence[EpisodeResult], placement: str) -> float | None:
    """Median steps of a placement's episodes; an episode without success counts as infinitely many."""
    steps = [r.steps if r.success else math.inf for r in results if r.placement == placement]
    median = statistics.median(steps) if steps else math.inf
    return median if math.isfinite(median) else None


def _success_rate(results: Sequence[EpisodeResult]) -> float | None:
    return statistics.mean(r.success for r in results) if results else None


def evaluate_navigation(
    episodes: int,
    seed: int,
    model: str = "target",
    models: Path | None = None,
    json_file: Path | None = None,
    processes: int = 1,
    max_steps: int = NavigatorSettings.max_steps,
    memory: str = "off",
    legs: bool = False,
    look: str = "plain",
    motion: str = "",
    round_trip_ms: float = 0.0,
) -> dict[str, Any]:
    """Run, print a table, write JSON. Raises ConfigError for a wrong option, ModelError without models.

    With `motion` answers take time (`AnswerTimes`, plus a round trip).
    """
    require_choice("model", model, MODELS)
    require_choice("memory", memory, MEMORY)
    if episodes < 1 or processes < 1 or seed < 0:
        raise ConfigError("episodes and processes must be at least 1 and seed at least 0")
    checked_looks([look])
    pace = _pace(motion, round_trip_ms, model, memory)
    folder = Path() if model == "expert" else models_folder(models)
    tasks = plan(episodes, seed, model, folder, max_steps, memory == "on", legs, look, pace)
    pairs = list(tracked(work_through(run_task, tasks, processes), "episodes", total=episodes))
    pairs.sort(key=lambda pair: pair.result.seed)
    figures = {"model": model, "seed": seed, "memory": memory, "legs": legs, "look": look, **summarise(pairs)}
    if pace is not None:
        figures |= {"motion": motion, "round_trip_ms": round_trip_ms, **asdict(pace.times)}
    print_results(_table(figures), *lost_homes(pairs))
    runs = [{**asdict(pair.result), "expert_path_m": pair.expert.path_m} for pair in pairs]
    write_figures(json_file, {**figures, "runs": runs})
    return figures


def _pace(motion: str, round_trip_ms: float, model: str, memory: str) -> Pace | None:
    """The pace that the options ask for; None where the clock stands while a text is decoded."""
    check_paced(motion, round_trip_ms, model, memory)
    if not motion:
        return None
    require_choice("motion", motion, MOTIONS)
    return Pace(motion == "continuous", AnswerTimes().over(round_trip_ms / 1000.0))


def lost_homes(pairs: Sequence[EpisodePair]) -> list[str]:
    """Returns a line for each home in which the object was not found, or something was touched."""
    lines = []
    for pair in pairs:
        result = pair.result
        if result.success and not result.collisions:
            continue
        ended = "found" if result.success else f"{result.outcome}, {result.target_distance_m:.1f} m away"
        expert = "found it" if pair.expert.success else "did not"
        lines.append(
            f"home {result.seed} ({result.placement}), {result.instruction!r}: {ended} after {result.steps} "
            f"steps, {result.collisions} collisions; the expert {expert}"
        )
    return lines


def _table(figures: dict[str, Any]) -> Table:
    title = (
        f"navigation, {figures['model']}, memory {figures['memory']}, look {figures['look']}, "
        f"{figures['episodes']} episodes, seed {figures['seed']}"
        + (f", {figures['motion']}, {figures['round_trip_ms']:.0f} ms" if "motion" in figures else "")
    )
    rows = [
        (meaning, *share_cells(figures[name], figures[count])) for name, (meaning, count) in SHARES.items()
    ]
    other_figures = {name: meaning for name, meaning in (MEDIANS | TIMES).items() if name in figures}
    rows += [(meaning, optional(figures[name], ".3g"), "") for name, meaning in other_figures.items()]
    return results_table(title, *LEGENDS["eval navigation"], rows=rows)


def share_cells(share: float | None, number: int) -> tuple[str, str]:
    """Returns the cells of a table for a share of `number` cases: the share, and its interval."""
    if share is None:
        return "-", ""
    return f"{share:.3f} of {number}", interval_text(wilson_interval(round(share * number), number))
