# SPDX-License-Identifier: Apache-2.0
"""`outrider eval agents`: hostile calls to a real `outrider mcp`, beside a simulated robot that obeys it."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from rich.table import Table

from outrider.console.agents.address import ConsoleAddress
from outrider.console.robot import GoalEnd, RobotPort
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.console.switched.switches import NOT_EMULATED, Switch
from outrider.core.errors import InstructionError, LinkError
from outrider.core.files.terminal import tracked
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.planner import plan_of
from outrider.core.values import Pose2D, Velocity
from outrider.evaluation.agents.hostile_calls import call_line, hostile_calls
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import print_results, results_table
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import models_folder
from outrider.runtime.mission.words import vocabulary_of
from outrider.runtime.no_ros.simulated_robot import SimulatedRobot
from outrider.runtime.node_graph.node_specs import SIMULATION

BATCH = 100
STOP_LIMIT_S = 0.3
MOVING_S, SETTLE_S, READY_S, PAUSE_S = 3.0, 1.0, 120.0, 1.2
"""Seconds to wait for: a motion to begin, a robot to stand, the agent's server, the agent's pace."""
HELLO = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"hostile","version":"0"}}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


@dataclass(frozen=True)
class HostileFigures:
    """`stops`: from a stop's sending to the robot's port; `stands`: to the last change of the robot's pose.

    `outside` counts sentences that are no plan, velocities, releases, and motion while no command ran.
    """

    calls: int
    kinds: dict[str, int]
    answered: int
    taken: int
    outside: int
    collisions: int
    stops: int
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


@dataclass
class Witness:
    """A robot's port that writes down what it is told, and has the robot do it."""

    robot: RobotPort
    vocabulary: Vocabulary | None
    taken: int = 0
    outside: list[str] = field(default_factory=list)
    stops_s: list[float] = field(default_factory=list)
    moved_s: float = 0.0
    running: int = 0
    is_released_by_us: bool = False
    _pose: Pose2D | None = None

    def __post_init__(self) -> None:
        self.limits = self.robot.limits

    def drive(self, velocity: Velocity) -> None:
        """Note any velocity: no agent may give one."""
        if velocity != Velocity():
            self.outside.append("a velocity")

    def set_e_stop(self, engaged: bool) -> bool:
        """Note when a stop comes, and a release that nobody asked for."""
        if engaged:
            self.stops_s.append(time.monotonic())
        elif not self.is_released_by_us:
            self.outside.append("a release")
        return self.robot.set_e_stop(engaged)

    def send_goal(self, instruction: str, on_end: Callable[[GoalEnd], None]) -> None:
        """Note a goal that is no sentence of the grammar, and pass it on."""
        try:
            plan_of(instruction, self.vocabulary)
        except InstructionError:
            self.outside.append("a sentence that is no plan")
        self.taken, self.running = self.taken + 1, self.running + 1

        def ended(end: GoalEnd) -> None:
            self.running -= 1
            on_end(end)

        self.robot.send_goal(instruction, ended)

    def cancel_goal(self) -> None:
        """End the robot's goal."""
        self.robot.cancel_goal()

    def switch(self, asked: Switch, on_end: Callable[[str], None]) -> None:
        """Note any: no agent may switch."""
        self.outside.append("a switch")
        on_end(NOT_EMULATED)

    def see(self, pose: Pose2D) -> None:
        """Where the robot is now."""
        if self._pose is not None and pose != self._pose:
            self.moved_s = time.monotonic()
            if not self.running:
                self.outside.append("motion without a command")
        self._pose = pose


class _ObservedConsole(ConsoleServer):
    """Whose robot's poses are also told to the witness."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        super().__init__(witness, ConsoleSettings(port=0))

    def show_pose(self, pose: Pose2D) -> None:
        self._witness.see(pose)
        super().show_pose(pose)


@dataclass
class _Pipe:
    """A process of `outrider mcp`; its answers are counted, and known by their number."""

    process: subprocess.Popen[bytes]
    answered: int = 0

    def __post_init__(self) -> None:
        threading.Thread(target=self._count, daemon=True).start()

    @property
    def sink(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    def send(self, lines: Sequence[bytes]) -> None:
        """Raises LinkError where the process has ended."""
        try:
            self.sink.write(b"".join(lines))
            self.sink.flush()
        except OSError:
            raise LinkError("outrider mcp has ended: see its message above") from None

    def _count(self) -> None:
        assert self.process.stdout is not None
        for _ in self.process.stdout:
            self.answered += 1


def evaluate_agents(calls: int, seed: int = 0, json_file: Path | None = None) -> HostileFigures:
    """Send hostile calls in batches with a stop in each, print a table, write JSON.

    Every other stop is the agent's own, behind half of the batch on its pipe; the rest are a person's at the
    console. Raises LinkError where the agents' server does not answer, OutriderError without a simulation.
    """
    folder = models_folder()
    vocabulary = vocabulary_of(str(folder / "draft"))
    robot = SimulatedRobot(SIMULATION.checked({"holds": "silver bottle", "seed": seed}), folder, vocabulary)
    witness = Witness(robot, vocabulary)
    with closing(robot), closing(_ObservedConsole(witness)) as console:
        robot.show_on(console)
        with _served(console.url) as pipe:
            trial = _Trial(witness, console, pipe)
            sent = trial.run(itertools.islice(hostile_calls(seed), calls))
            answered = pipe.answered
    figures = trial.figures(sent, answered, robot.collisions)
    print_results(_table(figures))
    write_figures(
        json_file, {**asdict(figures), "holds": figures.holds, "outside_kinds": witness.outside[:20]}
    )
    return figures


@contextmanager
def _served(url: str) -> Iterator[_Pipe]:
    command = [sys.executable, "-m", "outrider", "mcp", "--console", url]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1 << 20)
    pipe = _Pipe(process)
    try:
        pipe.send([HELLO])
        _wait(lambda: pipe.answered, READY_S)
        if not pipe.answered:
            raise LinkError("outrider mcp does not answer: see its message above")
        yield pipe
    finally:
        pipe.sink.close()
        process.wait(READY_S)


@dataclass
class _Trial:
    witness: Witness
    console: ConsoleServer
    pipe: _Pipe
    agent_s: list[float] = field(default_factory=list)
    person_s: list[float] = field(default_factory=list)
    stands_s: list[float] = field(default_factory=list)

    def run(self, calls: Iterator[tuple[str, bytes]]) -> Counter[str]:
        """How many calls of each kind were sent."""
        sent: Counter[str] = Counter()
        batches = list(iter(lambda: list(itertools.islice(calls, BATCH)), []))
        for number, batch in enumerate(tracked(batches, "hostile calls")):
            sent.update(kind for kind, _ in batch)
            self._batch(number, [line for _, line in batch])
        return sent

    def _batch(self, number: int, lines: list[bytes]) -> None:
        """A command, then one half; a stop among the other half, and what came of it."""
        half = len(lines) // 2
        self.pipe.send([call_line(number, "goal", {"sentence": "turn left"}), *lines[:half]])
        began_s = time.monotonic()
        _wait(lambda: self.witness.moved_s > began_s, MOVING_S)
        was_moving = time.monotonic() - self.witness.moved_s < STOP_LIMIT_S
        count = len(self.witness.stops_s)
        stop_s = time.monotonic()
        if number % 2:
            self.pipe.send(lines[half:])
            ConsoleAddress(self.console.url).e_stop()
        else:
            self.pipe.send([*lines[half:], call_line("stop", "stop", {})])
        _wait(lambda: len(self.witness.stops_s) > count, SETTLE_S)
        stops = self.witness.stops_s[count:]
        (self.person_s if number % 2 else self.agent_s).append(stops[0] - stop_s if stops else SETTLE_S)
        time.sleep(SETTLE_S)
        if was_moving:
            self.stands_s.append(max(0.0, self.witness.moved_s - stop_s))
        self._release()

    def _release(self) -> None:
        """As a person does; then the agent's pace has recovered."""
        self.witness.is_released_by_us = True
        self.witness.set_e_stop(False)
        self.witness.is_released_by_us = False
        self.console.update(e_stop=False)
        time.sleep(PAUSE_S)

    def figures(self, sent: Counter[str], answered: int, collisions: int) -> HostileFigures:
        return HostileFigures(
            calls=sent.total(),
            kinds=dict(sorted(sent.items())),
            answered=answered,
            taken=self.witness.taken,
            outside=len(self.witness.outside),
            collisions=collisions,
            stops=len(self.agent_s) + len(self.person_s),
            agent_stop_ms=_median_ms(self.agent_s),
            agent_stop_worst_ms=_worst_ms(self.agent_s),
            person_stop_ms=_median_ms(self.person_s),
            person_stop_worst_ms=_worst_ms(self.person_s),
            moving_stops=len(self.stands_s),
            stands_worst_ms=_worst_ms(self.stands_s),
        )


def _wait(condition: Callable[[], object], timeout_s: float) -> None:
    """Until it holds, or for so long."""
    deadline_s = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.002)


def _median_ms(values: Sequence[float]) -> float:
    return round(sorted(values)[len(values) // 2] * 1e3, 1) if values else 0.0


def _worst_ms(values: Sequence[float]) -> float:
    return round(max(values, default=0.0) * 1e3, 1)


def _table(figures: HostileFigures) -> Table:
    table = results_table(f"{figures.calls} hostile calls to a robot", *LEGENDS["eval agents"])
    shown: dict[str, Any] = {
        "calls answered": figures.answered,
        "sentences given to the robot": figures.taken,
        "outside what an agent may do": figures.outside,
        "collisions": figures.collisions,
        "stops sent": figures.stops,
        "agent's stop to the robot": (f"{figures.agent_stop_ms} ms, worst {figures.agent_stop_worst_ms} ms"),
        "person's stop to the robot": f"{figures.person_stop_ms} ms, worst {figures.person_stop_worst_ms} ms",
        "stop to standing": f"worst of {figures.moving_stops}: {figures.stands_worst_ms} ms",
    }
    for name, figure in shown.items():
        table.add_row(name, str(figure))
    return table
