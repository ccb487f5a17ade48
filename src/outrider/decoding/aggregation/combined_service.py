# SPDX-License-Identifier: Apache-2.0
"""Both sorts of cloud behind one socket: one verifies drafts, the other writes texts with peers."""

from __future__ import annotations

from collections.abc import Callable

from outrider.core.frames import Behind, Cancel, Close, Drafted, EdgeFrame, Join, Peer, Settled
from outrider.decoding.aggregation.service import AggregationService
from outrider.decoding.cloud.machine import Reply
from outrider.decoding.drivers.verifier_service import ServiceStats, VerifierService


class JointService:
    """A FrameService. Each job of the one is followed by one of the other, where both have work."""

    def __init__(self, verifier: VerifierService, peers: AggregationService) -> None:
        self._verifier, self._peers = verifier, peers
        self._peers_first = False

    def receive(self, peer: Peer, frame: EdgeFrame) -> list[Reply]:
        """Hands a frame to the service that it concerns; returns the replies."""
        if isinstance(frame, (Join, Drafted, Settled, Behind)):
            return self._peers.receive(peer, frame)
        if isinstance(frame, (Cancel, Close)):
            return [*self._peers.receive(peer, frame), *self._verifier.receive(peer, frame)]
        return self._verifier.receive(peer, frame)

    def step(self, send: Callable[[Reply], None]) -> bool:
        """Runs one job of the service whose turn it is, else of the other; False if neither has work."""
        self._peers_first = not self._peers_first
        if self._peers_first:
            return self._peers.step(send) or self._verifier.step(send)
        return self._verifier.step(send) or self._peers.step(send)

    def listen(self, take_in: Callable[[], None]) -> None:
        """Makes the verifier call `take_in` during its forwards."""
        self._verifier.listen(take_in)

    def next_look_s(self) -> float | None:
        """Returns the shorter wait in seconds of the two services; None if neither waits."""
        looks = [service.next_look_s() for service in (self._verifier, self._peers)]
        return min((look_s for look_s in looks if look_s is not None), default=None)

    def evict_idle(self) -> None:
        """Closes the idle sessions of both services."""
        self._verifier.evict_idle()
        self._peers.evict_idle()

    @property
    def stats(self) -> ServiceStats:
        """Returns the counts of the verifier alone."""
        return self._verifier.stats
