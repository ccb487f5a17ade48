# SPDX-License-Identifier: Apache-2.0
"""`outrider eval agents`: hostile calls to a real `outrider mcp`, whose simulated robot is watched."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from outrider.console.agents.address import ConsoleAddress
from outrider.console.server import ConsoleServer
from outrider.core.errors import LinkError
from outrider.core.files.terminal import tracked
from outrider.evaluation.agents.hostile_agent import HostileAgent, served
from outrider.evaluation.agents.hostile_calls import Call, call_line, hostile_calls
from outrider.evaluation.agents.monitor import STOP_LIMIT_S, MonitoredConsole, MotionMonitor
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.polling import wait_until
from outrider.evaluation.common.tables import print_results, results_table
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import models_folder
from outrider.runtime.mission.words import vocabulary_of
from outrider.runtime.no_ros.simulated_robot import SimulatedRobot
from outrider.runtime.node_graph.simulation_specs import SIMULATION

BATCH = 100
MOVING_S, SETTLE_S, PAUSE_S = 4.0, 1.0, 1.2
"""Seconds to wait for a motion to begin, for a robot to stand, and for the agent's rate to recover."""
MOVES_S = 0.1
"""A robot whose pose changed within this many seconds is moving."""
FEW, BEGIN_S, CARRY_OUT_S, SHOWN = 10, 0.5, 4.0, 20


@dataclass(frozen=True)
class HostileFigures:
    """The figures of a trial. A stop's time runs from its sending until it reaches the robot's port.

    `stands_worst_ms` runs until the last change of the robot's true pose. `outside` counts forbidden
    sentences that were taken, velocities, releases, and true motion beyond a sentence's bound.
    `taken_hasty`: sentences given to the robot while no rate was limited.
    """

    calls: int
    kinds: dict[str, int]
    answered: int
    taken: int
    taken_hasty: int
    moved: int
    motions: int
    outside: int
    collisions: int
    stops: int
    late_stops: int
    agent_stop_ms: float
    agent_stop_worst_ms: float
    person_stop_ms: float
    person_stop_worst_ms: float
    moving_stops: int
    stands_worst_ms: float

    @property
    def holds(self) -> bool:
        """Whether nothing moved outside the envelope, and every stop came in time."""
        worst_ms = max(self.agent_stop_worst_ms, self.person_stop_worst_ms, self.stands_worst_ms)
        return self.outside == self.collisions == 0 and worst_ms <= STOP_LIMIT_S * 1e3


def evaluate_agents(
    calls: int, seed: int = 0, json_file: Path | None = None, over_http: bool = False
) -> HostileFigures:
    """Send hostile calls in batches with a stop in each; print a table; write JSON.

    Over a pipe the second half of the calls has no rate limit, so that its sentences reach the grammar.
    Every other stop is the agent's own, behind the rest of the batch; the others are a person's at the
    console. Raises LinkError if the agents' server does not answer, OutriderError without a simulation.
    """
    folder = models_folder()
    vocabulary = vocabulary_of(str(folder / "draft"))
    robot = SimulatedRobot(SIMULATION.checked({"holds": "silver bottle", "seed": seed}), folder, vocabulary)
    monitor = MotionMonitor(robot)
    with closing(robot), closing(MonitoredConsole(monitor, robot.truth)) as console:
        robot.show_on(console)
        trial = _Trial(monitor, console)
        hostile = hostile_calls(seed)
        hasty = 0 if over_http else calls - calls // 2
        for is_hasty, count in ((False, calls - hasty), (True, hasty)):
            if count:
                with served(console.url, is_hasty, over_http) as agent:
                    trial.run(agent, itertools.islice(hostile, count), is_hasty)
    figures = trial.figures(robot.collisions)
    title = f"{figures.calls} hostile calls to a robot"
    table = results_table(title, *LEGENDS["eval agents"], rows=_rows(figures).items())
    print_results(table, *monitor.outside[:SHOWN])
    write_figures(
        json_file,
        {
            **asdict(figures),
            "over_http": over_http,
            "seed": seed,
            "holds": figures.holds,
            "outside_kinds": monitor.outside[:SHOWN],
        },
    )
    return figures


@dataclass
class _Trial:
    monitor: MotionMonitor
    console: ConsoleServer
    sent: Counter[str] = field(default_factory=Counter)
    answered: int = 0
    taken_hasty: int = 0
    agent_s: list[float] = field(default_factory=list)
    person_s: list[float] = field(default_factory=list)
    stands_s: list[float] = field(default_factory=list)

    def run(self, agent: HostileAgent, calls: Iterator[Call], is_hasty: bool) -> None:
        """Send calls in batches to a server with or without a rate limit."""
        before = self.monitor.taken
        batches = list(iter(lambda: list(itertools.islice(calls, BATCH)), []))
        for number, batch in enumerate(tracked(batches, "hostile calls")):
            self.sent.update(kind for kind, _ in batch)
            batch.sort(key=lambda call: call[0] == "stop")  # last: they end the motion
            lines = [line for _, line in batch]
            if is_hasty:
                half = len(lines) // 2
                self._speak(agent, lines[:half])
                lines = lines[half:]
            self._stop(agent, number, lines)
        self.answered += agent.answered
        self.taken_hasty += (self.monitor.taken - before) * is_hasty

    def _speak(self, agent: HostileAgent, lines: list[bytes]) -> None:
        """Send a few lines at a time, with time to carry one out in between."""
        for begin in range(0, len(lines), FEW):
            agent.send(lines[begin : begin + FEW])
            wait_until(lambda: not self.monitor.is_idle, BEGIN_S)
            wait_until(lambda: self.monitor.is_idle, CARRY_OUT_S)

    def _stop(self, agent: HostileAgent, number: int, lines: list[bytes]) -> None:
        """Send the lines, a command that moves the robot, and a stop; record how soon the stop acts.

        In every other pair of batches the lines come after the command, and the stop behind them: stops
        among them may end the motion first. In the others the stop meets a motion.
        """
        is_behind = number // 2 % 2 == 0
        if not is_behind:
            agent.send(lines)
            time.sleep(SETTLE_S)
            self._release()
        began_s = time.monotonic()
        agent.send([call_line(f"opening {number}", "goal", {"sentence": "turn left"})])
        wait_until(lambda: self.monitor.moved_s > began_s, MOVING_S)
        if is_behind:
            agent.send(lines)  # blocks while too many wait
        was_moving = time.monotonic() - self.monitor.moved_s < MOVES_S
        count = len(self.monitor.stops_s)
        stop_s = time.monotonic()
        if number % 2:
            with suppress(LinkError):  # counts as a stop that never came
                ConsoleAddress(self.console.url).e_stop()
        else:
            agent.stop()
        wait_until(lambda: len(self.monitor.stops_s) > count, SETTLE_S)
        stops = self.monitor.stops_s[count:]
        (self.person_s if number % 2 else self.agent_s).append(stops[0] - stop_s if stops else SETTLE_S)
        time.sleep(SETTLE_S)
        if was_moving:
            self.stands_s.append(max(0.0, self.monitor.moved_s - stop_s))
        self._release()

    def _release(self) -> None:
        """Release the stop as a person does, and wait until the agent's rate has recovered."""
        self.monitor.is_released_by_us = True
        self.monitor.set_e_stop(False)
        self.monitor.is_released_by_us = False
        self.console.update(e_stop=False)
        time.sleep(PAUSE_S)

    def figures(self, collisions: int) -> HostileFigures:
        return HostileFigures(
            calls=self.sent.total(),
            kinds=dict(sorted(self.sent.items())),
            answered=self.answered,
            taken=self.monitor.taken,
            taken_hasty=self.taken_hasty,
            moved=self.monitor.moved,
            motions=self.monitor.motions,
            outside=len(self.monitor.outside),
            collisions=collisions,
            stops=len(self.agent_s) + len(self.person_s),
            late_stops=sum(stop_s > STOP_LIMIT_S for stop_s in (*self.agent_s, *self.person_s)),
            agent_stop_ms=_median_ms(self.agent_s),
            agent_stop_worst_ms=_worst_ms(self.agent_s),
            person_stop_ms=_median_ms(self.person_s),
            person_stop_worst_ms=_worst_ms(self.person_s),
            moving_stops=len(self.stands_s),
            stands_worst_ms=_worst_ms(self.stands_s),
        )


def _median_ms(values: Sequence[float]) -> float:
    return round(sorted(values)[len(values) // 2] * 1e3, 1) if values else 0.0


def _worst_ms(values: Sequence[float]) -> float:
    return round(max(values, default=0.0) * 1e3, 1)


def _rows(figures: HostileFigures) -> dict[str, str]:
    return {
        "calls answered": str(figures.answered),
        "sentences given to the robot": str(figures.taken),
        "of them while no pace was in the way": str(figures.taken_hasty),
        "of them that moved it": str(figures.moved),
        "motions watched": str(figures.motions),
        "outside what an agent may do": str(figures.outside),
        "collisions": str(figures.collisions),
        "stops sent": str(figures.stops),
        "of them that came too late": str(figures.late_stops),
        "agent's stop to the robot": f"{figures.agent_stop_ms} ms, worst {figures.agent_stop_worst_ms} ms",
        "person's stop to the robot": f"{figures.person_stop_ms} ms, worst {figures.person_stop_worst_ms} ms",
        "stop to standing": f"worst of {figures.moving_stops}: {figures.stands_worst_ms} ms",
    }
