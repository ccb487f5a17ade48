# SPDX-License-Identifier: Apache-2.0
"""Decides when to take the next frame during a motion, so that its answer comes as the motion ends."""

from __future__ import annotations

from outrider.core.language.actions import Motion
from outrider.core.values import Odometry, Pose2D
from outrider.navigation.limits import MotionLimits
from outrider.navigation.motion.anchoring import seconds_left

FULL_SPEED = MotionLimits()
"""The speeds assumed for motions. With other limits the next frame is taken a little early or late."""


class LookAhead:
    """Follows one motion at a time by odometry. It expects the next answer to take as long as the last."""

    def __init__(self) -> None:
        self._motion, self._anchor, self._latency_s = Motion(), Pose2D(0.0, 0.0, 0.0), 0.0

    def follow(self, motion: Motion, anchor: Pose2D, latency_s: float) -> None:
        """Follow a motion planned from `anchor`. Its answer took `latency_s` from its frame."""
        self._motion, self._anchor, self._latency_s = motion, anchor, latency_s

    def is_due(self, odometry: Odometry | None) -> bool:
        """Whether the rest of the motion takes no longer than an answer; never true for a stop."""
        if odometry is None or self._motion.is_stop:
            return False
        return seconds_left(self._motion, self._anchor, odometry.pose, FULL_SPEED) <= self._latency_s
