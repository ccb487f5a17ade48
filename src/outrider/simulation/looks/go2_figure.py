# SPDX-License-Identifier: Apache-2.0
"""A figure of a Go2 for pictures: a body and four legs that trot as it moves."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from outrider.core.values import Pose2D
from outrider.simulation.looks.engine import mujoco

LINK_M = 0.213
"""The length of a Go2's thigh, and of its calf."""
HIP_X, HIP_Y, HIP_Z = 0.193, 0.142, 0.30
STRIDE_M, LIFT_M = 0.22, 0.07
STAND_M = 0.285
TURN_M_PER_RAD = 0.2
LEGS = (("FL", 1, 1, 0.0), ("FR", 1, -1, 0.5), ("RL", -1, 1, 0.5), ("RR", -1, -1, 0.0))
"""Name, front or rear, left or right, and phase of a trot, whose diagonal legs swing together."""
LIGHT, DARK, BLACK = [0.82, 0.83, 0.85, 1.0], [0.22, 0.23, 0.26, 1.0], [0.05, 0.05, 0.06, 1.0]
SHADOW = [0.0, 0.0, 0.0, 0.22]

_BOX, _CAPSULE = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CAPSULE
_SPHERE, _ELLIPSOID = mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_ELLIPSOID
_Y_AXIS = [0.0, 1.0, 0.0]


def add_figure(spec: mujoco.MjSpec) -> None:
    """Add the figure at the origin. Its joints are x, y and yaw, then thigh and calf of each of LEGS."""
    body = spec.worldbody.add_body(name="figure")
    for name, kind, axis in (
        ("x", mujoco.mjtJoint.mjJNT_SLIDE, [1, 0, 0]),
        ("y", mujoco.mjtJoint.mjJNT_SLIDE, [0, 1, 0]),
        ("yaw", mujoco.mjtJoint.mjJNT_HINGE, [0, 0, 1]),
    ):
        body.add_joint(name=f"figure/{name}", type=kind, axis=axis)
    _part(body, _BOX, [0.19, 0.085, 0.055], [0.0, 0.0, 0.325], LIGHT)
    _part(body, _BOX, [0.15, 0.06, 0.02], [-0.01, 0.0, 0.39], DARK)
    _part(body, _BOX, [0.055, 0.065, 0.045], [0.25, 0.0, 0.335], LIGHT)
    _part(body, _BOX, [0.012, 0.055, 0.03], [0.305, 0.0, 0.335], BLACK)
    _part(body, _SPHERE, [0.035], [0.27, 0.0, 0.40], BLACK)
    _part(body, _ELLIPSOID, [0.34, 0.2, 0.002], [0.0, 0.0, 0.003], SHADOW)
    for name, ahead, left, _ in LEGS:
        _add_leg(body, name, ahead * HIP_X, left * HIP_Y)


def _add_leg(body: mujoco.MjsBody, name: str, x: float, y: float) -> None:
    _part(body, _SPHERE, [0.048], [x, 0.75 * y, HIP_Z], DARK)
    thigh = body.add_body(name=f"figure/{name}/thigh", pos=[x, y, HIP_Z])
    thigh.add_joint(name=f"figure/{name}/thigh", type=mujoco.mjtJoint.mjJNT_HINGE, axis=_Y_AXIS)
    _bone(thigh, 0.027, LIGHT)
    calf = thigh.add_body(name=f"figure/{name}/calf", pos=[0.0, 0.0, -LINK_M])
    calf.add_joint(name=f"figure/{name}/calf", type=mujoco.mjtJoint.mjJNT_HINGE, axis=_Y_AXIS)
    _bone(calf, 0.016, DARK)
    _part(calf, _SPHERE, [0.022], [0.0, 0.0, -LINK_M], BLACK)


def _bone(body: mujoco.MjsBody, radius: float, rgba: list[float]) -> None:
    geom = _part(body, _CAPSULE, [radius, 0.0, 0.0], [0.0, 0.0, 0.0], rgba)
    geom.fromto = [0.0, 0.0, 0.0, 0.0, 0.0, -LINK_M]


def _part(
    body: mujoco.MjsBody, kind: mujoco.mjtGeom, size: list[float], pos: list[float], rgba: list[float]
) -> mujoco.MjsGeom:
    return body.add_geom(
        type=kind,
        size=size + [0.0] * (3 - len(size)),
        pos=pos,
        rgba=rgba,
        mass=0.01,
        contype=0,
        conaffinity=0,
        group=1,
    )


def leg_angles(ahead_m: float, height_m: float) -> tuple[float, float]:
    """Returns thigh and calf angles in radians for a foot ahead of and below its hip, within reach."""
    reach = min(math.hypot(ahead_m, height_m), 2 * LINK_M - 1e-6)
    knee = math.pi - math.acos(1.0 - reach * reach / (2 * LINK_M * LINK_M))
    return math.atan2(-ahead_m, height_m) + knee / 2, -knee


class Gait:
    """A trot by odometry: the phase follows the distance, and the legs come to rest with the body."""

    def __init__(self) -> None:
        self._last: Pose2D | None = None
        self._phase, self._share = 0.0, 0.0

    def angles(self, pose: Pose2D) -> np.ndarray:
        """Returns the joint angles of the legs (8,) at the next pose of the path."""
        last, self._last = self._last or pose, pose
        turned = abs(math.remainder(pose.yaw - last.yaw, math.tau))
        moved_m = last.distance_to(pose.x, pose.y) + TURN_M_PER_RAD * turned
        self._phase += moved_m / (2 * STRIDE_M)
        wanted = 1.0 if moved_m > 1e-3 else 0.0
        self._share += 0.5 * (wanted - self._share)
        return np.array(list(self._legs()))

    def _legs(self) -> Iterator[float]:
        for _, _, _, offset in LEGS:
            phase = 2 * math.pi * (self._phase + offset)
            ahead_m = self._share * STRIDE_M / 2 * math.cos(phase)
            lift_m = self._share * LIFT_M * max(0.0, -math.sin(phase))
            yield from leg_angles(ahead_m, STAND_M - lift_m)
