# SPDX-License-Identifier: Apache-2.0
"""Publishes the text of one step as it grows: each verified piece, and the action once it is complete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from outrider.core.language.actions import Motion, split_answer
from outrider.core.values import Decoded, Verified
from outrider.navigation.goal.navigator import Navigator, StepKey
from outrider.runtime.mission.robot_side import RobotSide, StepState, StepUpdate


class GrowingText:
    """Publishes a step's verified text. `on_action` gets its motion and its latency in seconds."""

    def __init__(
        self,
        robot: RobotSide,
        navigator: Navigator,
        key: StepKey,
        update: StepUpdate,
        on_action: Callable[[Motion, float], None],
    ) -> None:
        self._robot, self._navigator, self._key, self._on_action = robot, navigator, key, on_action
        self.update = update

    @property
    def says_enough(self) -> bool:
        """Whether the text holds all that the next prompt needs: action and phase."""
        return self.update.action_complete and bool(split_answer(self.update.text).phase)

    def on_verified(self, verified: Verified) -> None:
        """Publish the newly verified tokens. The first complete action line moves the robot."""
        now_s = self._robot.now_s()
        motion = self._navigator.on_verified(self._key, verified.text, now_s)
        tokens = self.update.verified_tokens + len(verified.token_ids)
        self.update = replace(self.update, text=verified.text, verified_tokens=tokens, trace=verified.trace)
        if motion is not None:
            self._complete_action(verified.text, motion, now_s)
        self._robot.publish_step(self.update)

    def finish(self, decoded: Decoded) -> StepUpdate:
        """Publish and return the whole text.

        A single line is an action if it has ended, but not if it was cut short.
        """
        now_s = self._robot.now_s()
        if decoded.finished or "\n" in decoded.text:
            motion = self._navigator.on_finished(self._key, decoded.text, now_s)
            if motion is not None:
                self._complete_action(decoded.text + "\n", motion, now_s)
        self.update = replace(
            self.update,
            text=decoded.text,
            verified_tokens=len(decoded.token_ids),
            target_passes=decoded.target_passes,
            tokens_per_s=decoded.tokens_per_s,
            tokens_per_round=decoded.tokens_per_round,
        )
        return self._end()

    def cut(self) -> StepUpdate:
        """End the step with what is verified so far, and return it. Call it only if `says_enough`."""
        self._navigator.on_finished(self._key, self.update.text, self._robot.now_s())
        return self._end()

    def _end(self) -> StepUpdate:
        self.update = replace(self.update, state=StepState.FINISHED, trace=())
        self._robot.publish_step(self.update)
        return self.update

    def _complete_action(self, text: str, motion: Motion, now_s: float) -> None:
        latency_s = now_s - self._key.frame_stamp_s
        self._on_action(motion, latency_s)
        action = split_answer(text).action
        self.update = replace(self.update, action=action, action_complete=True, latency_s=latency_s)
