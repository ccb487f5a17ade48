# SPDX-License-Identifier: Apache-2.0
"""The robots of a relay, and the open pages of each. Lives on one event loop."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable

from outrider.console.app import AWAY, GOING
from outrider.console.relay import frames as f
from outrider.core.errors import ProtocolError
from outrider.core.frames import Peer

STOP_S = 1.0
"""A stop that the robot has not confirmed within this many seconds counts as not received."""
MAX_FORMER_RUNS, MAX_KNOCKS = 64, 4
NOT_HERE = "the robot is not connected to this relay"
_log = logging.getLogger(__name__)


class RelayedPage:
    """One open page: the frames to send it, until it is closed with `code` and `reason`."""

    def __init__(self, number: int) -> None:
        self.number, self.passed = number, 0
        self.code, self.reason = GOING, ""
        self._frames: deque[str | bytes] = deque()
        self._closed = False
        self._changes = asyncio.Event()

    def put(self, frame: str | bytes) -> None:
        """Queues a frame for an open page. If the robot exceeds the window, closes the page."""
        if len(self._frames) > f.WINDOW:
            self.close(GOING, "the robot said too much at once")
        if not self._closed:
            self._frames.append(frame)
            self._changes.set()

    def close(self, code: int, reason: str) -> None:
        """Closes the connection; only the first reason counts."""
        if not self._closed:
            self._closed, self.code, self.reason = True, code, reason
            self._frames.clear()
            self._changes.set()

    async def next(self) -> str | bytes | None:
        """Returns the next frame to send; None once the page is to be closed."""
        while not self._closed:
            if self._frames:
                return self._frames.popleft()
            self._changes.clear()
            await self._changes.wait()
        return None


class RelayedRobot:
    """One robot, connected or not, by the heartbeats of its current run of connections.

    Another run replaces it once it falls silent. A run that still knocks after the time a restart takes is
    another robot with the same key: it is sent `KeyInUse`, and a stop goes to both.
    """

    def __init__(self, link: f.RelayLink, clock: Callable[[], float]) -> None:
        self._link, self._clock = link, clock
        self._peer: Peer | None = None
        self._former_runs: deque[bytes] = deque(maxlen=MAX_FORMER_RUNS)
        self._received_s = 0.0
        self._knocks: dict[Peer, float] = {}
        self._has_double = False
        self._pages: dict[int, RelayedPage] = {}
        self._pictures: dict[int, bytes] = {}
        self._numbers = itertools.count()
        self._stopping: dict[int, asyncio.Future[None]] = {}

    @property
    def is_here(self) -> bool:
        """Whether a frame of the robot has come within the last SILENT_S seconds."""
        return self._peer is not None and self._clock() - self._received_s < f.SILENT_S

    # What pages do.

    def open(self) -> RelayedPage:
        """Returns a new page; its first message announces it to the robot."""
        page = RelayedPage(next(self._numbers))
        self._pages[page.number] = page
        return page

    def say(self, page: RelayedPage, text: str, urgent: bool) -> None:
        """Sends a page's message on; a stop over both connections, first over the one kept free for stops.

        If the robot does not keep up, the page is closed: a late message must move nothing. A stop also
        goes to all knocking runs, as an emergency stop, because they do not know the page.
        """
        message = f.PageMessage(page.number, text)
        if urgent:
            self._send(message, urgent=True)
            self._stop(next(self._numbers), *self._knocks)
        if not self._send(message):
            page.close(GOING, "the robot does not keep up")

    def on_passed(self, page: RelayedPage) -> None:
        """Counts one more frame sent to the page; acknowledges every few frames."""
        page.passed += 1
        if page.passed % f.ACKNOWLEDGED == 0:
            self._send(f.Passed(page.number, page.passed))

    def remove_page(self, page: RelayedPage) -> None:
        """Removes a page that has gone."""
        if self._pages.pop(page.number, None) is not None:
            self._send(f.PageGone(page.number))

    async def e_stop(self) -> bool:
        """Send an emergency stop over all connections; return whether the robot confirmed it."""
        number, stopped = next(self._numbers), asyncio.get_running_loop().create_future()
        self._stop(number, *filter(None, (self._peer, *self._knocks)))
        if not self.is_here:
            return False
        self._stopping[number] = stopped
        try:
            done, _ = await asyncio.wait([stopped], timeout=STOP_S)
        finally:
            del self._stopping[number]
        return bool(done)

    # What the robot does.

    def receive(self, peer: Peer, frame: f.ToRelay) -> None:
        """Acts on a robot's frame."""
        if peer != self._peer:
            if not isinstance(frame, f.Beat) or peer.route in self._former_runs:
                return
            if self.is_here:
                self._knock(peer)
                return
            self._begin(peer)
        self._received_s = self._clock()
        if isinstance(frame, f.Stopped):
            self._on_stopped(frame.number)
        elif isinstance(frame, f.Picture):
            self._keep(frame)
        elif isinstance(frame, (f.ConsoleMessage, f.Look, f.End)) and frame.page in self._pages:
            self._to_page(self._pages[frame.page], frame)

    def look(self) -> None:
        """Send heartbeats, and close the pages of a robot that sends none."""
        if self._peer is None:
            return
        if self.is_here:
            for urgent in (True, False):
                self._send(f.Beat(), urgent)
        else:
            self._leave("gives no sign of life")

    def _knock(self, peer: Peer) -> None:
        """Handle a heartbeat of another run, while the current one is alive."""
        self._send_pending_stop(peer)
        now_s, is_new = self._clock(), peer not in self._knocks
        since_s = self._knocks.setdefault(peer, now_s)
        if is_new and len(self._knocks) > MAX_KNOCKS:
            del self._knocks[next(iter(self._knocks))]
        if now_s - since_s > f.SILENT_S:
            self._link.send(peer, f.pack(f.KeyInUse()))
            self._warn_of_two(peer)

    def _warn_of_two(self, peer: Peer) -> None:
        if not self._has_double:
            self._has_double = True
            _log.warning("two robots dial in with the key of %s: give each one of its own", peer.user)

    def _begin(self, peer: Peer) -> None:
        self._knocks.clear()
        if self._peer is not None:
            self._leave("has connected again")
        _log.info("robot %s is here", peer.user)
        self._peer = peer
        self._send_pending_stop(peer)

    def _leave(self, why: str) -> None:
        assert self._peer is not None
        _log.warning("robot %s %s", self._peer.user, why)
        self._former_runs.append(self._peer.route)
        self._peer = None
        self._pictures.clear()
        for page in self._pages.values():
            page.close(AWAY, NOT_HERE)
        self._pages.clear()

    def _keep(self, picture: f.Picture) -> None:
        self._pictures[picture.number] = picture.content
        if len(self._pictures) > f.MAX_PICTURES:
            del self._pictures[next(iter(self._pictures))]

    def _to_page(self, page: RelayedPage, frame: f.ConsoleMessage | f.Look | f.End) -> None:
        if isinstance(frame, f.ConsoleMessage):
            page.put(frame.text)
        elif isinstance(frame, f.End):
            page.close(frame.code, frame.reason)
        elif frame.number in self._pictures:
            page.put(self._pictures[frame.number])
        else:
            self.on_passed(page)

    def _on_stopped(self, number: int) -> None:
        """Confirm earlier stops as well, whose confirmations may have been lost."""
        for requested, stopped in self._stopping.items():
            if requested <= number and not stopped.done():
                stopped.set_result(None)

    def _send_pending_stop(self, peer: Peer) -> None:
        """Send a pending stop to a run that has just come."""
        if self._stopping:
            self._stop(max(self._stopping), peer)

    def _stop(self, number: int, *peers: Peer) -> None:
        stop = f.pack(f.Stop(number))
        for peer in peers:
            self._link.send(peer, stop, urgent=True)
            self._link.send(peer, stop)

    def _send(self, frame: f.ToRobot, urgent: bool = False) -> bool:
        return self._peer is not None and self._link.send(self._peer, f.pack(frame), urgent)


class Robots:
    """All robots that hold a key of this relay, by name."""

    def __init__(self, link: f.RelayLink, clock: Callable[[], float] = time.monotonic) -> None:
        self._link, self._clock = link, clock
        self._robots: dict[str, RelayedRobot] = {}
        self._malformed = f.Malformed()

    def names(self) -> dict[str, bool]:
        """Returns every robot that may connect, and whether it is connected."""
        return {name: name in self._robots and self._robots[name].is_here for name in self._link.robots}

    def robot(self, name: str) -> RelayedRobot | None:
        """Returns the robot of a name; None if no robot that may connect has it."""
        if name not in self._link.robots:
            return None
        return self._robots.setdefault(name, RelayedRobot(self._link, self._clock))

    async def read(self) -> None:
        """Acts on what robots send, forever."""
        while True:
            peer, content = await self._link.receive()
            robot = self.robot(peer.user)
            try:
                if robot is not None:
                    robot.receive(peer, f.read_at_relay(content))
            except ProtocolError as error:
                self._malformed.log_once(f"robot {peer.user}: {error}")
            await asyncio.sleep(0)

    async def look(self) -> None:
        """Sends heartbeats, and checks those of the robots, forever."""
        while True:
            await asyncio.sleep(f.BEAT_S)
            self._link.end_revoked()
            for robot in self._robots.values():
                robot.look()
