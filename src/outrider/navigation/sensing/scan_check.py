# SPDX-License-Identifier: Apache-2.0
"""Checks that a lidar's driver sends valid scans of the surroundings, for every node.

Sans-IO: the owner passes each scan with the time of its arrival. An invalid scan counts as missing, and
`fault` says why. Ranges are converted to one convention: NaN is no measurement, -inf is too near, inf is
free (REP 117).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from outrider.core.errors import TransformError
from outrider.core.values import Pose2D, RangeScan
from outrider.navigation.clocks import BACKWARDS_S, ClockMapping, is_clock_jump
from outrider.navigation.sensing.clearance import NEAREST_M
from outrider.navigation.sensing.scan_reference import ScanReference
from outrider.navigation.sensing.sudden_turn import JUMP_RAD, MAX_PAN_RPS
from outrider.navigation.sensing.transforms import Matrix, TransformTree

# By how many rays the length may differ from the angles: drivers round.
LENGTH_TOLERANCE = 2.0
MAX_STEP_RAD = 0.2
MIN_REACH_M = 1.0
MAX_TILT_RAD = math.radians(10.0)
MAX_MOUNT_M = 2.0
# How far the lidar may move between two scans.
JUMP_M = 0.2
JUMPED = "the place of the lidar's frame {!r} in tf jumps: let one publisher alone give it"
STILL_S = 0.2
# Ranges beyond FAR_BEYOND * range_max are invalid; at most FEW distinct values of them may mean "free".
FAR_BEYOND, FEW = 1.5, 3
# Scans count again after this time without a fault.
SETTLE_S = 1.0


@dataclass(frozen=True)
class ScanSample:
    """A scan as received. `stamp_s` is on the source's own clock, 0 if it does not stamp."""

    ranges: Any
    angle_min: float
    angle_max: float
    angle_step: float
    range_min: float
    range_max: float
    frame_id: str
    stamp_s: float = 0.0


class ScanCheck:
    """Makes `RangeScan`s from samples. `fault` says why there is none now, and is empty otherwise.

    A sample's fault lasts for SETTLE_S after the last faulty sample. A missing transform, which sets
    `lacks_transform`, lasts until there is one. `is_simulated`: owner and source share one clock.
    """

    def __init__(self, transforms: TransformTree, base_frame: str, is_simulated: bool = False) -> None:
        self._is_simulated = is_simulated
        self.fault, self.lacks_transform = "", False
        self._lasting = ""
        self._transforms, self._base_frame = transforms, base_frame
        self._fault_s = -math.inf
        self._last: tuple[ScanSample, float] | None = None
        self._stamp_changed_s = 0.0
        self._clock = ClockMapping(is_simulated=self._is_simulated)
        self._reference = ScanReference()
        self._mount: tuple[str, Pose2D, bool, float] | None = None

    def take(self, sample: ScanSample, received_s: float) -> RangeScan | None:
        """Returns the sample as a scan stamped on the owner's clock, or None.

        `received_s` is its arrival there.
        """
        fault = sample_fault(sample) or self._break(sample, received_s) or self._change(sample, received_s)
        if fault:
            self._lasting, self._fault_s = fault, received_s
        elif not 0.0 <= received_s - self._fault_s < SETTLE_S:
            self._lasting = ""
        self.fault, self.lacks_transform = self._lasting, False
        try:
            matrix = self._transforms.lookup(self._base_frame, sample.frame_id, sample.stamp_s)
            mount, flipped = planar(matrix, sample.frame_id)
        except TransformError as error:
            if not self.fault:
                self.fault, self.lacks_transform = str(error), True
            return None
        if self._has_jumped(sample.frame_id, mount, flipped, sample.stamp_s or received_s):
            self.fault = self._lasting = JUMPED.format(sample.frame_id)
            self._fault_s = received_s
        if self.fault:
            return None
        return self._placed(sample, mount, flipped, received_s)

    def _has_jumped(self, frame: str, mount: Pose2D, flipped: bool, made_s: float) -> bool:
        """Whether the lidar is out of reach of where it was at the last scan of its frame.

        A faulty scan counts too. `made_s` is by the stamps, since scans may arrive in bursts.
        """
        now = frame, mount, flipped, made_s
        (was_frame, before, was_flipped, before_s), self._mount = self._mount or now, now
        if frame != was_frame:
            return False
        turn_rad = JUMP_RAD + MAX_PAN_RPS * max(0.0, made_s - before_s)
        return flipped != was_flipped or before.is_beyond(mount, JUMP_M, turn_rad)

    def _placed(self, sample: ScanSample, mount: Pose2D, flipped: bool, received_s: float) -> RangeScan:
        stamp_s = received_s
        if sample.stamp_s:
            stamp_s = min(received_s, self._clock.local_s(sample.stamp_s, received_s))
        sense = -1.0 if flipped else 1.0
        angles = sense * sample.angle_min, sense * sample.angle_step
        return RangeScan(tuple(ranges_of(sample).tolist()), *angles, stamp_s, sample.range_min, mount)

    def _change(self, sample: ScanSample, received_s: float) -> str:
        geometry = sample.angle_min, sample.angle_max, sample.angle_step, sample.range_max
        made_s = sample.stamp_s or received_s
        return self._reference.fault(geometry, ranges_of(sample), received_s, made_s)

    def _break(self, sample: ScanSample, received_s: float) -> str:
        """Returns why the sample does not continue from the last one, or an empty text."""
        last, self._last = self._last, (sample, received_s)
        if last is None or last[0].stamp_s != sample.stamp_s or not sample.stamp_s:
            self._stamp_changed_s = received_s
        if last is None:
            return ""
        before, before_s = last
        if before.frame_id != sample.frame_id:
            return (
                f"the scan's frame changes from {before.frame_id!r} to {sample.frame_id!r}: "
                "let one lidar alone publish it"
            )
        if received_s - self._stamp_changed_s > STILL_S:
            return "the scan's stamps stand still: restart the lidar's driver"
        if not (sample.stamp_s and before.stamp_s) or sample.stamp_s == before.stamp_s:
            return ""
        stamped_s, arrived_s = sample.stamp_s - before.stamp_s, received_s - before_s
        if is_clock_jump(stamped_s, arrived_s) or arrived_s < 0.0:
            self._clock = ClockMapping(is_simulated=self._is_simulated)
            return f"the scan's clock jumped by {stamped_s - arrived_s:+.1f} s"
        if stamped_s < -BACKWARDS_S:
            self._clock = ClockMapping(is_simulated=self._is_simulated)
            return "the scan's stamps go back: let one lidar alone publish it"
        return ""


def sample_fault(sample: ScanSample) -> str:
    """Returns why a sample is invalid by itself, or an empty text."""
    number, step = len(sample.ranges), sample.angle_step
    if not sample.frame_id.strip("/"):
        return "the scan names no frame: set frame_id in the lidar's driver"
    if not all(map(math.isfinite, (sample.angle_min, sample.angle_max, step, sample.range_min))):
        return "the scan's angles or range_min are no numbers: check the lidar's driver"
    if number == 0:
        return "the scan has no ranges: check the lidar's driver"
    if step == 0.0 or abs(step) > MAX_STEP_RAD:
        return f"the scan's angle_increment is {step:g}: it must not be 0, nor beyond {MAX_STEP_RAD:g} rad"
    expected = (sample.angle_max - sample.angle_min) / step + 1.0
    if abs(expected - number) > LENGTH_TOLERANCE:
        return (
            f"the scan has {number} ranges where {sample.angle_min:.2f} to {sample.angle_max:.2f} rad "
            f"by {step:g} make {expected:.0f}: check the lidar's driver"
        )
    if abs(step) * (number - 1.0 - LENGTH_TOLERANCE) > math.tau:
        return "the scan's angles make more than a circle: they must be in radians"
    return _reach_fault(sample)


def _reach_fault(sample: ScanSample) -> str:
    if not (sample.range_min >= 0.0 and sample.range_max > max(sample.range_min, MIN_REACH_M)):
        return (
            f"the scan measures from {sample.range_min:g} to {sample.range_max:g} m: it must reach beyond "
            f"{MIN_REACH_M:g} m; set range_min and range_max in the lidar's driver"
        )
    ranges = ranges_of(sample)
    if np.all(np.isnan(ranges) | np.isneginf(ranges)):
        return "the scan measures nothing (every range is 0, NaN or too near): check the lidar"
    if _is_in_other_units(sample):
        return "the scan's ranges are far beyond its range_max: they must be in metres"
    return ""


def _is_in_other_units(sample: ScanSample) -> bool:
    """Whether over half of the ranges are far beyond range_max and differ: "free" would be one number."""
    ranges = np.asarray(sample.ranges, dtype=float)
    beyond = ranges[np.isfinite(ranges) & (ranges > FAR_BEYOND * sample.range_max)]
    return len(beyond) > len(ranges) / 2 and len(np.unique(beyond)) > FEW


def ranges_of(sample: ScanSample) -> Matrix:
    """Returns ranges (N,) in `RangeScan`'s convention.

    A 0, or a range nearer than any sensor's, becomes NaN.
    """
    ranges = np.asarray(sample.ranges, dtype=float)
    with np.errstate(invalid="ignore"):
        nothing = (ranges <= NEAREST_M) & ~np.isneginf(ranges)
        free, near = ranges >= sample.range_max, (ranges < sample.range_min) & ~nothing
    ranges = np.where(free, math.inf, np.where(near, -math.inf, ranges))
    return np.where(nothing, math.nan, ranges)


def planar(matrix: Matrix, frame_id: str) -> tuple[Pose2D, bool]:
    """Returns a lidar's pose on the base, and whether it is upside down, so that its scans run clockwise.

    Raises TransformError if it is tilted or far from the robot.
    """
    upright, position = float(matrix[2, 2]), matrix[:3, 3]
    tilt_rad = math.acos(min(1.0, abs(upright)))
    if tilt_rad > MAX_TILT_RAD:
        raise TransformError(
            f"the lidar's frame {frame_id!r} is tilted by {math.degrees(tilt_rad):.0f} deg in tf: "
            f"its scan must lie within {math.degrees(MAX_TILT_RAD):.0f} deg of the floor's plane"
        )
    if float(np.linalg.norm(position)) > MAX_MOUNT_M:
        raise TransformError(
            f"the lidar's frame {frame_id!r} is {np.linalg.norm(position):.1f} m from the base in tf: "
            "it must stand on the robot; transforms are in metres"
        )
    yaw = math.atan2(float(matrix[1, 0]), float(matrix[0, 0]))
    return Pose2D(float(position[0]), float(position[1]), yaw), upright < 0.0
