# SPDX-License-Identifier: Apache-2.0
"""What a goal came to: measured where the target's place is known, else the robot's own account."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from outrider.core.values import Pose2D
from outrider.memory.language.utterances import Ask, AskSeen, Remember, understand
from outrider.runtime.mission.episode import stands_at
from outrider.runtime.mission.robot_side import GoalResult
from outrider.simulation.homes import Home
from outrider.simulation.vocabulary import target_of


class Verdict(str, Enum):
    """SUCCESS and FAILED may be measured; DONE is what the robot says, and nobody has checked."""

    SUCCESS = "success"
    DONE = "done"
    FAILED = "failed"

    @property
    def is_reached(self) -> bool:
        """Whether the goal counts as reached, measured or as the robot says."""
        return self is not Verdict.FAILED

    @property
    def words(self) -> str:
        """As it is printed."""
        return "DONE (not checked)" if self is Verdict.DONE else self.name


@dataclass(frozen=True)
class Judgement:
    """A verdict and its reason. `checked`: the distance to the target was measured."""

    verdict: Verdict
    message: str
    checked: bool = False
    target_distance_m: float | None = None


def judge(
    instruction: str, result: GoalResult, home: Home | None, pose: Pose2D | None, collisions: int = 0
) -> Judgement:
    """`home` and `pose` are the simulation's truth; None on a robot whose surroundings nobody knows."""
    meant = target_of(instruction)
    is_said = isinstance(understand(instruction), (Remember, AskSeen, Ask))
    if home is None or pose is None or meant is None or is_said:
        return Judgement(Verdict.DONE if result.success else Verdict.FAILED, result.message)
    things = [thing for thing in home.objects if thing.spec == meant]
    if not things:
        return Judgement(Verdict.FAILED, f"{result.message}; this home holds no {meant.phrase}", checked=True)
    distance_m = min(pose.distance_to(thing.x, thing.y) for thing in things)
    stands = any(stands_at(home, pose, thing) for thing in things)
    verdict = Verdict.SUCCESS if result.success and stands else Verdict.FAILED
    place = f"stands {distance_m:.2f} m from the {meant.phrase}, {collisions} collisions"
    return Judgement(verdict, f"{result.message}; {place}", True, distance_m)
