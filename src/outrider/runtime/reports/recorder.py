# SPDX-License-Identifier: Apache-2.0
"""Collects the contents of a run's report as they arrive. Times are seconds since the goal was given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from outrider.core.language.sentences.planner import brief
from outrider.core.values import Pose2D, RoundStats, TokenFate
from outrider.navigation.motion.step_motions import MotionEnd
from outrider.runtime.mission.robot_side import GoalResult, StepState, StepUpdate
from outrider.runtime.plans.progress import Progress, tells_private
from outrider.runtime.reports.report import PoseRecord, RoundRecord, RunRecord, Shot, StepRecord
from outrider.runtime.reports.verdict import Judgement, judge
from outrider.simulation.homes.home import Home
from outrider.simulation.homes.vocabulary import target_of

SHOT_PERIOD_S = 0.15
POSE_PERIOD_S = 0.1


@dataclass(frozen=True)
class Truth:
    """The simulation's ground truth."""

    pose: Pose2D
    target_distance_m: float
    collisions: int


class Recorder:
    """Records one run. Pictures and poses are thinned out, so that a long run stays small."""

    def __init__(self, instruction: str) -> None:
        self.instruction = instruction
        self.strategy = ""
        self.truth: Truth | None = None
        self.latest = StepUpdate("", 0, StepState.DECODING)
        self.progress = Progress()
        self.step_poses: list[Pose2D | None] = []
        """The robot's true pose at the end of each completed step of the plan."""
        self._steps: dict[int, StepRecord] = {}
        self._ends: dict[int, tuple[MotionEnd, float]] = {}
        self._shots: list[Shot] = []
        self.poses: list[PoseRecord] = []
        self._rounds: list[RoundRecord] = []
        self._tokens: defaultdict[int, list[tuple[str, TokenFate]]] = defaultdict(list)
        self._link_states: list[tuple[float, str]] = []

    def on_progress(self, progress: Progress) -> None:
        """Record the plan, or its next step."""
        self.progress = progress
        while len(self.step_poses) < progress.current:
            self.step_poses.append(self.truth.pose if self.truth else None)

    @property
    def target_distance_m(self) -> float | None:
        """Returns the distance to the target; None if there is no target, or it is not known."""
        has_target = any(target_of(target) for target in self.progress.targets)
        return self.truth.target_distance_m if self.truth and has_target else None

    def judge(self, result: GoalResult, home: Home | None) -> Judgement:
        """Returns the judgement of the run. It is measured if the home and the true poses are known."""
        pose, collisions = (self.truth.pose, self.truth.collisions) if self.truth else (None, 0)
        return judge(self.progress.targets, self.step_poses, result, home, pose, collisions)

    def on_text(self, update: StepUpdate, link_state: str, time_s: float) -> None:
        """Record an update of a step's text, and a change of the link's state.

        A withdrawn text is not recorded.
        """
        if not self._link_states or self._link_states[-1][1] != link_state:
            self._link_states.append((time_s, link_state))
        if update.state is StepState.WITHDRAWN:
            return
        self.latest = update
        step = self._steps.get(update.step) or _new_step(update.step, time_s)
        if update.action_complete and not step.action:
            step = replace(step, action=update.action, action_s=time_s, latency_s=update.latency_s)
        if update.state is StepState.FINISHED and not step.tokens:
            step = replace(step, finished_s=time_s, tokens=update.verified_tokens)
        self._steps[update.step] = replace(
            step,
            text=update.text,
            tokens_per_s=update.tokens_per_s,
            tokens_per_round=update.tokens_per_round,
            target_passes=update.target_passes,
        )

    def on_motion_end(self, end: MotionEnd, time_s: float) -> None:
        """Record how and when the motion of a step ended."""
        self._ends[end.step] = end, time_s

    def on_round(self, step: int, strategy: str, stats: RoundStats) -> None:
        """Record a decoding round of a step."""
        self.strategy = strategy
        self._rounds.append(RoundRecord(step, stats))

    def on_tokens(self, step: int, tokens: Sequence[tuple[str, TokenFate]]) -> None:
        """Record the fates of a step's next tokens. Unverified ones (AHEAD) are skipped: they come again."""
        self._tokens[step] += [token for token in tokens if token[1] is not TokenFate.AHEAD]

    def on_frame(self, jpeg: bytes, time_s: float) -> None:
        """Record a camera picture."""
        self._shots.append(Shot(time_s, jpeg))

    def wants_frame(self, time_s: float) -> bool:
        """Whether the last picture is old enough for another one."""
        return not self._shots or time_s - self._shots[-1].time_s >= SHOT_PERIOD_S

    def on_odometry(self, pose: Pose2D, time_s: float) -> None:
        """Record a pose, unless the last one is too recent."""
        if not self.poses or time_s - self.poses[-1].time_s >= POSE_PERIOD_S:
            self.poses.append(PoseRecord(time_s, pose, self.truth.pose if self.truth else pose))

    def finish(
        self,
        result: GoalResult,
        judgement: Judgement,
        duration_s: float,
        home: Home | None,
        conditions: Mapping[str, Any] | None = None,
    ) -> RunRecord:
        """Returns the record of a run with this result and judgement, without private words."""
        done = "arrived" if judgement.checked else "done"
        outcome = done if result.success else result.error.name.lower()
        private = self.progress.is_private or tells_private(self.instruction)
        return RunRecord(
            instruction=brief(self.instruction) if private else self.instruction,
            success=judgement.verdict.is_reached,
            outcome=outcome,
            message=outcome if private else judgement.message,
            strategy=self.strategy,
            duration_s=duration_s,
            target_distance_m=judgement.target_distance_m,
            collisions=self.truth.collisions if self.truth else 0,
            link_states=tuple(self._link_states),
            home=home,
            checked=judgement.checked,
            conditions=conditions or {},
            plan=self.progress,
            steps=[_whole_step(self._steps[index], self._ends.get(index)) for index in sorted(self._steps)],
            shots=self._shots,
            poses=self.poses,
            rounds=self._rounds,
            tokens=self._tokens,
        )


def _whole_step(step: StepRecord, ended: tuple[MotionEnd, float] | None) -> StepRecord:
    """Returns the step with its motion's end.

    That may arrive before the action: topics have no common order.
    """
    if ended is not None:
        end, time_s = ended
        note = f"{end.ending.name.lower()}: {end.message}" if end.message else ""
        step = replace(step, action_s=min(step.action_s, time_s), moved_s=time_s, note=note)
    return replace(step, frame_s=max(0.0, step.action_s - step.latency_s)) if step.action else step


def _new_step(index: int, time_s: float) -> StepRecord:
    return StepRecord(index, time_s, 0.0, 0.0, 0.0, "", "", 0.0, 0, 0.0, 0.0, 0)
