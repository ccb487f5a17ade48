# SPDX-License-Identifier: Apache-2.0
"""How long a forward that is aborted runs on at a device, in whose queue a part of it waits by then."""

from __future__ import annotations

import math
from dataclasses import dataclass

_WHOLE = 1e-6
"""A segment that lacks no more than this has ended: times are sums of floats."""


@dataclass(frozen=True)
class DeviceQueue:
    """A device takes a forward in so many `segments`, each whole; with none it leaves one at once.

    At least one segment waits behind the one that runs, and as many as last for the `host_s` seconds that the
    host needs for news, so that the device never does (`step_launchers.Lead`).
    """

    segments: int = 0
    host_s: float = 0.0

    def left_s(self, after_s: float, whole_s: float) -> float:
        """How long a forward takes that is aborted after so long; it would have taken `whole_s`."""
        if not self.segments or whole_s <= 0.0:
            return after_s
        segment_s = whole_s / self.segments
        begun = math.ceil(after_s / segment_s - _WHOLE)
        waiting = max(1, math.ceil(self.host_s / segment_s - _WHOLE))
        return min((begun + waiting) * segment_s, whole_s)


NO_QUEUE = DeviceQueue()
