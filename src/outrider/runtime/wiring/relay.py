# SPDX-License-Identifier: Apache-2.0
"""One endpoint in front of several verifiers: each robot's frames go to the one that holds its sessions.

If that verifier dies, the relay asks its robots to prefill again. They continue at another one from their
last final token.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from outrider.core.errors import LinkError
from outrider.core.frames import MAX_SHORT_TEXT, Close, EdgeFrame, Open, Peer, PrefillAgain, Refused
from outrider.core.ports import FrameLink
from outrider.core.values import LinkState
from outrider.decoding.cloud.machine import Reply
from outrider.runtime.common.descriptors import num_descriptors

_log = logging.getLogger(__name__)
_POLL_S = 0.001
_CONNECT_S = 2.0
_RETRY_S = 0.5
_IDLE_S = 60.0
_QUEUED_FRAMES = 256
_PATIENCE_S = 1.0
"""After this time without a verifier the robot gets a refusal."""
MAX_ROBOTS, DESCRIPTORS_OF_A_ROBOT = 1024, 12
"""libzmq 4.3.5 aborts the process if no descriptor is left for another link."""


class Placement(Protocol):
    """Decides which verifier holds a robot's sessions."""

    def endpoint_of(self, owner: str) -> str:
        """Returns the verifier's endpoint, the same one while it lives. Blocks.

        Raises LinkError if there is none.
        """


@dataclass
class _Lane:
    """One robot's connection to its verifier.

    `epochs` are the newest of each of its sessions. `searching_s` is the time at which the search for a
    verifier began, None once it has one. `failure` is the reason of a refusal sent to the robot.
    """

    last_received_s: float
    begun_s: float = 0.0
    searching_s: float | None = None
    failure: str = ""
    link: FrameLink | None = None
    lookup: Future[str] | None = None
    waiting: deque[EdgeFrame] = field(default_factory=lambda: deque(maxlen=_QUEUED_FRAMES))
    epochs: dict[int, int] = field(default_factory=dict)


class RelayService:
    """A FrameService that forwards frames. For one thread; verifiers are looked up in another."""

    def __init__(
        self,
        placement: Placement,
        connect: Callable[[str], FrameLink],
        clock: Callable[[], float] = time.monotonic,
        max_robots: int = MAX_ROBOTS,
    ) -> None:
        """At most `max_robots` connections of robots have links, which take at most half of the descriptors
        that this process may open. For a newer one the longest silent of the robot that has the most is
        dropped; it begins anew with its next frame.
        """
        self._max_robots = max(1, min(max_robots, num_descriptors() // (2 * DESCRIPTORS_OF_A_ROBOT)))
        self._placement = placement
        self._connect = connect
        self._clock = clock
        self._lanes: dict[Peer, _Lane] = {}
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="placement")

    def receive(self, peer: Peer, frame: EdgeFrame) -> list[Reply]:
        """Queue a frame for the peer's verifier. Returns refusals if there is none."""
        if peer not in self._lanes:
            self._make_room(peer)
        lane = self._lanes.setdefault(peer, _Lane(self._clock()))
        lane.last_received_s = self._clock()
        if isinstance(frame, Open):
            lane.epochs[frame.session] = max(frame.epoch, lane.epochs.get(frame.session, 0))
        elif isinstance(frame, Close):
            lane.epochs.pop(frame.session, None)
        if lane.failure:
            return _refusals(peer, lane) if isinstance(frame, Open) else []
        lane.waiting.append(frame)
        self._pump(peer, lane)
        return []

    def step(self, send: Callable[[Reply], None]) -> bool:
        """Forward the frames that have come from either side. Returns whether there was any work."""
        worked = [self._turn(peer, lane, send) for peer, lane in self._lanes.items()]
        return any(worked)

    def max_wait_s(self) -> float | None:
        """Returns the polling interval in seconds; None without peers."""
        return _POLL_S if self._lanes else None

    def evict_idle(self) -> None:
        """Drop robots that have been silent for longer than _IDLE_S."""
        now_s = self._clock()
        for peer in [peer for peer, lane in self._lanes.items() if now_s - lane.last_received_s > _IDLE_S]:
            self._drop(peer)

    def close(self) -> None:
        """Close all links to verifiers."""
        for lane in self._lanes.values():
            if lane.link is not None:
                lane.link.close()
        self._lanes.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _make_room(self, peer: Peer) -> None:
        if len(self._lanes) < self._max_robots:
            return
        counts = Counter(known.owner for known in (peer, *self._lanes))
        self._drop(max(self._lanes, key=lambda p: (counts[p.owner], -self._lanes[p].last_received_s)))

    def _drop(self, peer: Peer) -> None:
        lane = self._lanes.pop(peer)
        if lane.lookup is not None:
            lane.lookup.cancel()
        if lane.link is not None:
            lane.link.close()

    def _turn(self, peer: Peer, lane: _Lane, send: Callable[[Reply], None]) -> bool:
        if lane.link is None:
            return self._find(peer, lane, send)
        if self._is_gone(lane):
            self._lose(peer, lane, send)
            return True
        self._pump(peer, lane)
        worked = False
        while (received := lane.link.receive(0.0)) is not None:
            send(Reply(peer, received[0]))
            worked = True
        return worked

    def _find(self, peer: Peer, lane: _Lane, send: Callable[[Reply], None]) -> bool:
        """Look for the robot's verifier, and retry after a failure. Returns whether it was found.

        The search continues after a refusal has been sent.
        """
        if lane.lookup is None:
            if self._clock() >= lane.begun_s:
                if lane.searching_s is None:
                    lane.searching_s = self._clock()
                lane.lookup = self._pool.submit(self._placement.endpoint_of, _name(peer))
            return False
        if not lane.lookup.done():
            return False
        assert lane.searching_s is not None
        searched_s = self._clock() - lane.searching_s
        lookup, lane.lookup = lane.lookup, None
        lane.begun_s = self._clock()
        try:
            lane.link, lane.searching_s, lane.failure = self._connect(lookup.result()), None, ""
        except LinkError as error:
            _log.warning("%s", error)
            lane.begun_s += _RETRY_S
            if not lane.failure and searched_s >= _PATIENCE_S:
                lane.failure = str(error)
                lane.waiting.clear()
                for reply in _refusals(peer, lane):
                    send(reply)
        return lane.link is not None

    def _is_gone(self, lane: _Lane) -> bool:
        assert lane.link is not None
        state = lane.link.state
        overdue = state is LinkState.CONNECTING and self._clock() - lane.begun_s > _CONNECT_S
        return overdue or state in (LinkState.LOST, LinkState.REFUSED, LinkState.MISMATCHED)

    def _lose(self, peer: Peer, lane: _Lane, send: Callable[[Reply], None]) -> None:
        assert lane.link is not None
        lane.link.close()
        lane.link, lane.begun_s = None, self._clock()
        lane.waiting.clear()
        for session, epoch in lane.epochs.items():
            send(Reply(peer, PrefillAgain(session, epoch)))

    def _pump(self, peer: Peer, lane: _Lane) -> None:
        """Send the waiting frames, in order, once the verifier can be reached."""
        while lane.link is not None and lane.link.state is LinkState.CONNECTED and lane.waiting:
            if not lane.link.send(lane.waiting[0]):
                return
            lane.waiting.popleft()


def _refusals(peer: Peer, lane: _Lane) -> list[Reply]:
    """Returns a refusal of each of the robot's sessions, with the lane's failure as the reason."""
    words = lane.failure[:MAX_SHORT_TEXT]
    return [Reply(peer, Refused(session, epoch, "busy", words)) for session, epoch in lane.epochs.items()]


def _name(peer: Peer) -> str:
    return peer.user or peer.route.hex()
