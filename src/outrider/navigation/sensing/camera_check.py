# SPDX-License-Identifier: Apache-2.0
"""Checks that the camera's pictures follow the robot's turning, and to the correct side.

Turning left moves the scene to the right in the picture. A camera that is mirrored or upside down shows the
opposite, and every "left" of the models would be a right. A camera that has died inside its driver may
repeat the last picture under new stamps, and a lens may be covered. Sans-IO: the owner passes pictures with
odometry's pose.
"""

from __future__ import annotations

import math
import zlib
from array import array
from collections import deque
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from outrider.core.sensors.camera import GO2_FRONT_CAMERA
from outrider.core.values import Odometry, Pose2D, wrap_angle
from outrider.navigation.limits import SETTLED_MPS, SETTLED_RPS

MIRRORED = (
    "the picture is mirrored or upside down, or late by a turn: turning left shows as turning right; mount "
    "the camera upright, switch off the flip in its driver, or stamp its pictures, then give the goal again"
)
UNMOVED = (
    "the picture does not follow the robot as it turns: it is frozen, or comes late; restart the camera's "
    "driver, or stamp its pictures, then give the goal again"
)
REPEATED = (
    "the camera repeats its pictures while the robot moves: restart its driver, then give the goal again"
)
DARK = "the camera's picture is black: is its lens covered, or the room dark?"
WIDTH_PX, HEIGHT_PX = 160, 90
FOCAL_PX = GO2_FRONT_CAMERA.scaled_to(WIDTH_PX, HEIGHT_PX).focal_px
TURN_RAD = (math.radians(2.5), math.radians(14.0))
STEP_M = 0.05
RESPONSE = 0.15
# How high a second peak may be, as a share of the highest, and how far apart (pixels) two peaks must be.
RIVAL, APART_PX = 0.6, 3
TOLERANCE, SLACK_PX = 0.4, 1.0
VOTES, NEEDED, UNMOVED_VOTES = 12, 4, 6
# The least difference (of 255) between a picture and its horizontal blur. A wall, its level edges and the
# lens's shading have less: they look the same while the robot turns.
TEXTURE, BLUR_PX = 3.0, 15
LOOKED_AT_BYTES = 1_000_000
COLOUR_BYTES, BLACK = 4, 24
# The percentage of a black picture that a lamp behind a lens cap, or dead pixels, may light.
LIT_PERCENT = 1.0
MOVED_M, MOVED_RAD = 0.02, math.radians(0.7)
# Over a motion this long no wall keeps one colour, bit for bit.
PLAIN_M, PLAIN_RAD = 1.0, math.radians(60.0)
# As many pictures as drivers have buffers for.
KEPT = 32


class RepeatWatch:
    """Detects a picture that repeats one of the last KEPT although the robot has moved.

    A dead driver repeats the last picture, or cycles through its buffers.
    """

    def __init__(self) -> None:
        self._poses: dict[int, Pose2D] = {}
        self._last: int | None = None

    def is_repeated(
        self, picture: bytes | array[int], odometry: Odometry | None, of_then: bool = True
    ) -> bool:
        """Whether a picture is identical to a kept one while the robot moves or has moved since.

        `of_then`: `odometry` is of the picture's moment; otherwise it is the newest, and a new picture is
        not kept. Without odometry all kept pictures are forgotten, since the frame of poses may change.

        A large picture is sampled at intervals. A picture of a single colour, such as a near wall, may stay
        the same over a small motion, and may recur. Black does not count as a colour: many dead cameras
        give it.
        """
        content = np.frombuffer(picture, np.uint8)
        content = content[:: 1 + content.size // LOOKED_AT_BYTES]
        digest = zlib.crc32(content.tobytes())
        is_last, self._last = digest == self._last, digest
        if odometry is None:
            self._poses.clear()
            return False
        plain, pose = _is_plain(content), self._poses.get(digest)
        if pose is None or (plain and not is_last):
            self._poses.pop(digest, None)
            if of_then:
                self._keep(digest, odometry.pose)
            return False
        if plain:
            return pose.is_beyond(odometry.pose, PLAIN_M, PLAIN_RAD)
        moves = odometry.velocity.exceeds(SETTLED_MPS, SETTLED_RPS)
        return moves or pose.is_beyond(odometry.pose, MOVED_M, MOVED_RAD)

    def _keep(self, digest: int, pose: Pose2D) -> None:
        self._poses[digest] = pose
        if len(self._poses) > KEPT:
            del self._poses[next(iter(self._poses))]


def is_black(rgb: np.ndarray[Any, Any]) -> bool:
    """Whether a picture, uint8 (H, W, 3), is black: all of it but LIT_PERCENT, apart from noise."""
    small = cv2.resize(rgb, (WIDTH_PX, HEIGHT_PX), interpolation=cv2.INTER_AREA)
    return bool(np.percentile(small.max(axis=2), 100.0 - LIT_PERCENT) <= BLACK)


class MirrorCheck:
    """Compares the picture's motion with odometry's turning, and counts votes.

    A vote is for the camera, against it, or that the picture shows no turn. A turn votes only if the one
    before had the same sense, since a late picture shows the earlier turn.
    """

    def __init__(self, focal_share: float = FOCAL_PX / WIDTH_PX) -> None:
        """`focal_share` is the focal length in picture widths."""
        self._focal_px = focal_share * WIDTH_PX
        self._last: tuple[np.ndarray[Any, Any], Pose2D] | None = None
        self._turned_rad = 0.0
        self._votes: deque[int] = deque(maxlen=VOTES)
        self._window = cv2.createHanningWindow((WIDTH_PX, HEIGHT_PX), cv2.CV_32F)

    @property
    def mirrored(self) -> bool:
        """Whether the votes show that the picture is mirrored."""
        return -sum(self._votes) >= NEEDED

    @property
    def unmoved(self) -> bool:
        """Whether the pictures show no turn although the robot turns."""
        return self._votes.count(0) >= UNMOVED_VOTES and not self._votes.count(1)

    @property
    def fault(self) -> str:
        """Why the pictures must not move the robot, or an empty text."""
        if self.mirrored:
            return MIRRORED
        return UNMOVED if self.unmoved else ""

    @property
    def votes(self) -> tuple[int, int]:
        """The numbers of newest votes for the camera and against it."""
        return self._votes.count(1), self._votes.count(-1)

    def see(self, picture: Callable[[], np.ndarray[Any, Any]], pose: Pose2D) -> None:
        """Take the pose of a picture.

        `picture` returns the picture, uint8 (H, W, 3); it is called only if needed.
        """
        if self._last is None:
            self._last = _small_grey(picture()), pose
            return
        before = self._last[1]
        turned_rad = wrap_angle(pose.yaw - before.yaw)
        if abs(turned_rad) < TURN_RAD[0] and before.distance_to(pose.x, pose.y) < STEP_M:
            return
        grey = _small_grey(picture())
        if abs(turned_rad) > TURN_RAD[1] or before.distance_to(pose.x, pose.y) >= STEP_M:
            turned_rad = 0.0
        if turned_rad * self._turned_rad > 0.0:
            self._vote(self._last[0], grey, turned_rad)
        self._last, self._turned_rad = (grey, pose), turned_rad

    def _vote(self, before: np.ndarray[Any, Any], now: np.ndarray[Any, Any], turned_rad: float) -> None:
        (shift_px, _), response = cv2.phaseCorrelate(before, now, self._window)
        expected_px = self._focal_px * math.tan(turned_rad)
        limit_px = TOLERANCE * abs(expected_px) + SLACK_PX
        if response < RESPONSE or _rival_share(before * self._window, now * self._window) > RIVAL:
            return
        if abs(shift_px - expected_px) <= limit_px:
            self._votes.append(1)
        elif abs(shift_px + expected_px) <= limit_px:
            self._votes.append(-1)
        elif abs(shift_px) <= SLACK_PX and _has_texture(now):
            self._votes.append(0)


def _rival_share(before: np.ndarray[Any, Any], now: np.ndarray[Any, Any]) -> float:
    """Returns the second peak of two pictures' phase correlation as a share of the first: 1 for stripes.

    Kuglin & Hines 1975: the inverse transform of the normalised cross power. Inputs are (H, W), float32,
    windowed.
    """
    cross = np.fft.rfft2(now) * np.conj(np.fft.rfft2(before))
    surface = np.fft.irfft2(cross / (np.abs(cross) + 1e-9), s=now.shape)
    surface = cv2.blur(surface, (3, 3))
    y, x = np.unravel_index(np.argmax(surface), surface.shape)
    centred = np.roll(surface, (HEIGHT_PX // 2 - int(y), WIDTH_PX // 2 - int(x)), (0, 1))
    peak = float(centred[HEIGHT_PX // 2, WIDTH_PX // 2])
    rows = slice(HEIGHT_PX // 2 - APART_PX, HEIGHT_PX // 2 + APART_PX + 1)
    centred[rows, WIDTH_PX // 2 - APART_PX : WIDTH_PX // 2 + APART_PX + 1] = -np.inf
    return float(centred.max()) / peak if peak > 0.0 else 1.0


def _has_texture(grey: np.ndarray[Any, Any]) -> bool:
    return float(np.std(grey - cv2.blur(grey, (BLUR_PX, 1)))) > TEXTURE


def _is_plain(content: np.ndarray[Any, Any]) -> bool:
    """Whether a picture's bytes have no more values than a single colour has, and it is not black."""
    seen = np.flatnonzero(np.bincount(content, minlength=256))
    return 0 < len(seen) <= COLOUR_BYTES and int(seen[-1]) > BLACK


def _small_grey(rgb: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    small = cv2.resize(rgb, (WIDTH_PX, HEIGHT_PX), interpolation=cv2.INTER_AREA)
    return cv2.cvtColor(small, cv2.COLOR_RGB2GRAY).astype(np.float32)
