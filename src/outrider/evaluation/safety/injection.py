# SPDX-License-Identifier: Apache-2.0
"""`outrider eval safety`: injects faults while the robot drives, and judges its stop and the goal's end.

Times are the simulation's, whose clock every deadman here uses. The velocity that counts is the base's, after
its own deadman. Each fault meets each way to command a base, in each home. The robot must stand within 0.3 s
of the fault, stand for as long as the fault lasts, and touch nothing. The goal must then be reached, or end
with an error that says why.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from outrider.core.errors import OutriderError
from outrider.core.files.terminal import tracked
from outrider.core.language.actions import Motion
from outrider.core.values import STANDSTILL, Velocity
from outrider.decoding.protocol.validation import require_choice
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.common.trials import run_trials
from outrider.evaluation.safety.base_wires import DirectWire, OpenWire
from outrider.evaluation.safety.faults import FAULTS, GO2_FAULTS, Fault
from outrider.evaluation.safety.guide import Guide
from outrider.evaluation.safety.world import (
    STEP_S,
    NavigatorKilled,
    SafetyWorld,
)
from outrider.navigation.goal.navigator import NavigatorSettings
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.mission.goal_run import GoalRun, GoalSettings
from outrider.runtime.mission.robot_side import GoalError, GoalResult
from outrider.runtime.node_graph.node_specs import MOTIONS
from outrider.simulation.homes.home import Home, generate_home
from outrider.simulation.homes.vocabulary import ObjectSpec
from outrider.simulation.simulator import Simulator

LIMIT_S = 0.3
# How far the robot may move beyond a motion's command.
LIMIT_M = 0.3
NUM_HOMES, TRIED_HOMES = 4, 24
TRIES = 3
ODOMETRY_NOISE = 0.02
NAVIGATOR = NavigatorSettings(max_steps=40, max_turning_deg=360.0)
TARGET = ObjectSpec("bottle", "silver")
NUMBERS = ("injections", "worst_to_zero_s", "worst_overrun_m", "missed", "reached", "ended_with_reason")


@dataclass(frozen=True)
class Trial:
    """The result of one injection.

    `to_zero_s`: from the fault to the last moment at which the base was commanded to move; infinite where the
    fault had no occasion to begin. `overrun_m`: how far any part of the body moved beyond the end of its
    motion. `touches`: how often it touched anything.
    """

    fault: str
    to_zero_s: float
    reached: bool
    error: str
    message: str
    base: str = ""
    overrun_m: float = 0.0
    touches: int = 0

    @property
    def missed(self) -> bool:
        """Whether the robot stopped too late, moved too far, or touched anything."""
        return self.to_zero_s > LIMIT_S + 1e-9 or self.overrun_m > LIMIT_M or self.touches > 0

    @property
    def unclear(self) -> bool:
        """Whether the goal was not reached and does not say why."""
        return not self.reached and (self.error == GoalError.NONE.name or not self.message)


class _Watch:
    """Called in each step: begins and ends the fault, and records for how long the robot moves."""

    def __init__(self, fault: Fault | None, world: SafetyWorld, guide: Guide, onset: int, lasts_s: float):
        self._fault, self._world, self._guide = fault, world, guide
        self._onset, self._lasts_s = onset, lasts_s
        self.occasions = 0
        self.begun_s, self.to_zero_s = math.inf, 0.0
        self._since_s: float | None = None
        self._verified: Motion | None = None
        self.over = False

    def __call__(self, now_s: float, velocity: Velocity) -> None:
        moves = velocity != STANDSTILL or self._world.is_standing_up
        fault = self._fault
        self.occasions += self._guide.awaits_verdict if fault and fault.while_waiting else moves
        if fault is None:
            return
        occasion = self.occasions >= self._onset and (not fault.at_speed or self._world.is_at_speed)
        if math.isinf(self.begun_s) and occasion:
            self.begun_s = self._since_s = now_s
            self._verified = self._world.pilot.motion if fault.while_waiting else None
            fault.begin(self._world, self._guide)
        elif not self.over and not fault.by_models and now_s >= self.begun_s + self._lasts_s:
            self.over = True
            fault.end(self._world, self._guide)
        if math.isfinite(self.begun_s) and not self.over and not fault.untimed:
            self._time(moves, now_s)

    def _time(self, moves: bool, now_s: float) -> None:
        """Update the time for which the robot has been commanded to move in spite of the fault.

        A fault while a verdict is awaited does not count against a motion that is already verified.
        """
        if self._verified is not None and self._world.pilot.motion is self._verified:
            self._since_s = None
        elif moves:
            self._since_s = now_s if self._since_s is None else self._since_s
            self.to_zero_s = max(self.to_zero_s, now_s + STEP_S - self._since_s)
        elif self._fault and self._fault.at_speed:
            self._since_s = None

    def goal_ended(self, now_s: float) -> None:
        if self._fault and self._fault.by_models:
            self.begun_s = self._since_s = now_s
            self.to_zero_s = 0.0

    @property
    def pending(self) -> bool:
        """Whether the fault has begun and not ended; a fault of the models is never pending."""
        return math.isfinite(self.begun_s) and not self.over and not (self._fault and self._fault.by_models)


def run_trial(
    home: Home,
    fault: Fault,
    rng: np.random.Generator,
    occasions: int,
    base: str = "",
    open_wire: OpenWire = DirectWire,
    motion: str = MOTIONS[0],
) -> Trial:
    """Drive to one goal with one fault, which begins at a random early one of the `occasions`.

    `occasions`: the number of steps in which the undisturbed robot moves. `base`: the name of `open_wire`.
    `motion` is the navigator's.
    """
    latest = 20 if fault.while_waiting else max(2, int(0.8 * occasions))
    onset, lasts_s = int(rng.integers(1, latest)), float(rng.uniform(*fault.lasts_s))
    simulator = Simulator(home, int(rng.integers(1 << 31)), ODOMETRY_NOISE)
    try:
        world = SafetyWorld(simulator, open_wire)
        guide = Guide(world)
        watch = world.on_step = _Watch(fault, world, guide, onset, lasts_s)
        result = _drive_goal(world, guide, "first", motion)
        watch.goal_ended(world.now_s())
        while watch.pending:
            if fault.repeats_goal:
                _drive_goal(world, guide, f"at {world.now_s():.2f} s", motion)
            world.pause(STEP_S)
        result = result or _drive_goal(world, guide, "second", motion)
        world.pause(2 * LIMIT_S)
    finally:
        simulator.close()
    to_zero_s = watch.to_zero_s if math.isfinite(watch.begun_s) else math.inf
    assert result is not None, "the navigator is killed only once"
    ending = (result.success, result.error.name, result.message)
    return Trial(fault.name, to_zero_s, *ending, base, world.overrun_m, simulator.collisions)


def _drive_goal(world: SafetyWorld, guide: Guide, session_id: str, motion: str) -> GoalResult | None:
    """Returns the goal's result; None where its navigator was killed."""
    settings = GoalSettings(continuous=motion == "continuous", navigator=NAVIGATOR)
    run = GoalRun(f"find the {TARGET.phrase}", session_id, world, guide, settings, cancelled=lambda: False)
    world.in_navigator = True
    try:
        return run.run()
    except NavigatorKilled:
        return None
    finally:
        world.in_navigator = False
        world.end_goal()


def undisturbed(home: Home, seed: int, motion: str = MOTIONS[0]) -> int:
    """Returns the number of steps in which the robot moves to the object; 0 where it does not get there."""
    simulator = Simulator(home, seed, ODOMETRY_NOISE)
    try:
        world = SafetyWorld(simulator)
        guide = Guide(world)
        watch = world.on_step = _Watch(None, world, guide, 0, 0.0)
        result = _drive_goal(world, guide, "undisturbed", motion)
        return watch.occasions if result is not None and result.success else 0
    finally:
        simulator.close()


def usable_homes(seed: int, motion: str) -> list[tuple[Home, int]]:
    """Returns the next homes in which the guide finds the object, each with its number of moving steps.

    Raises OutriderError where it finds the object in too few homes: then the robot's motion is broken.
    """
    homes: list[tuple[Home, int]] = []
    for home_seed in range(seed, seed + TRIED_HOMES):
        home = generate_home(home_seed, TARGET, "in_view")
        occasions = undisturbed(home, home_seed, motion)
        if occasions > 0:
            homes.append((home, occasions))
        if len(homes) == NUM_HOMES:
            return homes
    raise OutriderError(
        f"without a fault the goal is reached in {len(homes)} of {TRIED_HOMES} homes: "
        "the robot does not move as its texts say"
    )


def run_safety(injections: int, seed: int, json_file: Path | None, motion: str = MOTIONS[0]) -> int:
    """Run the trials in a process that may use ROS; returns 0, or 1 where a stop was late or an end unclear.

    Raises ConfigError for an unknown motion, OutriderError where the trials did not finish.
    """
    require_choice("motion", motion, MOTIONS)
    path = str(json_file.resolve()) if json_file else ""
    status = run_trials("outrider.evaluation.safety.trials", str(injections), str(seed), path, motion)
    if status not in (0, 1):
        raise OutriderError("the trials did not come to their end: the reason is above")
    return status


def evaluate_safety(
    injections: int,
    seed: int,
    json_file: Path | None,
    wires: Mapping[str, OpenWire],
    motion: str = MOTIONS[0],
) -> dict[str, Any]:
    """Inject every fault in turn, print a table, write JSON, return the figures. The module names the bounds.

    `wires` are the ways to the base, by name.
    """
    rng = np.random.default_rng([seed, 11])
    homes, bases = usable_homes(seed, motion), list(wires.items())
    faults = [
        fault for fault in (*FAULTS, *GO2_FAULTS) if any(name.startswith(fault.bases) for name in wires)
    ]
    trials = []
    with _quiet():
        for index in tracked(range(injections), "injections"):
            turn, kind = divmod(index, len(faults))
            fitting = [entry for entry in bases if entry[0].startswith(faults[kind].bases)]
            base, open_wire = fitting[turn % len(fitting)]
            home, occasions = homes[turn // len(bases) % len(homes)]
            trials.append(_injection(home, faults[kind], rng, occasions, base, open_wire, motion))
    figures = figures_of(trials)
    bases = [(f"all, {name}", row) for name, row in figures["bases"].items()]
    rows = map(_cells, [*figures["faults"].items(), *bases, ("all", figures)])
    print_results(results_table("faults under way", *LEGENDS["eval safety"], rows=rows))
    write_figures(
        json_file, figures | {"seed": seed, "motion": motion, "trials": [asdict(trial) for trial in trials]}
    )
    return figures


def _injection(
    home: Home,
    fault: Fault,
    rng: np.random.Generator,
    occasions: int,
    base: str,
    open_wire: OpenWire,
    motion: str,
) -> Trial:
    """Run a trial in which the fault begins; where the goal ends before that, retry with an earlier fault."""
    for earlier in range(TRIES):
        trial = run_trial(home, fault, rng, occasions >> earlier, base, open_wire, motion)
        if math.isfinite(trial.to_zero_s):
            break
    return trial


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the warnings that the faults cause."""
    log = logging.getLogger("outrider")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def figures_of(trials: list[Trial]) -> dict[str, Any]:
    """Returns counts and worst times, of all trials, of each fault and of each base."""
    faults = {name: [t for t in trials if t.fault == name] for name in dict.fromkeys(t.fault for t in trials)}
    bases = {name: [t for t in trials if t.base == name] for name in dict.fromkeys(t.base for t in trials)}
    return _counts(trials) | {
        "faults": {name: _counts(trials_of) for name, trials_of in faults.items()},
        "bases": {name: _counts(trials_of) for name, trials_of in bases.items()},
    }


def _counts(trials: list[Trial]) -> dict[str, Any]:
    return {
        "injections": len(trials),
        "worst_to_zero_s": round(max(trial.to_zero_s for trial in trials), 3),
        "worst_overrun_m": round(max(trial.overrun_m for trial in trials), 3),
        "touches": sum(trial.touches for trial in trials),
        "missed": sum(trial.missed for trial in trials),
        "reached": sum(trial.reached for trial in trials),
        "ended_with_reason": sum(not trial.reached and not trial.unclear for trial in trials),
        "unclear": sum(trial.unclear for trial in trials),
    }


def _cells(named: tuple[str, dict[str, Any]]) -> tuple[str, ...]:
    name, row = named
    return name, *(str(row[key]) for key in NUMBERS)
