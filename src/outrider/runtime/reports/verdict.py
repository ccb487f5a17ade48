# SPDX-License-Identifier: Apache-2.0
"""The outcome of a goal: measured if the target's place is known, else as the robot reports it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from outrider.core.values import Pose2D
from outrider.runtime.mission.episode import has_reached
from outrider.runtime.mission.robot_side import GoalError, GoalResult
from outrider.simulation.homes.home import Home, meant
from outrider.simulation.homes.vocabulary import DOOR_KIND, Wanted, wanted


class Verdict(str, Enum):
    """SUCCESS is measured, FAILED may be; DONE is the robot's own report, which nothing has checked."""

    SUCCESS = "success"
    DONE = "done"
    FAILED = "failed"

    @property
    def is_reached(self) -> bool:
        """Whether the goal counts as reached, measured or as the robot reports it."""
        return self is not Verdict.FAILED

    @property
    def words(self) -> str:
        """Returns the verdict as it is printed."""
        return "DONE (not checked)" if self is Verdict.DONE else self.name


def with_reason(result: GoalResult, is_stopped: bool, limit_s: float) -> GoalResult:
    """Returns the result of a goal.

    If it was cancelled, the message says why: a signal, or the time limit.
    """
    if result.error is not GoalError.CANCELLED or result.message != "cancelled":
        return result
    return replace(result, message="interrupted" if is_stopped else f"not done within {limit_s:.0f} s")


@dataclass(frozen=True)
class Judgement:
    """A verdict and its reason. `checked`: the distance to the target was measured."""

    verdict: Verdict
    message: str
    checked: bool = False
    target_distance_m: float | None = None


def judge(
    targets: Sequence[str],
    step_poses: Sequence[Pose2D | None],
    result: GoalResult,
    home: Home | None,
    pose: Pose2D | None,
    collisions: int = 0,
) -> Judgement:
    """Returns the judgement of a plan.

    `targets` are those of its steps (`Progress.targets`). `step_poses` are the robot's poses at the
    ends of the completed steps; the current step ends at `pose`, the robot's pose now. `home` and the poses
    are the simulation's truth; None for unknown surroundings.
    """
    ends = zip(targets, (*step_poses, pose), strict=False)
    goals = [(goal, end) for target, end in ends if (goal := wanted(target)) is not None]
    if home is None or not goals or any(end is None for _, end in goals):
        return Judgement(Verdict.DONE if result.success else Verdict.FAILED, result.message)
    found = [_distance_to(home, goal, end) for goal, end in goals if end is not None]
    missing = next((target.phrase for target in found if target.distance_m is None), None)
    if missing is not None:
        message = f"{result.message}; this home holds no {missing}"
        return Judgement(Verdict.FAILED, message, checked=True)
    reached = result.success and all(target.is_there for target in found)
    places = ", ".join(f"{target.distance_m:.2f} m from the {target.phrase}" for target in found)
    verb = "stands" if len(targets) == 1 else "stood"
    message = f"{result.message}; {verb} {places}, {collisions} collisions"
    verdict = Verdict.SUCCESS if reached else Verdict.FAILED
    return Judgement(verdict, message, True, found[-1].distance_m)


@dataclass(frozen=True)
class _TargetDistance:
    """The robot's distance to a target; no distance if the home has no such thing."""

    phrase: str
    distance_m: float | None
    is_there: bool


def _distance_to(home: Home, goal: Wanted, pose: Pose2D) -> _TargetDistance:
    distances = [thing.distance_m(pose.x, pose.y) for thing in meant(home, goal)]
    if goal.thing.kind == DOOR_KIND:
        distances = [pose.distance_to(door.x, door.y) for door in home.doors]
    return _TargetDistance(goal.phrase, min(distances, default=None), has_reached(home, goal, pose))
