# SPDX-License-Identifier: Apache-2.0
"""Runs a person's sentence from plan to result: its steps are carried out in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from outrider.core.errors import (
    Cancelled,
    FrameError,
    LinkError,
    MemoryStoreError,
    OutriderError,
)
from outrider.core.language import plan as p
from outrider.core.language.grammar import Vocabulary
from outrider.core.ports import TextDecoder
from outrider.core.values import Pose2D
from outrider.navigation.sensing.floor_map import FloorMap
from outrider.runtime.mission.bounded_waits import NO_ODOMETRY, first_odometry
from outrider.runtime.mission.goal_run import GoalSettings
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.mission.peer_answers import PeerAnswers
from outrider.runtime.mission.robot_side import GoalError, GoalResult, RobotSide
from outrider.runtime.plans.moves import Moves
from outrider.runtime.plans.progress import Progress, public_words
from outrider.runtime.plans.replies import Replies
from outrider.runtime.plans.run_log import RunLog
from outrider.runtime.plans.sight import Sight
from outrider.runtime.plans.understanding import Refusal, Understanding

STANDS = "the robot stands"
_CAUSES: tuple[tuple[type[OutriderError], GoalError], ...] = (
    (MemoryStoreError, GoalError.MEMORY_FAILED),
    (Cancelled, GoalError.CANCELLED),
    (LinkError, GoalError.LINK_LOST),
    (FrameError, GoalError.NO_SENSOR),
    (OutriderError, GoalError.MODEL_FAILED),
)


@dataclass
class Errand:
    """Carries out a sentence. Without a `recollection` nothing is remembered.

    With `peers` questions are answered together with the cloud. `log` outlives an errand: it records the
    steps, for later questions and corrections. `on_progress` is called before each step, and once all are
    done.
    """

    robot: RobotSide
    decoder: TextDecoder
    vocabulary: Vocabulary | None
    settings: GoalSettings
    recollection: Recollection | None = None
    floor: FloorMap | None = None
    peers: PeerAnswers | None = None
    log: RunLog = field(default_factory=RunLog)
    on_progress: Callable[[Progress], None] = lambda progress: None

    def __post_init__(self) -> None:
        self._moves = Moves(self.robot, self.decoder, self.settings, self.recollection, self.floor, self.log)
        sight = Sight(self.robot, self.decoder, self.vocabulary, self.settings)
        self._replies = Replies(self.recollection, self.peers, sight, self.log, self._pose)

    @property
    def leading(self) -> bool:
        """Whether the robot moves by itself now, so that it needs no link."""
        return self._moves.leading

    def plan(self, sentence: str) -> p.Plan:
        """Returns the plan of a sentence. Raises Refusal and MemoryStoreError; nothing moves."""
        evidence = self.floor.evidence_at if self.floor is not None else None
        understanding = Understanding(self.vocabulary, self.recollection, evidence, self.log)
        return understanding.plan(sentence, self._pose())

    def run(self, sentence: str, cancelled: Callable[[], bool]) -> GoalResult:
        """Understand the sentence and carry it out. Blocks until that has ended."""
        try:
            plan = self.plan(sentence)
        except Refusal as refusal:
            return GoalResult(False, GoalError.BAD_INSTRUCTION, str(refusal), 0, private=True)
        except MemoryStoreError as error:
            return GoalResult(False, GoalError.MEMORY_FAILED, str(error), 0)
        return self.carry_out(plan, cancelled)

    def carry_out(self, plan: p.Plan, cancelled: Callable[[], bool]) -> GoalResult:
        """Carry out the steps until one fails. Blocks until the plan has ended.

        A plan that needs odometry waits for it: a robot that has just been started has none yet.
        """
        if any(map(_is_placed, plan.steps)):
            patience_s = self.settings.sensor_patience_s
            if first_odometry(self.robot, patience_s, cancelled) is None and not cancelled():
                return GoalResult(False, GoalError.NO_SENSOR, NO_ODOMETRY, 0)
        self._moves.begin(self._pose())
        results: list[GoalResult] = []
        for index, step in enumerate(plan.steps):
            self.on_progress(Progress.of(plan, index))
            results.append(self._result_of(step, cancelled))
            if not results[-1].success:
                return _whole(plan, results)
        self.on_progress(Progress.of(plan, len(plan.steps)))
        return _whole(plan, results)

    def _result_of(self, step: p.Step, cancelled: Callable[[], bool]) -> GoalResult:
        """Returns the result of one step. Expected errors become results."""
        try:
            if cancelled():
                raise Cancelled("cancelled")
            result = self._carry_out(step, cancelled)
        except OutriderError as error:
            cause = next(cause for kind, cause in _CAUSES if isinstance(error, kind))
            result = GoalResult(False, cause, str(error), 0, private=not step.moves)
        if not step.answers:
            self.log.note(public_words(step), "done" if result.success else result.message, time.time())
        return result

    def _carry_out(self, step: p.Step, cancelled: Callable[[], bool]) -> GoalResult:
        moves, replies = self._moves, self._replies
        moved: dict[type[p.Step], Callable[..., GoalResult]] = {
            p.Find: moves.find,
            p.Follow: moves.follow,
            p.Return: moves.come_back,
            p.Home: moves.home,
            p.Go: moves.go,
            p.Turn: moves.turn,
            p.Move: moves.move,
            p.Wait: moves.wait,
        }
        said: dict[type[p.Step], Callable[..., str]] = {
            p.See: replies.see,
            p.Where: replies.where,
            p.Did: replies.did,
            p.Ask: replies.ask,
            p.Remember: replies.remember,
            p.Forget: replies.forget,
            p.Stop: lambda step, cancelled: STANDS,
        }
        kind = type(step)
        if kind in moved:
            return moved[kind](step, cancelled)
        return GoalResult(True, GoalError.NONE, said[kind](step, cancelled), 0, private=kind is not p.Stop)

    def _pose(self) -> Pose2D | None:
        odometry = self.robot.odometry()
        return odometry.pose if odometry else None


def _whole(plan: p.Plan, results: Sequence[GoalResult]) -> GoalResult:
    """Returns the result of a plan from those of its steps. Only the last may have failed."""
    last = results[-1]
    steps, private = sum(result.steps for result in results), any(result.private for result in results)
    if len(plan.steps) == 1:
        return last
    if last.success:
        message = "; ".join(f"{number}. {one.message}" for number, one in enumerate(results, 1))
    else:
        step = public_words(plan.steps[len(results) - 1])
        message = f"step {len(results)} of {len(plan.steps)}, {step}: {last.message}"
    return replace(last, message=message, steps=steps, private=private)


def _is_placed(step: p.Step) -> bool:
    """Whether a step needs the robot's pose."""
    return step.moves or (isinstance(step, p.Remember) and step.here)
