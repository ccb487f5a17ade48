# SPDX-License-Identifier: Apache-2.0
"""The choice of how the robot moves, as evaluations take it from the command line."""

from __future__ import annotations

from outrider.core.errors import ConfigError
from outrider.runtime.node_graph.node_specs import MOTIONS


def check_motion(motion: str) -> None:
    """Raises ConfigError for what is neither continuous nor stepwise."""
    if motion not in MOTIONS:
        raise ConfigError(f"motion={motion!r} is not one of {', '.join(MOTIONS)}")


def check_paced(motion: str, round_trip_ms: float, model: str, memory: str) -> None:
    """Raises ConfigError where answers cannot take their time in `outrider eval navigation` as asked."""
    if round_trip_ms and not motion:
        raise ConfigError(f"a round trip needs a motion: add --motion, one of {', '.join(MOTIONS)}")
    if motion and (model == "expert" or memory == "on"):
        raise ConfigError("--motion is for models without a memory: leave --memory and --model expert away")
