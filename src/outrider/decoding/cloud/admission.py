# SPDX-License-Identifier: Apache-2.0
"""Which sessions of a model are open, and which one is closed when another peer needs room.

Times are seconds on any monotonic clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from outrider.core.frames import CloudFrame, Refused
from outrider.decoding.jobs import SessionKey
from outrider.decoding.protocol.limits import CloudLimits


@dataclass
class Presence:
    """When a peer's last frame came, and when it was last probed while silent."""

    last_frame_s: float
    last_probe_s: float = -math.inf


class Holder(Protocol):
    """A session. `refused`: it is kept to repeat the reason; `is_idle`: there is nothing to write for it."""

    presence: Presence

    @property
    def refused(self) -> bool:
        """Whether the session was refused, and is kept to repeat the reason."""

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to write for the session."""


_Holder = TypeVar("_Holder", bound=Holder)


def drop_idle(holders: MutableMapping[SessionKey, _Holder], idle_s: float, now_s: float) -> None:
    """Close the sessions of peers that were silent for over `idle_s`. A peer that returns begins anew."""
    for key, holder in list(holders.items()):
        if now_s - holder.presence.last_frame_s > idle_s:
            del holders[key]


def make_room(holders: MutableMapping[SessionKey, _Holder], limits: CloudLimits, now_s: float) -> bool:
    """Return whether one more session fits. In a full table, refused sessions are closed first, then the
    one that has been idle longest, if for more than `rest_s`.
    """
    if len(holders) >= limits.max_sessions:
        for key in [key for key, holder in holders.items() if holder.refused]:
            del holders[key]
    if len(holders) >= limits.max_sessions:
        idle = {key: holder.presence.last_frame_s for key, holder in holders.items() if holder.is_idle}
        oldest = min(idle, key=idle.__getitem__, default=None)
        if oldest is not None and now_s - idle[oldest] > limits.rest_s:
            del holders[oldest]
    return len(holders) < limits.max_sessions


def to_probe(
    holders: Mapping[SessionKey, _Holder], limits: CloudLimits, now_s: float
) -> list[tuple[SessionKey, _Holder]]:
    """Return the silent sessions that should be probed now, and note the probe."""
    silent = []
    for key, holder in holders.items():
        presence = holder.presence
        if max(presence.last_frame_s, presence.last_probe_s) < now_s - limits.probe_s:
            presence.last_probe_s = now_s
            silent.append((key, holder))
    return silent


def is_busy(frame: CloudFrame) -> bool:
    """Whether a frame refuses a peer for lack of room."""
    return isinstance(frame, Refused) and frame.reason == "busy"


def busy_message(limits: CloudLimits) -> str:
    """Return the message to a peer that is refused for lack of room."""
    return f"all {limits.max_sessions} sessions are taken; try later or raise max_sessions"
