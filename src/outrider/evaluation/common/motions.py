# SPDX-License-Identifier: Apache-2.0
"""The choice of how the robot moves, as evaluations take it from the command line."""

from __future__ import annotations

from outrider.core.errors import ConfigError
from outrider.runtime.node_graph.node_specs import MOTIONS


def check_motion(motion: str) -> None:
    """Raises ConfigError for what is neither continuous nor stepwise."""
    if motion not in MOTIONS:
        raise ConfigError(f"motion={motion!r} is not one of {', '.join(MOTIONS)}")
