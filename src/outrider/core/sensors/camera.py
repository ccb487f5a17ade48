# SPDX-License-Identifier: Apache-2.0
"""The camera that the models are made for; the only place where a frame becomes what both sides see.

Intrinsics of the Go2's front camera (1280x720, fx = 864.4 px by public calibration): 73 degrees wide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from outrider.core.values import Pose2D

SHAPE_TOLERANCE = 0.02
"""Tolerance of the ratio of width and height, which rounding to whole pixels changes."""


@dataclass(frozen=True)
class CameraModel:
    """A pinhole camera; focal length in pixels, equal on both axes, principal point in the middle."""

    width: int
    height: int
    focal_px: float

    @property
    def horizontal_fov_rad(self) -> float:
        """The horizontal field of view in radians."""
        return 2.0 * math.atan(self.width / 2.0 / self.focal_px)

    @property
    def vertical_fov_rad(self) -> float:
        """The vertical field of view in radians."""
        return 2.0 * math.atan(self.height / 2.0 / self.focal_px)

    def has_shape(self, width: int, height: int) -> bool:
        """Return whether a picture of this size may be this camera's, at any resolution."""
        whole = self.width * height
        return abs(width * self.height - whole) <= SHAPE_TOLERANCE * whole

    def scaled_to(self, width: int, height: int) -> CameraModel:
        """Return a camera with the same lens at another resolution."""
        return CameraModel(width, height, self.focal_px * width / self.width)


GO2_FRONT_CAMERA = CameraModel(1280, 720, 864.4)
CAMERA_FORWARD_M = 0.32
CAMERA_HEIGHT_M = 0.32
SIM_CAMERA = GO2_FRONT_CAMERA.scaled_to(504, 280)
MODEL_IMAGE_WIDTH = 252
MODEL_IMAGE_HEIGHT = 140
JPEG_QUALITY = 90
_NEAREST_M = 0.1


@dataclass(frozen=True)
class CameraView:
    """The view of the robot's level camera from a pose of the base.

    Positions in the picture are fractions of its width and height, from the upper left corner.
    """

    camera: CameraModel
    pose: Pose2D

    def share_of(self, x: float, y: float, height_m: float) -> tuple[float, float, float] | None:
        """Return a world point's position in the picture, and its distance ahead in metres.

        None for a point that is not ahead. The position may lie outside the picture.
        """
        distance, bearing = self.pose.distance_to(x, y), self.pose.bearing_to(x, y)
        ahead_m = distance * math.cos(bearing) - CAMERA_FORWARD_M
        if ahead_m < _NEAREST_M:
            return None
        focal_px = self.camera.focal_px / ahead_m
        across_px, down_px = -distance * math.sin(bearing) * focal_px, (CAMERA_HEIGHT_M - height_m) * focal_px
        return 0.5 + across_px / self.camera.width, 0.5 + down_px / self.camera.height, ahead_m

    def floor_at(self, across: float, down: float) -> tuple[float, float, float] | None:
        """Return the floor point at a picture position, and metres ahead; None at or above the horizon."""
        down_px = (down - 0.5) * self.camera.height
        if down_px <= 0.0:
            return None
        ahead_m = CAMERA_HEIGHT_M * self.camera.focal_px / down_px
        left_m = (0.5 - across) * self.camera.width * ahead_m / self.camera.focal_px
        point = self.pose.compose(Pose2D(CAMERA_FORWARD_M + ahead_m, left_m, 0.0))
        return point.x, point.y, ahead_m
