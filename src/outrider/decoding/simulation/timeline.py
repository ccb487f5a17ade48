# SPDX-License-Identifier: Apache-2.0
"""What happened when, for a person to see: machines at work, frames in flight, tokens becoming final."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

EventKind = Literal[
    "draft",
    "prefill_edge",
    "prefill_cloud",
    "draft_cloud",
    "verify",
    "step",
    "up",
    "down",
    "exit",
    "commit",
    "cancel",
]


@dataclass(frozen=True)
class TimelineEvent:
    """Something that took from `start_s` to `end_s` on the driver's clock; equal where it is a moment.

    draft, prefill_edge: the edge's model at work on `branch` (0 is the main one). prefill_cloud, draft_cloud,
    verify, step: the cloud's. up, down: a frame named `label` in flight. exit: a hint leaves the target.
    commit: tokens become final. cancel: work that can no longer matter is dropped. `base` is a position in
    the text and `tokens` how many follow it.
    """

    kind: EventKind
    start_s: float
    end_s: float
    label: str = ""
    base: int = 0
    tokens: int = 0
    branch: int = 0


Observer = Callable[[TimelineEvent], None]
