# SPDX-License-Identifier: Apache-2.0
"""`outrider eval safety`: faults are injected while the robot drives; how soon does it stand, and then?

Times are the simulation's, which is the clock of every deadman here. A velocity counts that the base is to
have, after its own deadman. Each fault meets each way to command a base, in each home. The robot must stand
within 0.3 s of the fault, stay so as long as the fault lasts, and touch nothing; the goal must then be
reached or end with an error that says why.
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
# How far the robot may go beyond a motion's command.
LIMIT_M = 0.3
NUM_HOMES, TRIED_HOMES = 4, 24
TRIES = 3
ODOMETRY_NOISE = 0.02
NAVIGATOR = NavigatorSettings(max_steps=40, max_turning_deg=360.0)
TARGET = ObjectSpec("bottle", "silver")
NUMBERS = ("injections", "worst_to_zero_s", "worst_overrun_m", "missed", "reached", "ended_with_reason")


@dataclass(frozen=True)
class Trial:
    """One injection. `to_zero_s` is from the fault to the last moment at which the base was told to move, and
    infinite where there was no occasion for it. `overrun_m` is how far any part of the body came beyond where
    its motion should have taken it, `touches` how often it touched anything.
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
        """Whether the robot stood too late, went too far or touched anything."""
        return self.to_zero_s > LIMIT_S + 1e-9 or self.overrun_m > LIMIT_M or self.touches > 0

    @property
    def unclear(self) -> bool:
        """Whether the goal neither was reached nor says why not."""
        return not self.reached and (self.error == GoalError.NONE.name or not self.message)


class _Watch:
    """Called each step: begins the fault at its occasion, ends it in time, and notes when the robot moves."""

    def __init__(self, fault: Fault | None, world: SafetyWorld, guide: Guide, onset: int, lasts_s: float):
        self._fault, self._world, self._guide = fault, world, guide
        self._onset, self._lasts_s = onset, lasts_s
        self.occasions = 0
        self.begun_s, self.to_zero_s = math.inf, 0.0
        self._since_s: float | None = None
        self._verified: Motion | None = None
        self.over = False

    def __call__(self, now_s: float, velocity: Velocity) -> None:
        moves = velocity != STANDSTILL or self._world.rises
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
        """How long the robot has been told to move in spite of the fault.

        While a verdict is awaited, a motion that is verified already goes on to its end.
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
        """Whether the fault still lasts."""
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
    """One goal with one fault, which comes somewhere among the first `occasions` steps under way.

    `base` names what `open_wire` opens, `motion` is the navigator's.
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
            if fault.insists:
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
    """The goal's result; None where its navigator was killed."""
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
    """In how many steps the robot moves to the object of a home; 0 where the guide does not get there."""
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
    """The next homes in which the guide finds the object undisturbed, with the steps it moves for.

    Raises OutriderError where it finds it in few: then what moves the robot is broken.
    """
    found: list[tuple[Home, int]] = []
    for tried in range(seed, seed + TRIED_HOMES):
        home = generate_home(tried, TARGET, "in_view")
        occasions = undisturbed(home, tried, motion)
        if occasions > 0:
            found.append((home, occasions))
        if len(found) == NUM_HOMES:
            return found
    raise OutriderError(
        f"without a fault the goal is reached in {len(found)} of {TRIED_HOMES} homes: "
        "the robot does not move as its texts say"
    )


def run_safety(injections: int, seed: int, json_file: Path | None, motion: str = MOTIONS[0]) -> int:
    """The trials in a process that may use ROS: 0, or 1 where a stop was late or an end unclear.

    Raises ConfigError for an unknown motion, OutriderError where they did not come to their end.
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
    """Inject every fault in turn, print a table, and give the figures; see the module for what is asked.

    `wires` are the ways to the base, by their names.
    """
    rng = np.random.default_rng([seed, 11])
    homes, bases = usable_homes(seed, motion), list(wires.items())
    faults = [
        fault for fault in (*FAULTS, *GO2_FAULTS) if any(name.startswith(fault.bases) for name in wires)
    ]
    trials = []
    with _quiet():
        for index in tracked(range(injections), "injections"):
            round_, kind = divmod(index, len(faults))
            fitting = [entry for entry in bases if entry[0].startswith(faults[kind].bases)]
            base, open_wire = fitting[round_ % len(fitting)]
            home, occasions = homes[round_ // len(bases) % len(homes)]
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
    """A trial in which the fault comes: where the goal ends before, it is driven again, with it earlier."""
    for earlier in range(TRIES):
        trial = run_trial(home, fault, rng, occasions >> earlier, base, open_wire, motion)
        if math.isfinite(trial.to_zero_s):
            break
    return trial


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings that the faults give rise to."""
    log = logging.getLogger("outrider")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def figures_of(trials: list[Trial]) -> dict[str, Any]:
    """Counts and worst times, of all trials, of each fault and of each base."""
    faults = {name: [t for t in trials if t.fault == name] for name in dict.fromkeys(t.fault for t in trials)}
    bases = {name: [t for t in trials if t.base == name] for name in dict.fromkeys(t.base for t in trials)}
    return _counts(trials) | {
        "faults": {name: _counts(some) for name, some in faults.items()},
        "bases": {name: _counts(some) for name, some in bases.items()},
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
