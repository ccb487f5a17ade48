# SPDX-License-Identifier: Apache-2.0
"""Who holds one of a model's places, and who gives one up where somebody needs it.

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
    """When a session's peer was heard last, and spoken to last to see whether it is still there."""

    heard_s: float
    probed_s: float = -math.inf


class Holder(Protocol):
    """A session. `refused`: it is kept to repeat why; `rests`: nothing is to be written for it."""

    presence: Presence

    @property
    def refused(self) -> bool:
        """Whether the session was refused, and is kept to repeat the reason."""

    @property
    def rests(self) -> bool:
        """Whether there is nothing to write for the session."""


_Holder = TypeVar("_Holder", bound=Holder)


def drop_idle(holders: MutableMapping[SessionKey, _Holder], idle_s: float, now_s: float) -> None:
    """Free the places of peers that were silent for too long. Should they return, they begin anew."""
    for key, holder in list(holders.items()):
        if now_s - holder.presence.heard_s > idle_s:
            del holders[key]


def make_room(holders: MutableMapping[SessionKey, _Holder], limits: CloudLimits, now_s: float) -> bool:
    """Whether there is a place for one more: a free one, or that of who was refused, or rests longest."""
    if len(holders) >= limits.max_sessions:
        for key in [key for key, holder in holders.items() if holder.refused]:
            del holders[key]
    if len(holders) >= limits.max_sessions:
        resting = {key: holder.presence.heard_s for key, holder in holders.items() if holder.rests}
        oldest = min(resting, key=resting.__getitem__, default=None)
        if oldest is not None and now_s - resting[oldest] > limits.rest_s:
            del holders[oldest]
    return len(holders) < limits.max_sessions


def to_probe(
    holders: Mapping[SessionKey, _Holder], limits: CloudLimits, now_s: float
) -> list[tuple[SessionKey, _Holder]]:
    """The silent ones, which are to be spoken to now."""
    silent = []
    for key, holder in holders.items():
        presence = holder.presence
        if max(presence.heard_s, presence.probed_s) < now_s - limits.probe_s:
            presence.probed_s = now_s
            silent.append((key, holder))
    return silent


def is_busy(frame: CloudFrame) -> bool:
    """Whether somebody is turned away for lack of room."""
    return isinstance(frame, Refused) and frame.reason == "busy"


def busy_message(limits: CloudLimits) -> str:
    """What is said where there is no room."""
    return f"all {limits.max_sessions} sessions are taken; try later or raise max_sessions"
