# SPDX-License-Identifier: Apache-2.0
"""The base's motion limits and size. The defaults are a Unitree Go2's, on the cautious side."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from outrider.core.errors import ConfigError

SETTLED_MPS, SETTLED_RPS = 0.02, 0.03
"""A base slower than this counts as standing."""


@dataclass(frozen=True)
class Footprint:
    """The body as a rectangle on the floor, origin in its middle; metres."""

    half_length_m: float = 0.35
    half_width_m: float = 0.155

    @property
    def radius_m(self) -> float:
        """The radius of the circumscribed circle: what a turn in place sweeps."""
        return math.hypot(self.half_length_m, self.half_width_m)


@dataclass(frozen=True)
class MotionLimits:
    """Hard limits and tolerances of every motion. Raises ConfigError unless all are positive and finite."""

    forward_mps: float = 0.6
    lateral_mps: float = 0.3
    yaw_rps: float = 1.0
    acceleration_mps2: float = 1.2
    yaw_acceleration_rps2: float = 3.0
    distance_tolerance_m: float = 0.01
    yaw_tolerance_rad: float = math.radians(0.8)
    # Less than the 0.3 s in which the base must stand: the stop takes time to arrive.
    stale_after_s: float = 0.27
    allowance_factor: float = 3.0
    allowance_extra_s: float = 5.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value > 0.0):
                raise ConfigError(f"motion limit {field.name} must be a positive number, not {value!r}")
