# SPDX-License-Identifier: Apache-2.0
"""Limits what one peer may cost a verifier: pure bookkeeping of rates, sessions and lost peers.

A flooding peer's frames are dropped. A peer that opens too many sessions loses its oldest. A peer that
vanishes loses its sessions. Times are seconds on any monotonic clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from outrider.core.errors import ConfigError
from outrider.core.frames import Close, EdgeFrame, Join, Open, Peer
from outrider.core.token_bucket import TokenBucket

_BYTES_PER_UNIT = 4096


@dataclass(frozen=True)
class GateLimits:
    """A frame costs one unit plus one for each 4 KiB; a malformed frame costs `malformed_units` more.

    The rates allow a robot to send every draft token in its own frame, and a picture of 1 MiB eight times a
    second. `vanished_s`: how long an unreachable peer may take to return. `silent_s`: how long a silent
    peer is remembered. `num_peers`: the most peers remembered.
    """

    units_per_s: float = 2000.0
    burst_units: float = 4000.0
    malformed_units: float = 20.0
    sessions_per_peer: int = 4
    vanished_s: float = 10.0
    silent_s: float = 120.0
    num_peers: int = 1024

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < math.inf:
                raise ConfigError(f"{name}={value} must be positive")


@dataclass
class _Owner:
    """A key, or without keys a connection. `epochs`: each session's newest epoch, oldest session first."""

    bucket: TokenBucket
    last_frame_s: float
    epochs: dict[tuple[Peer, int], int] = field(default_factory=dict)


class PeerGate:
    """Decides on frames before and after they are decoded, and detects lost peers."""

    def __init__(self, limits: GateLimits) -> None:
        self._limits = limits
        self._owners: dict[str | bytes, _Owner] = {}
        self._unreachable_s: dict[Peer, float] = {}
        self._swept_s = -math.inf

    def admits(self, peer: Peer, num_bytes: int, now_s: float) -> bool:
        """Return whether to decode the peer's frame; False if the peer exceeds its rate."""
        owner = self._owner(peer, now_s)
        owner.last_frame_s = now_s
        self._unreachable_s.pop(peer, None)
        return owner.bucket.take(1.0 + num_bytes / _BYTES_PER_UNIT, now_s)

    def on_malformed(self, peer: Peer, now_s: float) -> None:
        """Charge a peer for a frame that could not be decoded."""
        self._owner(peer, now_s).bucket.take(self._limits.malformed_units, now_s)

    def is_stale(self, peer: Peer, frame: EdgeFrame) -> bool:
        """Return whether the frame's session has a newer epoch.

        A Close is never stale: it means the whole session.
        """
        owner = self._owners.get(peer.owner)
        if owner is None or isinstance(frame, Close):
            return False
        return frame.epoch < owner.epochs.get((peer, frame.session), 0)

    def on_frame(self, peer: Peer, frame: EdgeFrame, now_s: float) -> list[tuple[Peer, Close]]:
        """Record a frame's session; return what closes the same owner's oldest sessions beyond its limit."""
        epochs = self._owner(peer, now_s).epochs
        session = (peer, frame.session)
        if isinstance(frame, Close):
            epochs.pop(session, None)
        elif isinstance(frame, (Open, Join)) or session in epochs:
            epochs[session] = max(frame.epoch, epochs.get(session, 0))
        surplus = list(epochs)[: max(0, len(epochs) - self._limits.sessions_per_peer)]
        return [(key[0], Close(key[1], epochs.pop(key))) for key in surplus]

    def on_unreachable(self, peer: Peer, now_s: float) -> None:
        """Record that a frame could not be sent because the peer's connection is gone."""
        self._unreachable_s.setdefault(peer, now_s)

    def evict(self, now_s: float) -> list[tuple[Peer, list[Close]]]:
        """Return the peers that have vanished and what closes their sessions; forget silent owners."""
        if now_s - self._swept_s >= 1.0:
            self._swept_s = now_s
            silent = [
                n for n, owner in self._owners.items() if now_s - owner.last_frame_s > self._limits.silent_s
            ]
            for name in silent:
                del self._owners[name]
        latest_s = now_s - self._limits.vanished_s
        vanished = [peer for peer, since_s in self._unreachable_s.items() if since_s < latest_s]
        return [(peer, self.forget(peer)) for peer in vanished]

    def forget(self, peer: Peer) -> list[Close]:
        """Remove a peer's sessions; return what closes them."""
        self._unreachable_s.pop(peer, None)
        owner = self._owners.get(peer.owner)
        epochs = owner.epochs if owner is not None else {}
        return [Close(key[1], epochs.pop(key)) for key in list(epochs) if key[0] == peer]

    def _owner(self, peer: Peer, now_s: float) -> _Owner:
        name = peer.owner
        owner = self._owners.get(name)
        if owner is None:
            if len(self._owners) >= self._limits.num_peers:
                del self._owners[min(self._owners, key=lambda other: self._owners[other].last_frame_s)]
            bucket = TokenBucket(self._limits.units_per_s, self._limits.burst_units, now_s)
            owner = self._owners[name] = _Owner(bucket, now_s)
        return owner
