# SPDX-License-Identifier: Apache-2.0
"""A network in user space: delays, drops, reorders, throttles and interrupts the frames of a live link.

It works at the edge's end, above the socket, so it needs no privileges and supports CURVE keys.
"""

from __future__ import annotations

import heapq
import logging
import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from outrider.core.frames import CloudFrame, EdgeFrame
from outrider.core.link_profile import Channel, LinkProfile, Network
from outrider.core.ports import FrameLink
from outrider.core.values import LinkState
from outrider.wire.codec import frame_bytes

_log = logging.getLogger(__name__)
_QUEUED_FRAMES = 256
_LONGEST_WAIT_S = 1.0
# Sockets wait in whole milliseconds; a shorter rest is slept, so that frames are not late.
_SOCKET_RESOLUTION_S = 1e-3

_Item = TypeVar("_Item")


class WakeableLink(FrameLink, Protocol):
    """A FrameLink whose `receive` can be ended early from another thread."""

    def wake(self) -> None:
        """End the `receive` that waits, or the next one. Thread-safe."""


class Direction(Generic[_Item]):
    """Frames in flight in one direction.

    Pure: the caller passes the time, in seconds since the link was made.
    """

    def __init__(self, profile: LinkProfile, network: Network, seed: str) -> None:
        self._channel = Channel(profile, random.Random(seed))
        self._network = network
        self._in_flight: list[tuple[float, int, _Item]] = []
        self._count = 0

    def follow(self, profile: LinkProfile, network: Network) -> None:
        """Use another network for frames sent from now on; those in flight arrive as planned."""
        self._channel.follow(profile)
        self._network = network

    @property
    def next_s(self) -> float:
        """When the next frame arrives; infinity if none is in flight."""
        return self._in_flight[0][0] if self._in_flight else math.inf

    def put(self, item: _Item, num_bytes: int, now_s: float) -> bool:
        """Send a frame. False if it is not accepted, because the link is down or its queue is full."""
        if not self._network.is_up(now_s, now_s) or len(self._in_flight) >= _QUEUED_FRAMES:
            return False
        arrival_s = self._channel.arrival_s(now_s, num_bytes)
        if arrival_s is not None and self._network.is_up(now_s, arrival_s):
            self._count += 1
            heapq.heappush(self._in_flight, (arrival_s, self._count, item))
        return True

    def take(self, now_s: float) -> _Item | None:
        """Return the next frame that has arrived by now, or None."""
        return heapq.heappop(self._in_flight)[2] if self.next_s <= now_s else None


@dataclass(frozen=True)
class _Emulated:
    """The current network; `outages_before` counts those of the networks before it."""

    network: Network
    outages_before: int = 0


class EmulatedLink(FrameLink):
    """A FrameLink over another one, which it owns and serves from its own thread.

    So frames leave on time while the edge computes. During an outage the state is LOST, and each outage
    that has ended counts as a new generation. Only `state`, `generation` and `follow` are thread-safe.
    """

    def __init__(
        self,
        inner: WakeableLink,
        network: Network,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = inner
        self._emulated = _Emulated(network)
        self._clock = clock
        self._start_s = clock()
        self._changed = threading.Condition()
        self._up: Direction[EdgeFrame] = Direction(network.uplink, network, f"{seed}/up")
        self._down: Direction[tuple[CloudFrame, int]] = Direction(network.downlink, network, f"{seed}/down")
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"link {network.name}", daemon=True)
        self._thread.start()

    @property
    def state(self) -> LinkState:
        """The state of the connection; LOST during an emulated outage."""
        now_s = self._now_s()
        if not self._thread.is_alive() or not self._emulated.network.is_up(now_s, now_s):
            return LinkState.LOST
        return self._inner.state

    @property
    def generation(self) -> int:
        """How many times the connection has come up, emulated outages included."""
        emulated = self._emulated
        return self._inner.generation + emulated.outages_before + emulated.network.outages_over(self._now_s())

    def follow(self, network: Network) -> None:
        """Emulate another network from now on. Thread-safe.

        No frame in flight is lost by the change. If the old network had outages, the change counts as a new
        generation, so that frames that one may have lost are requested again.
        """
        with self._changed:
            now_s, old = self._now_s(), self._emulated
            ended = old.network.outages_over(now_s) + bool(old.network.outages)
            before = old.outages_before + ended - network.outages_over(now_s)
            self._emulated = _Emulated(network, before)
            self._up.follow(network.uplink, network)
            self._down.follow(network.downlink, network)

    def send(self, frame: EdgeFrame) -> int:
        """Queue a frame for the emulated uplink; return its size in bytes, or 0 if it was dropped."""
        num_bytes = frame_bytes(frame)
        if self.state not in (LinkState.CONNECTED, LinkState.LOCAL):
            return 0
        with self._changed:
            accepted = self._up.put(frame, num_bytes, self._now_s())
        self._inner.wake()
        return num_bytes if accepted else 0

    def receive(self, timeout_s: float) -> tuple[CloudFrame, int] | None:
        """Return the next frame that the emulated downlink has delivered, or None after `timeout_s`."""
        deadline_s = self._now_s() + timeout_s
        with self._changed:
            while True:
                now_s = self._now_s()
                received = self._down.take(now_s)
                if received is not None or now_s >= deadline_s:
                    return received
                self._changed.wait(min(self._down.next_s, deadline_s) - now_s)

    def close(self) -> None:
        """Close the link. Frames in flight to the verifier are delivered at once."""
        self._closing = True
        self._inner.wake()
        self._thread.join()
        self._inner.close()

    def _now_s(self) -> float:
        return self._clock() - self._start_s

    def _run(self) -> None:
        try:
            while not self._closing:
                self._send_until(self._now_s())
                self._receive_once()
            self._send_until(math.inf)
        except Exception:  # the edge then sees a lost link and follows its policy
            _log.exception("the emulated link %s broke", self._emulated.network.name)

    def _send_until(self, time_s: float) -> None:
        while True:
            with self._changed:
                frame = self._up.take(time_s) if self._up.next_s < math.inf else None
            if frame is None:
                return
            self._inner.send(frame)

    def _receive_once(self) -> None:
        """Wait for a frame from the verifier, but only until the next frame to it is due."""
        with self._changed:
            next_s = self._up.next_s
        wait_s = min(max(next_s - self._now_s(), 0.0), _LONGEST_WAIT_S)
        if wait_s < _SOCKET_RESOLUTION_S:
            time.sleep(wait_s)
            wait_s = 0.0
        received = self._inner.receive(wait_s)
        if received is None:
            return
        with self._changed:
            self._down.put(received, received[1], self._now_s())
            self._changed.notify()


class Emulation:
    """The network between one robot and its verifiers; it may change at any time, for all links at once."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._links: list[EmulatedLink] = []

    def over(self, inner: WakeableLink, seed: int = 0) -> EmulatedLink:
        """Return a link over the network; it owns the inner link."""
        self._links.append(EmulatedLink(inner, self.network, seed))
        return self._links[-1]

    def follow(self, network: Network) -> None:
        """Emulate another network from now on. Thread-safe."""
        self.network = network
        for link in self._links:
            link.follow(network)
