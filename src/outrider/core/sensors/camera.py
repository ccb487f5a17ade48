# SPDX-License-Identifier: Apache-2.0
"""The camera the models are made for, and the one place where a frame becomes what both sides see.

Intrinsics of the Go2's front camera (1280x720, fx = 864.4 px by public calibration): 73 degrees across.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class CameraModel:
    """A pinhole camera; focal length in pixels, equal on both axes, principal point in the middle."""

    width: int
    height: int
    focal_px: float

    @property
    def horizontal_fov_rad(self) -> float:
        """Returns the horizontal field of view in radians."""
        return 2.0 * math.atan(self.width / 2.0 / self.focal_px)

    @property
    def vertical_fov_rad(self) -> float:
        """Returns the vertical field of view in radians."""
        return 2.0 * math.atan(self.height / 2.0 / self.focal_px)

    def scaled_to(self, width: int, height: int) -> CameraModel:
        """The same lens at another resolution."""
        return CameraModel(width, height, self.focal_px * width / self.width)


GO2_FRONT_CAMERA = CameraModel(1280, 720, 864.4)
CAMERA_FORWARD_M = 0.32
CAMERA_HEIGHT_M = 0.32
SIM_CAMERA = GO2_FRONT_CAMERA.scaled_to(504, 280)
MODEL_IMAGE_WIDTH = 252
MODEL_IMAGE_HEIGHT = 140
JPEG_QUALITY = 90
