# SPDX-License-Identifier: Apache-2.0
"""What a console has sent to an agent."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from outrider.console import messages as m

MAX_LOGGED = 200


@dataclass
class Received:
    """What the console has sent: the newest message of each kind, and a log."""

    state: m.State = field(default_factory=m.State)
    sights: m.Sights = field(default_factory=m.Sights)
    memories: m.Memories = field(default_factory=m.Memories)
    trail: list[tuple[float, float]] = field(default_factory=list)
    walls: set[tuple[int, int]] = field(default_factory=set)
    cell_m: float = 0.1
    log: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MAX_LOGGED))
