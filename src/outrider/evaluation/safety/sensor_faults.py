# SPDX-License-Identifier: Apache-2.0
"""Faults of odometry and lidars.

Each is a function from the last sample before the fault and the current one to the samples that arrive
instead.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from outrider.core.sensors.lidar import LIDAR_FRAME
from outrider.core.values import Odometry, RangeScan, Velocity
from outrider.navigation.sensing.odometry_check import OdometrySample
from outrider.navigation.sensing.scan_check import ScanSample

Distortion = Callable[[OdometrySample, OdometrySample], tuple[OdometrySample, ...]]
JITTER_M = 0.001
ScanDistortion = Callable[[ScanSample, ScanSample], tuple[ScanSample, ...]]
AHEAD_RAD = math.radians(60.0)


def sample_of(odometry: Odometry, stamp_s: float) -> OdometrySample:
    """Returns the sample that an odometry source sends for this odometry."""
    pose, half = odometry.pose, odometry.pose.yaw / 2.0
    quaternion = (0.0, 0.0, math.sin(half), math.cos(half))
    return OdometrySample((pose.x, pose.y, 0.0), quaternion, odometry.velocity, "odom", "base_link", stamp_s)


def moved(sample: OdometrySample, x_m: float = 0.0, y_m: float = 0.0, yaw_rad: float = 0.0) -> OdometrySample:
    """Returns the sample displaced and turned by this much, in the frame of its pose."""
    x, y, z = sample.position
    qx, qy, qz, qw = sample.quaternion
    sin, cos = math.sin(yaw_rad / 2.0), math.cos(yaw_rad / 2.0)
    turned = (qx * cos - qy * sin, qy * cos + qx * sin, qz * cos + qw * sin, qw * cos - qz * sin)
    return replace(sample, position=(x + x_m, y + y_m, z), quaternion=turned)


def offset(sample: OdometrySample, ahead_m: float = 0.0, left_m: float = 0.0) -> OdometrySample:
    """Returns the sample displaced relative to its own heading."""
    cos, sin = math.cos(sample.pose.yaw), math.sin(sample.pose.yaw)
    return moved(sample, ahead_m * cos - left_m * sin, ahead_m * sin + left_m * cos)


def follows(first: OdometrySample, now: OdometrySample, share: float) -> OdometrySample:
    """Returns a sample that covers only a share of the motion since `first`, with a real source's jitter."""
    (x, y, z), (first_x, first_y, _) = now.position, first.position
    yaw_rad = math.remainder(now.pose.yaw - first.pose.yaw, math.tau) * (share - 1.0)
    jitter_m = JITTER_M * math.sin(1e3 * now.stamp_s)
    position = (first_x + share * (x - first_x) + jitter_m, first_y + share * (y - first_y), z)
    velocity = Velocity(*(share * part for part in vars(now.velocity).values()))
    return moved(replace(now, position=position, velocity=velocity), yaw_rad=yaw_rad)


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

# Faults that every sample shows: the robot must stand within the time limit, for as long as they last.
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

# Faults that show at their beginning or in motion. At rest the source is accepted again after a while.
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

# Faults that neither a sample nor its step from the last one shows: no motion may go far beyond its command.
UNDETECTABLE: dict[str, Distortion] = {
    "stands still": lambda first, now: (follows(first, now, 0.0),),
    "covers a third": lambda first, now: (follows(first, now, 1.0 / 3.0),),
    "runs backwards": lambda first, now: (follows(first, now, -1.0),),
    "shows no motion to its left": lambda first, now: (
        replace(now, position=(now.position[0], first.position[1], now.position[2])),
    ),
}


def scan_sample_of(scan: RangeScan, range_max_m: float, stamp_s: float) -> ScanSample:
    """Returns the sample that a lidar's driver sends for this scan."""
    last_rad = scan.angle_min + scan.angle_step * (len(scan.ranges) - 1)
    angles = scan.angle_min, last_rad, scan.angle_step
    return ScanSample(np.array(scan.ranges), *angles, 0.05, range_max_m, LIDAR_FRAME, stamp_s)


def _with_ahead(sample: ScanSample, range_m: float) -> ScanSample:
    bearings = sample.angle_min + sample.angle_step * np.arange(len(sample.ranges))
    return replace(sample, ranges=np.where(np.abs(bearings) < AHEAD_RAD, range_m, sample.ranges))


def _behind_only(sample: ScanSample) -> ScanSample:
    """The quarter to the right of the tail: the first rays of the scan."""
    number = len(sample.ranges) // 4
    last_rad = sample.angle_min + sample.angle_step * (number - 1)
    return replace(sample, ranges=sample.ranges[:number], angle_max=last_rad)


class Delayed:
    """Scans that arrive `delay_s` after they were made, with their original stamps."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._first: ScanSample | None = None
        self._delayed: deque[ScanSample] = deque()

    def __call__(self, first: ScanSample, now: ScanSample) -> tuple[ScanSample, ...]:
        """Returns the newest scan that is due. Another `first` (the last sound scan) starts another trial."""
        if first is not self._first:
            self._first = first
            self._delayed.clear()
        self._delayed.append(now)
        arrived: list[ScanSample] = []
        while self._delayed and self._delayed[0].stamp_s <= now.stamp_s - self._delay_s:
            arrived.append(self._delayed.popleft())
        return tuple(arrived[-1:])


def _turned_round(sample: ScanSample) -> ScanSample:
    return replace(sample, angle_min=sample.angle_min + math.pi, angle_max=sample.angle_max + math.pi)


SCAN_SILENT: ScanDistortion = lambda first, now: ()  # noqa: E731

# Faults that every scan shows: the robot must stand within the time limit, for as long as they last.
SCAN_FAULTS: dict[str, ScanDistortion] = {
    "silent": SCAN_SILENT,
    "in a frame without transform": lambda first, now: (replace(now, frame_id="other_lidar"),),
    "in no frame": lambda first, now: (replace(now, frame_id=""),),
    "without rays ahead": lambda first, now: (_with_ahead(now, math.nan),),
    "of zeros ahead": lambda first, now: (_with_ahead(now, 0.0),),
    "too near ahead": lambda first, now: (_with_ahead(now, -math.inf),),
    "not a number": lambda first, now: (replace(now, ranges=np.full(len(now.ranges), math.nan)),),
    "without angle increment": lambda first, now: (replace(now, angle_step=0.0),),
    "increment contradicts angles": lambda first, now: (replace(now, angle_step=-now.angle_step),),
    "length does not fit": lambda first, now: (replace(now, ranges=now.ranges[:-20]),),
    "of degrees": lambda first, now: (replace(now, angle_step=math.degrees(now.angle_step)),),
    "behind only": lambda first, now: (_behind_only(now),),
    "stamps stand still": lambda first, now: (replace(now, stamp_s=first.stamp_s),),
    "from two lidars": lambda first, now: (now, replace(now, frame_id="other_lidar")),
    "late by 0.6 s": Delayed(0.6),
    "late by 1.3 s": Delayed(1.3),
    "free all around": lambda first, now: (replace(now, ranges=np.full(len(now.ranges), math.inf)),),
    "free ahead": lambda first, now: (_with_ahead(now, math.inf),),
    "in millimetres": lambda first, now: (replace(now, ranges=1000.0 * now.ranges),),
    "turned round": lambda first, now: (_turned_round(now),),
    "turned at once": lambda first, now: (replace(now, ranges=np.roll(now.ranges, len(now.ranges) // 4)),),
}

# A fault that shows only while the robot moves.
SCAN_FROZEN: ScanDistortion = lambda first, now: (replace(first, stamp_s=now.stamp_s),)  # noqa: E731
