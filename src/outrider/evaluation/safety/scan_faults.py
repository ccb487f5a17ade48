# SPDX-License-Identifier: Apache-2.0
"""What lidars and their drivers do wrong: functions from the last scan before the fault, and the one that is
due, to what arrives instead.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from outrider.core.sensors.lidar import LIDAR_FRAME
from outrider.core.values import RangeScan
from outrider.navigation.sensing.scan_check import ScanSample

ScanDistortion = Callable[[ScanSample, ScanSample], tuple[ScanSample, ...]]
AHEAD_RAD = math.radians(60.0)


def scan_sample_of(scan: RangeScan, range_max_m: float, stamp_s: float) -> ScanSample:
    """What a driver sends of a scan."""
    last_rad = scan.angle_min + scan.angle_step * (len(scan.ranges) - 1)
    angles = scan.angle_min, last_rad, scan.angle_step
    return ScanSample(np.array(scan.ranges), *angles, 0.05, range_max_m, LIDAR_FRAME, stamp_s)


def _with_ahead(sample: ScanSample, range_m: float) -> ScanSample:
    bearings = sample.angle_min + sample.angle_step * np.arange(len(sample.ranges))
    return replace(sample, ranges=np.where(np.abs(bearings) < AHEAD_RAD, range_m, sample.ranges))


def _behind_only(sample: ScanSample) -> ScanSample:
    """The quarter to the right of the tail."""
    number = len(sample.ranges) // 4
    last_rad = sample.angle_min + sample.angle_step * (number - 1)
    return replace(sample, ranges=sample.ranges[:number], angle_max=last_rad)


class Delayed:
    """Scans that come `delay_s` after they were made, with the stamps of then."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._held: deque[ScanSample] = deque()

    def __call__(self, first: ScanSample, now: ScanSample) -> tuple[ScanSample, ...]:
        """What arrives as a scan is made; the queue of another trial is dropped."""
        if self._held and not 0.0 <= now.stamp_s - self._held[-1].stamp_s <= self._delay_s:
            self._held.clear()
        self._held.append(now)
        arrived: list[ScanSample] = []
        while self._held and self._held[0].stamp_s <= now.stamp_s - self._delay_s:
            arrived.append(self._held.popleft())
        return tuple(arrived[-1:])


def _turned_round(sample: ScanSample) -> ScanSample:
    return replace(sample, angle_min=sample.angle_min + math.pi, angle_max=sample.angle_max + math.pi)


SCAN_SILENT: ScanDistortion = lambda first, now: ()  # noqa: E731

# What every scan shows: the robot must stand within the time limit, for as long as it lasts.
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
}

# What shows only while the robot moves.
SCAN_FROZEN: ScanDistortion = lambda first, now: (replace(first, stamp_s=now.stamp_s),)  # noqa: E731
