# SPDX-License-Identifier: Apache-2.0
"""Checks that an odometry source sends valid poses, for every node that uses odometry.

Sans-IO: the owner passes each sample with the time of its arrival. An invalid sample counts as missing, and
`fault` says why.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from outrider.core.values import STANDSTILL, Odometry, Pose2D, Velocity, wrap_angle
from outrider.navigation.clocks import BACKWARDS_S, ClockMapping, is_clock_jump
from outrider.navigation.sensing.odometry_track import Speedometer

# Tolerance of the squared norm, as in tf2.
UNIT_TOLERANCE = 0.01
MAX_TILT_RAD = math.radians(45.0)
MAX_COORDINATE_M = 100_000.0
# Faster than any base that texts drive, and slower than any jump that matters.
MAX_MPS, MAX_RPS = 2.0, 3.0
SLACK_M, SLACK_RAD = 0.05, math.radians(8.0)
# Twists beyond these are in other units.
ABSURD_MPS, ABSURD_RPS = 6.0, 12.0
# After a longer silence the next sample may be anywhere.
SILENCE_S = 0.5
STILL_S = 0.2
# The span of poses from which a velocity is computed if the source gives none.
SPEED_S = 0.2
# Odometry counts again after this time without a fault.
SETTLE_S = 1.0
DEFAULT_FRAME = "odom"
FIXED_FRAME_WORDS = frozenset({"odom"})
BASE_FRAME_WORDS = frozenset({"base", "body", "trunk"})


@dataclass(frozen=True)
class OdometrySample:
    """Odometry as received.

    The quaternion is ordered x, y, z, w. `stamp_s` is on the source's own clock, 0 if it does not stamp.
    """

    position: tuple[float, float, float]
    quaternion: tuple[float, float, float, float]
    velocity: Velocity = STANDSTILL
    frame_id: str = ""
    child_frame_id: str = ""
    stamp_s: float = 0.0

    @property
    def pose(self) -> Pose2D:
        """Returns position and yaw on the floor."""
        x, y, z, w = self.quaternion
        yaw = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        return Pose2D(self.position[0], self.position[1], yaw)


@dataclass(frozen=True)
class _Seen:
    sample: OdometrySample
    received_s: float
    stamp_changed_s: float


class OdometryCheck:
    """Makes `Odometry` from samples. `fault` says why there is none now, and is empty otherwise.

    A fault lasts for SETTLE_S after the last faulty sample. So a source that has jumped counts again once
    it continues from its new pose, and two alternating sources never count. If a source has only ever given
    zero velocity, the velocity is computed from its poses. `is_simulated`: owner and source share one
    clock.
    """

    def __init__(self, is_simulated: bool = False) -> None:
        self._is_simulated = is_simulated
        self.fault = ""
        self._fault_s = -math.inf
        self._last: _Seen | None = None
        self._clock = ClockMapping(is_simulated=self._is_simulated)
        self._gives_velocity = False
        self._speed = Speedometer(SPEED_S)

    def take(self, sample: OdometrySample, received_s: float) -> Odometry | None:
        """Returns the sample as odometry stamped on the owner's clock, or None.

        `received_s` is its arrival there.
        """
        fault = sample_fault(sample)
        if not fault:
            fault = self._break(sample, received_s)
            self._remember(sample, received_s)
        if fault:
            self.fault, self._fault_s = fault, received_s
        elif not 0.0 <= received_s - self._fault_s < SETTLE_S:
            self.fault = ""
        stamp_s = received_s
        if sample.stamp_s:
            stamp_s = min(received_s, self._clock.local_s(sample.stamp_s, received_s))
        if self.fault:
            self._speed.forget()
            return None
        self._gives_velocity = self._gives_velocity or sample.velocity != STANDSTILL
        velocity = sample.velocity if self._gives_velocity else self._speed.velocity(sample.pose, stamp_s)
        return Odometry(sample.pose, velocity, stamp_s, sample.frame_id.lstrip("/") or DEFAULT_FRAME)

    def _remember(self, sample: OdometrySample, received_s: float) -> None:
        last = self._last
        changed = last is None or sample.stamp_s != last.sample.stamp_s
        self._last = _Seen(sample, received_s, received_s if changed or not last else last.stamp_changed_s)

    def _break(self, sample: OdometrySample, received_s: float) -> str:
        """Returns why the sample does not continue from the last one, or an empty text."""
        if self._last is None:
            return ""
        frames = (sample.frame_id, sample.child_frame_id)
        before = (self._last.sample.frame_id, self._last.sample.child_frame_id)
        if frames != before:
            return f"odometry's frames change from {before} to {frames}: let one source alone publish it"
        arrived_s = received_s - self._last.received_s
        if arrived_s < 0.0:
            self._clock = ClockMapping(is_simulated=self._is_simulated)
            return "the clock went back"
        stamped_s = arrived_s
        if sample.stamp_s and self._last.sample.stamp_s:
            stamped_s = sample.stamp_s - self._last.sample.stamp_s
        fault = self._clock_fault(stamped_s, arrived_s, received_s)
        return fault or self._jump(sample.pose, max(stamped_s, arrived_s))

    def _clock_fault(self, stamped_s: float, arrived_s: float, received_s: float) -> str:
        """Returns what is wrong with the stamps, given seconds since the last sample by stamp and arrival."""
        assert self._last is not None
        if stamped_s == 0.0 and received_s - self._last.stamp_changed_s > STILL_S:
            return "odometry's stamps stand still: restart its source"
        if stamped_s != 0.0 and is_clock_jump(stamped_s, arrived_s):
            self._clock = ClockMapping(is_simulated=self._is_simulated)
            return f"odometry's clock jumped by {stamped_s - arrived_s:+.1f} s"
        if stamped_s < -BACKWARDS_S:
            self._clock = ClockMapping(is_simulated=self._is_simulated)
            return "odometry's stamps go back: let one source alone publish it"
        return ""

    def _jump(self, pose: Pose2D, elapsed_s: float) -> str:
        """Returns how the pose is out of reach from the last one, or an empty text."""
        assert self._last is not None
        before = self._last.sample.pose
        if elapsed_s > SILENCE_S:
            return ""
        moved_m = before.distance_to(pose.x, pose.y)
        turned_rad = abs(wrap_angle(pose.yaw - before.yaw))
        if moved_m > MAX_MPS * elapsed_s + SLACK_M:
            return f"odometry jumped by {moved_m:.2f} m within {elapsed_s:.2f} s: check its source"
        if turned_rad > MAX_RPS * elapsed_s + SLACK_RAD:
            turned_deg = math.degrees(turned_rad)
            return f"odometry jumped by {turned_deg:.0f} deg within {elapsed_s:.2f} s: check its source"
        return ""


def sample_fault(sample: OdometrySample) -> str:
    """Returns why a sample is invalid by itself, or an empty text."""
    velocity = sample.velocity
    speeds = (velocity.vx, velocity.vy, velocity.wz)
    if not all(map(math.isfinite, (*sample.position, *sample.quaternion, *speeds))):
        return "odometry is not a number: check the odometry source"
    norm = math.hypot(*sample.quaternion)
    if abs(norm * norm - 1.0) > UNIT_TOLERANCE:
        hint = "its source does not fill in the orientation" if norm == 0.0 else "it must be 1"
        return f"odometry's quaternion has the norm {norm:.2f}: {hint}"
    if max(map(abs, sample.position)) > MAX_COORDINATE_M:
        return "odometry's position is beyond 100 km: it must be in metres"
    if velocity.exceeds(ABSURD_MPS, ABSURD_RPS):
        return "odometry's velocity is beyond any robot's: it must be in m/s and rad/s"
    return _tilt_fault(sample.quaternion) or _frame_fault(sample)


def _tilt_fault(quaternion: tuple[float, float, float, float]) -> str:
    """Returns how far the body is tilted, as with an optical frame or swapped numbers, or an empty text."""
    x, y, _, _ = quaternion
    tilt_rad = math.acos(max(-1.0, min(1.0, 1.0 - 2.0 * (x * x + y * y))))
    if tilt_rad <= MAX_TILT_RAD:
        return ""
    return (
        f"odometry has the robot tilted by {math.degrees(tilt_rad):.0f} deg: its quaternion must be that of "
        "the body, in the order x, y, z, w"
    )


def _frame_fault(sample: OdometrySample) -> str:
    """Returns why its frames are not the base's in odometry, or an empty text; an empty name is accepted."""
    if sample.frame_id and not FIXED_FRAME_WORDS & _words(sample.frame_id):
        return f"odometry is in the frame {sample.frame_id!r}: its source must publish in odom"
    if sample.child_frame_id and not BASE_FRAME_WORDS & _words(sample.child_frame_id):
        return f"odometry is of the frame {sample.child_frame_id!r}: its source must give that of base_link"
    return ""


def _words(frame_id: str) -> set[str]:
    """Returns the words of a frame's own name, without a prefix such as `robot1/`."""
    return set(re.split(r"[_\W]+|\d+", frame_id.rpartition("/")[2].lower()))
