# SPDX-License-Identifier: Apache-2.0
"""The simulated robots' lidar: above the centre of the base's footprint, below its belly."""

from __future__ import annotations

LIDAR_FRAME = "lidar_link"
LIDAR_HEIGHT_M = 0.20
