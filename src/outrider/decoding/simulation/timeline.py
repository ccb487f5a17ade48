# SPDX-License-Identifier: Apache-2.0
"""A record of what happened when: models at work, frames in flight, tokens becoming final."""

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
    """An event from `start_s` to `end_s` on the driver's clock; they are equal for an instant.

    draft, prefill_edge: the edge's model at work on `branch` (0 is the main one). prefill_cloud,
    draft_cloud, verify, step: the cloud's. up, down: a frame named `label` in flight. exit: the target
    gives a hint. commit: tokens become final. cancel: work that is no longer needed is dropped. `base` is a
    position in the text and `tokens` the number of tokens from there.
    """

    kind: EventKind
    start_s: float
    end_s: float
    label: str = ""
    base: int = 0
    tokens: int = 0
    branch: int = 0


Observer = Callable[[TimelineEvent], None]
