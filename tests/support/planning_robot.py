"""A simulated robot that carries out plans, and reports their progress."""

from __future__ import annotations

from dataclasses import dataclass, field

from support.errands import Listener
from support.simulated_robot import SimulatedSide

from outrider.core.values import Pose2D
from outrider.navigation.motion.step_motions import Ending, MotionEnd
from outrider.runtime.mission.goal_run import GoalSettings
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.mission.robot_side import GoalResult, StepUpdate
from outrider.runtime.plans.errand import Errand
from outrider.runtime.plans.progress import Progress
from outrider.simulation.homes.home import generate_home
from outrider.simulation.homes.vocabulary import ObjectSpec, vocabulary
from outrider.simulation.simulator import Simulator


class Side(SimulatedSide):
    """Waiting advances its clock. `blocked` blocks forward motions; the next `failing` motions fail."""

    blocked = False
    failing = 0

    def __init__(self, simulator: Simulator) -> None:
        super().__init__(simulator)
        self.waited_s = 0.0
        self.actions: list[str] = []

    def now_s(self) -> float:
        return super().now_s() + self.waited_s

    def pause(self, duration_s: float) -> None:
        self.waited_s += duration_s

    def _move(self, update: StepUpdate) -> MotionEnd:
        self.actions.append(update.action)
        if self.failing:
            self.failing, self.waited_s = self.failing - 1, self.waited_s + 0.3
            return MotionEnd(
                update.session_id, update.step, update.action, Ending.FAILED, "the Go2 is damped"
            )
        if self.blocked and "forward" in update.action:
            return MotionEnd(update.session_id, update.step, update.action, Ending.BLOCKED, "blocked")
        return super()._move(update)


@dataclass
class Robot:
    """A simulated robot, its decoder and goal loop, and the progress that its plans reported."""

    side: Side
    listener: Listener
    errand: Errand
    told: list[Progress] = field(default_factory=list)

    def say(self, sentence: str) -> GoalResult:
        return self.errand.run(sentence, lambda: False)

    @property
    def pose(self) -> Pose2D:
        return self.side.simulator.truth()


def robot_in(seed: int, recollection: Recollection | None = None) -> Robot:
    """Returns a robot in a home with a red ball in view. The caller closes its simulator."""
    simulator = Simulator(generate_home(seed, ObjectSpec("ball", "red"), "in_view"))
    side, listener = Side(simulator), Listener()
    errand = Errand(side, listener, vocabulary(), GoalSettings(), recollection, side.floor)
    robot = Robot(side, listener, errand)
    errand.on_progress = robot.told.append
    return robot
