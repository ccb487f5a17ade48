# SPDX-License-Identifier: Apache-2.0
"""Carries out a motion on a robot whose clock advances as it drives: simulation, evaluation and tests."""

from __future__ import annotations

from collections.abc import Callable

from outrider.core.language.actions import Motion
from outrider.core.ports import Robot
from outrider.navigation.limits import MotionLimits
from outrider.navigation.motion.controller import Command, MotionController

CONTROL_PERIOD_S = 0.05


def carry_out(
    robot: Robot,
    motion: Motion,
    limits: MotionLimits | None = None,
    on_tick: Callable[[], None] = lambda: None,
) -> Command:
    """Drive until the motion has ended. Returns the last command. `on_tick` is called after each period."""
    controller = MotionController(motion, limits)
    odometry = robot.odometry()
    controller.start(odometry, odometry.stamp_s)
    while True:
        odometry = robot.odometry()
        command = controller.update(odometry, robot.scan(), odometry.stamp_s)
        if command.done:
            return command
        robot.drive(command.velocity, CONTROL_PERIOD_S)
        on_tick()
