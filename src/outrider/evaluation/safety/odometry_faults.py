# SPDX-License-Identifier: Apache-2.0
"""What odometry sources do wrong: functions from the last sample before the fault, and the one that is due,
to what arrives instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from outrider.core.values import Odometry, Velocity
from outrider.navigation.sensing.odometry_check import OdometrySample

Distortion = Callable[[OdometrySample, OdometrySample], tuple[OdometrySample, ...]]
JITTER_M = 0.001


def sample_of(odometry: Odometry, stamp_s: float) -> OdometrySample:
    """What a source sends of an odometry."""
    pose, half = odometry.pose, odometry.pose.yaw / 2.0
    quaternion = (0.0, 0.0, math.sin(half), math.cos(half))
    return OdometrySample((pose.x, pose.y, 0.0), quaternion, odometry.velocity, "odom", "base_link", stamp_s)


def moved(sample: OdometrySample, x_m: float = 0.0, y_m: float = 0.0, yaw_rad: float = 0.0) -> OdometrySample:
    """The sample elsewhere."""
    x, y, z = sample.position
    qx, qy, qz, qw = sample.quaternion
    sin, cos = math.sin(yaw_rad / 2.0), math.cos(yaw_rad / 2.0)
    turned = (qx * cos - qy * sin, qy * cos + qx * sin, qz * cos + qw * sin, qw * cos - qz * sin)
    return replace(sample, position=(x + x_m, y + y_m, z), quaternion=turned)


def offset(sample: OdometrySample, ahead_m: float = 0.0, left_m: float = 0.0) -> OdometrySample:
    """The sample elsewhere, by its own heading."""
    cos, sin = math.cos(sample.pose.yaw), math.sin(sample.pose.yaw)
    return moved(sample, ahead_m * cos - left_m * sin, ahead_m * sin + left_m * cos)


def follows(first: OdometrySample, now: OdometrySample, share: float) -> OdometrySample:
    """One that covers only a share of the motion since the first, with the jitter of a real source."""
    (x, y, z), (first_x, first_y, _) = now.position, first.position
    yaw_rad = math.remainder(now.pose.yaw - first.pose.yaw, math.tau) * (share - 1.0)
    jitter_m = JITTER_M * math.sin(1e3 * now.stamp_s)
    place = (first_x + share * (x - first_x) + jitter_m, first_y + share * (y - first_y), z)
    velocity = Velocity(*(share * part for part in vars(now.velocity).values()))
    return moved(replace(now, position=place, velocity=velocity), yaw_rad=yaw_rad)


def _scaled(sample: OdometrySample, factor: float) -> OdometrySample:
    x, y, z = sample.position
    return replace(sample, position=(factor * x, factor * y, factor * z))


def _quaternion(sample: OdometrySample, factor: float) -> OdometrySample:
    x, y, z, w = (factor * part for part in sample.quaternion)
    return replace(sample, quaternion=(x, y, z, w))


def _w_first(sample: OdometrySample) -> OdometrySample:
    x, y, z, w = sample.quaternion
    return replace(sample, quaternion=(w, x, y, z))


SILENT: Distortion = lambda first, now: ()  # noqa: E731

# What every sample shows: the robot must stand within the time limit, for as long as it lasts.
EVIDENT: dict[str, Distortion] = {
    "silent": SILENT,
    "frozen": lambda first, now: (replace(first, stamp_s=now.stamp_s),),
    "not a number": lambda first, now: (replace(now, velocity=Velocity(math.nan, math.nan, math.nan)),),
    "quaternion never filled in": lambda first, now: (_quaternion(now, 0.0),),
    "quaternion not unit": lambda first, now: (_quaternion(now, 2.0),),
    "two sources": lambda first, now: (now, moved(now, 0.5, 0.5)),
    "of another frame": lambda first, now: (replace(now, child_frame_id="camera_link"),),
    "stamps stand still": lambda first, now: (replace(now, stamp_s=first.stamp_s),),
}

# What shows at its beginning or while the robot moves: at rest the source counts again after a while.
SUDDEN: dict[str, Distortion] = {
    "quaternion with w first": lambda first, now: (_w_first(now),),
    "in millimetres": lambda first, now: (_scaled(now, 1000.0),),
    "jumps ahead": lambda first, now: (offset(now, ahead_m=3.0),),
    "jumps back": lambda first, now: (offset(now, ahead_m=-3.0),),
    "jumps aside": lambda first, now: (offset(now, left_m=0.3),),
    "yaw jumps": lambda first, now: (moved(now, yaw_rad=math.pi / 2),),
    "reset to zero": lambda first, now: (moved(now, -first.position[0], -first.position[1]),),
    "its frame changes": lambda first, now: (replace(now, frame_id="robot2/odom"),),
    "its clock goes back": lambda first, now: (replace(now, stamp_s=now.stamp_s - 30.0),),
    "its clock jumps years ahead": lambda first, now: (replace(now, stamp_s=now.stamp_s + 1e8),),
}

# Lies that each sample alone, and its step from the last, hide: no motion must go far beyond its command.
LIES: dict[str, Distortion] = {
    "stands still": lambda first, now: (follows(first, now, 0.0),),
    "covers a third": lambda first, now: (follows(first, now, 1.0 / 3.0),),
    "runs backwards": lambda first, now: (follows(first, now, -1.0),),
    "shows no motion to its left": lambda first, now: (
        replace(now, position=(now.position[0], first.position[1], now.position[2])),
    ),
}
