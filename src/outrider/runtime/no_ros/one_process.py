# SPDX-License-Identifier: Apache-2.0
"""`outrider demo --no-ros`: both models and the simulated robot in this process, with the same goal loop.

The simulation stands still while a text is decoded, and moves as fast as it can be computed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.core.errors import InstructionError, MemoryStoreError, OutriderError
from outrider.core.files.terminal import Pulse
from outrider.core.files.writing import checked_animation, make_folder, writing_to
from outrider.core.language.grammar import Vocabulary
from outrider.decoding.config import DecodingConfig
from outrider.navigation.sensing.floor_map import Point
from outrider.runtime.common.ending_signals import (
    NOT_REACHED,
    STOPPED,
    interrupted_by_signals,
    stopping_on_signals,
    was_interrupted,
)
from outrider.runtime.common.json_figures import REPORT_FILE
from outrider.runtime.common.made_with import made_with
from outrider.runtime.common.paths import models_folder
from outrider.runtime.mission.goal_run import GoalSettings
from outrider.runtime.mission.words import check_sentence, vocabulary_of
from outrider.runtime.node_graph.observer_specs import MISSION
from outrider.runtime.node_graph.simulation_specs import SIMULATION
from outrider.runtime.reports.conditions import host, versions
from outrider.runtime.reports.left_report import BEFORE_A_GOAL, leave_report
from outrider.runtime.reports.live_view import LiveView
from outrider.runtime.reports.stages import GOAL, Stages, first_motion_s
from outrider.runtime.reports.verdict import with_reason

SIGNAL_S = 0.05
"""The time in which a signal that has just come is noticed."""

if TYPE_CHECKING:
    from outrider.runtime.datasets.held_out import Pair
    from outrider.runtime.reports.report import RunRecord
    from outrider.simulation.simulator import Simulator


def run_in_one_process(
    instruction: str,
    config: DecodingConfig,
    *,
    out: Path = Path("out/demo"),
    seed: int | None = None,
    placement: str | None = None,
    holds: str | None = None,
    models: Path | None = None,
    legs: bool = False,
    video: bool = True,
    animation: Path | None = None,
) -> int:
    """Run a goal from instruction to report. Returns 0 if it was reached, 1 if not, 130 after a signal.

    The files are those of `run_demo`. Raises InstructionError and ConfigError for a bad argument,
    OutriderError if a model cannot be loaded.
    """
    options = {"seed": seed, "placement": placement, "holds": holds, "legs": legs}
    world = SIMULATION.checked({name: value for name, value in options.items() if value is not None})
    folder = models_folder(models)
    is_filmed = video or animation is not None
    demo = _Demo(instruction, config, world, folder, vocabulary_of(str(folder / "draft")), is_filmed)
    demo.check()
    checked_animation(animation)
    report, stopping = out / REPORT_FILE, threading.Event()
    with writing_to(report):
        report.unlink(missing_ok=True)  # a report of an earlier run must not count as this one's
    make_folder(out)
    with stopping_on_signals(stopping), LiveView() as view:
        view.say(f"told to: {instruction} (loading both models from {folder})")
        record = _run(demo, view, stopping, report)
        if record is None:
            return STOPPED
        from outrider.runtime.pictures.run_pictures import write_pictures  # slow to import, as all of it is
        from outrider.runtime.reports.report import write_summary

        write_summary(record, out)
        view.close()
        view.say(f"{record.verdict.words}: {record.message}")
        view.say(f"report: {report}")
        write_pictures(record, out, stopping.is_set, video, animation)
    if stopping.is_set():
        return STOPPED
    return 0 if record.success else NOT_REACHED


def _run(demo: _Demo, view: LiveView, stopping: threading.Event, report: Path) -> RunRecord | None:
    """Load the models and run the goal. Returns its record, or None if a signal came first.

    The report then says so. It also says why a model could not be loaded.
    """
    stages = Stages()
    try:
        pair = _loaded(demo, stopping)
        if pair is None:
            view.say(f"FAILED: {BEFORE_A_GOAL}")
            leave_report(report, BEFORE_A_GOAL, demo.instruction, demo.config.strategy, demo.conditions())
            return None
        stages.mark("models loaded")
        view.say(f"both models are loaded, after {stages.elapsed_s():.0f} s")
        return demo.run(pair, view, stopping.is_set, stages)
    except OutriderError as error:
        leave_report(report, str(error), demo.instruction, demo.config.strategy, demo.conditions())
        raise


def _loaded(demo: _Demo, stopping: threading.Event) -> Pair | None:
    """Returns both models; None if a signal came first, which aborts the loading."""
    try:
        with interrupted_by_signals(), Pulse("loading both models"):
            return None if stopping.wait(SIGNAL_S) else demo.load()
    except KeyboardInterrupt:
        stopping.set()
    except Exception:  # a library may turn the interrupt into another exception
        if not was_interrupted():
            raise
        stopping.set()
    return None


def _free(_: Point) -> int:
    """Returns the evidence of a free point for any point: an unseen home's obstacles are not known yet."""
    return -1


@dataclass(frozen=True)
class _Demo:
    """One run. `world` holds the simulation's parameters, as for its node."""

    instruction: str
    config: DecodingConfig
    world: Mapping[str, Any]
    folder: Path
    vocabulary: Vocabulary | None
    video: bool

    def check(self) -> None:
        """Raise InstructionError for a sentence that this robot would refuse."""
        from outrider.runtime.plans.run_log import RunLog
        from outrider.runtime.plans.understanding import Understanding

        try:
            Understanding(self.vocabulary, None, _free, RunLog()).plan(self.instruction)
        except MemoryStoreError:
            raise InstructionError(
                "with --no-ros the robot keeps no memory: use `outrider memory`, or leave --no-ros away"
            ) from None

    def load(self) -> Pair:
        """Returns both models. Raises OutriderError if one cannot be loaded."""
        from outrider.runtime.datasets.held_out import load_pair

        return load_pair(self.folder)

    def run(self, pair: Pair, view: LiveView, is_stopped: Callable[[], bool], stages: Stages) -> RunRecord:
        """Run the goal, judge it, and return the record."""
        from outrider.runtime.mission.memory_queries import Recollection
        from outrider.runtime.no_ros.simulated_side import SimulatedSide
        from outrider.runtime.plans.errand import Errand
        from outrider.runtime.reports.recorder import Recorder
        from outrider.runtime.wiring.decoders import local_decoder
        from outrider.runtime.wiring.memory_stores import temporary_memory, this_home

        draft = pair.draft if self.config.needs_model else None
        recorder = Recorder(self.instruction)
        recorder.strategy = self.config.strategy
        with (
            closing(self._simulator()) as simulator,
            closing(local_decoder(pair.target, draft, self.config)) as decoder,
            temporary_memory() as memory,
        ):
            recollection = Recollection(memory, this_home(""), time.time)
            robot = SimulatedSide(simulator, recorder, view, self.video, recollection)
            settings = GoalSettings(instructed=self.vocabulary is None)
            limit_s = float(MISSION.checked({})["time_limit_s"])
            stages.mark(GOAL)
            errand = Errand(
                robot,
                decoder,
                self.vocabulary,
                settings,
                recollection,
                robot.floor,
                on_progress=robot.on_progress,
            )
            result = errand.run(self.instruction, lambda: is_stopped() or robot.now_s() > limit_s)
            result = with_reason(result, is_stopped(), limit_s)
            recorder.truth, home = robot.truth(), simulator.home
        judgement = recorder.judge(result, home)
        conditions = self.conditions() | {"stages_s": stages.seconds(first_motion_s(recorder.poses))}
        return recorder.finish(result, judgement, robot.now_s(), home, conditions)

    def _simulator(self) -> Simulator:
        from outrider.simulation.homes.home import generate_home
        from outrider.simulation.homes.vocabulary import target_of
        from outrider.simulation.simulator import open_simulator

        world = self.world
        plan = check_sentence(self.instruction, self.vocabulary)
        target = target_of(world["holds"] or plan.intent)
        home = generate_home(world["seed"], target, world["placement"])
        return open_simulator(home, world["seed"], world["odometry_noise"], world["legs"])

    def conditions(self) -> dict[str, Any]:
        """Returns the conditions that the run's figures depend on.

        `ros` is False, unlike in a run of nodes.
        """
        return {
            "instruction": self.instruction,
            "ros": False,
            "seed": self.world["seed"],
            "placement": self.world["placement"],
            "link": None,
            "drafters": ",".join(self.config.drafters),
            "draft_model": str(self.folder / "draft"),
            "versions": versions(),
            "made_with": made_with(self.folder),
            "host": host(),
        }
