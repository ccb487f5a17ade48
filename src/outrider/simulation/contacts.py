# SPDX-License-Identifier: Apache-2.0
"""Counts collisions of a robot in another simulator, from its pose and the same home's geometry."""

from __future__ import annotations

from outrider.core.values import Pose2D
from outrider.simulation.homes.home import Home
from outrider.simulation.looks.engine import mujoco
from outrider.simulation.mjcf import BODY_GEOM, build_model

# The other simulator keeps touching bodies apart; at this distance they count as touching.
TOUCHING_M = 0.01


class ContactCounter:
    """Counts how often the robot's body starts to touch something solid of its home."""

    def __init__(self, home: Home) -> None:
        self._model = build_model(home)
        body = mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_GEOM, BODY_GEOM)
        self._model.geom_margin[body] = TOUCHING_M
        self._data = mujoco.MjData(self._model)
        self._touches = False
        self.collisions = 0

    def move_to(self, pose: Pose2D) -> None:
        """Count a collision if the body touches here and did not at the pose before."""
        self._data.qpos[:3] = pose.x, pose.y, pose.yaw
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_collision(self._model, self._data)
        touches = self._data.ncon > 0
        self.collisions += touches and not self._touches
        self._touches = touches
