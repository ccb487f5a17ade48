# SPDX-License-Identifier: Apache-2.0
"""Carries out turns and moves of a size that a person named, in actions of the table and without a model."""

from __future__ import annotations

import math
from collections.abc import Callable

from outrider.core.errors import MotionError
from outrider.core.language.actions import SIZES, STOP, ActionTable, Motion
from outrider.core.values import Decoded, DecodeRequest, LinkState, Odometry, Pose2D, Verified, wrap_angle

FUTILE_SHARE, FUTILE_TRIES = 0.5, 3
TOO_FAR_SHARE = 1.6
"""A part that brings more than this share of its size was moved by something else."""


class CommandedMotion:
    """Implements `core.ports.TextDecoder` without decoding: each text is the next part of one motion.

    Progress is measured by odometry, so that the parts add up. `decode` raises MotionError if the robot
    makes no progress, was moved by something else, or has no odometry. A part for which `has_failed` is
    true does not count as a futile try: the caller that saw the failure reports it and waits.
    """

    link_state = LinkState.LOCAL

    def __init__(
        self,
        motion: Motion,
        odometry: Callable[[], Odometry | None],
        table: ActionTable | None = None,
        has_failed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._motion, self._odometry, self._has_failed = motion, odometry, has_failed
        self._parts = _parts(motion, table or ActionTable())
        self._before: Pose2D | None = None
        self._last = 0.0
        self._futile = 0
        self.done = 0.0
        """Metres moved or radians turned so far, in the sense of the motion."""

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        """Returns the next part of the motion as a text, or a stop once all of it is done."""
        odometry = self._odometry()
        if odometry is None:
            raise MotionError("no odometry: check that something publishes odom")
        self._account(odometry.pose)
        text = f"{self._next()}\ntold: {self.words}."
        on_verified(Verified((), text, 0.0))
        return Decoded(text, (), True, 0.0, 0.0, 0)

    def close(self) -> None:
        """Does nothing: there are no resources to close."""

    @property
    def words(self) -> str:
        """Progress in words."""
        if self._motion.forward_m:
            return f"went {self.done:.2f} of {self._motion.forward_m:g} m"
        side = "left" if self._motion.turn_rad > 0.0 else "right"
        wanted = math.degrees(abs(self._motion.turn_rad))
        return f"turned {math.degrees(self.done):.0f} of {wanted:.0f} degrees {side}"

    def _next(self) -> str:
        """Returns the largest part that fits the remainder, rounded to the nearest; a stop if none does."""
        left = self._wanted - self.done
        least = self._parts[0][1]
        fitting = [part for part in self._parts if part[1] <= left + least / 2.0]
        action, self._last = fitting[-1] if fitting and left > least / 2.0 else (STOP, 0.0)
        return action

    def _account(self, pose: Pose2D) -> None:
        before, self._before = self._before, pose
        if before is None:
            return
        gained = _gained(self._motion, before, pose)
        slack = self._parts[0][1] / 2.0
        if not -slack <= gained <= TOO_FAR_SHARE * self._last + slack:
            raise MotionError(f"something else moved the robot when it {self.words}: say it anew")
        self.done += gained
        if not self._has_failed():
            self._futile = self._futile + 1 if gained < FUTILE_SHARE * self._last else 0
        if self._futile >= FUTILE_TRIES:
            raise MotionError(f"blocked: {self.words}")

    @property
    def _wanted(self) -> float:
        return self._motion.forward_m or abs(self._motion.turn_rad)


def _parts(motion: Motion, table: ActionTable) -> list[tuple[str, float]]:
    """Returns the actions that a motion may consist of, smallest first, each with its size."""
    if motion.forward_m:
        return [(f"move forward {size}", m) for size, m in zip(SIZES, table.forward_m, strict=True)]
    side = "left" if motion.turn_rad > 0.0 else "right"
    return [(f"turn {side} {size}", math.radians(d)) for size, d in zip(SIZES, table.turn_deg, strict=True)]


def _gained(motion: Motion, before: Pose2D, after: Pose2D) -> float:
    """Returns metres along the heading, or radians in the sense of the turn."""
    if motion.forward_m:
        dx, dy = after.x - before.x, after.y - before.y
        return dx * math.cos(before.yaw) + dy * math.sin(before.yaw)
    return math.copysign(1.0, motion.turn_rad) * wrap_angle(after.yaw - before.yaw)
