# SPDX-License-Identifier: Apache-2.0
"""The robot's end of a relay: the relay's pages are viewers of the robot's own console.

The robot decides who drives, what is stale and what a stop does, as for any other page. If the relay is
lost, all its viewers disconnect at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from starlette.websockets import WebSocketDisconnect

from outrider.console import messages as m
from outrider.console.app import GOING, MAX_REASON, MAX_WEBSOCKETS, UNREADABLE, Channel, Console
from outrider.console.drawing.frames import picture_number
from outrider.console.relay import frames as f
from outrider.core.errors import LinkError, ProtocolError
from outrider.core.frames import MAX_JPEG_BYTES
from outrider.core.values import LinkState

CONNECT_S = 10.0
"""How long a relay may take for its first answer, in seconds: the handshake takes several round trips."""
FULL_WAIT_S = 0.01
MAX_WAITING = 256
_log = logging.getLogger(__name__)


class RobotEnd:
    """Dials a relay for as long as the console serves, and again whenever the connection is lost."""

    def __init__(self, dial: Callable[[], f.RobotLink]) -> None:
        self._dial = dial
        self.state = LinkState.CONNECTING
        self._logged: LinkState | None = None
        self._is_key_in_use = False

    async def run(self, console: Console) -> None:
        """Serves the relay's pages, forever."""
        while True:
            try:
                link = self._dial()
            except LinkError as error:  # such as no free file descriptor, for now
                _log.warning("%s", error)
                await asyncio.sleep(f.SILENT_S)
            else:
                await self._serve(link, console)

    async def _serve(self, link: f.RobotLink, console: Console) -> None:
        """Serve one connection of the link, until the relay falls silent."""
        run = _Run(link, console)
        reading = [asyncio.create_task(run.read(urgent)) for urgent in (True, False)]
        try:
            await self._watch(link, run)
        finally:
            for task in reading:
                task.cancel()
            await run.end()
            link.close()

    async def _watch(self, link: f.RobotLink, run: _Run) -> None:
        """Send heartbeats until the relay sends none."""
        started_s = time.monotonic()
        while True:
            for urgent in (True, False):
                link.send(f.pack(f.Beat()), urgent)
            await asyncio.sleep(f.BEAT_S)
            self._set_state(link.state, run.received_s is not None)
            self._warn_of_key_in_use(run.is_key_in_use and run.received_s is None)
            limit_s = CONNECT_S if run.received_s is None else f.SILENT_S
            if time.monotonic() - (run.received_s or started_s) > limit_s or self.state is LinkState.LOST:
                self._set_state(LinkState.LOST, False)
                return

    def _set_state(self, state: LinkState, answers: bool) -> None:
        """Keep the state, and log a change of it once, however often the relay is dialled in vain."""
        self.state = LinkState.CONNECTING if state is LinkState.CONNECTED and not answers else state
        if self.state in _STATE_MESSAGES and self.state is not self._logged:
            self._logged = self.state
            level, text = _STATE_MESSAGES[self.state]
            _log.log(level, "the relay of the console: %s", text)

    def _warn_of_key_in_use(self, is_key_in_use: bool) -> None:
        if is_key_in_use and not self._is_key_in_use:
            _log.warning(
                "the relay of the console: another robot with this key is there; give this one a key of its "
                "own with `outrider keys add`"
            )
        self._is_key_in_use = self._is_key_in_use or is_key_in_use


_STATE_MESSAGES = {
    LinkState.CONNECTED: (logging.INFO, "connected"),
    LinkState.LOST: (logging.WARNING, "not there; its viewers are gone, and it is dialled again"),
    LinkState.REFUSED: (
        logging.WARNING,
        "it refuses this robot's key: register it there with `outrider keys add`",
    ),
    LinkState.MISMATCHED: (
        logging.WARNING,
        "what listens there has other keys than this robot, or is no relay: see both key files",
    ),
}


class _Run:
    """One connection of the link, with its open pages.

    `received_s`: when the relay last sent this robot a frame. `is_key_in_use`: another robot with its key is
    connected.
    """

    def __init__(self, link: f.RobotLink, console: Console) -> None:
        self._link, self._console = link, console
        self._pages: dict[int, tuple[_PageChannel, asyncio.Task[None]]] = {}
        self._pictures: deque[int] = deque(maxlen=f.MAX_PICTURES)
        self.received_s: float | None = None
        self.is_key_in_use = False
        self._malformed = f.Malformed()

    async def read(self, urgent: bool) -> None:
        """Act on the frames of one of the two connections."""
        while True:
            content = await self._link.receive(urgent)
            try:
                frame = f.read_at_robot(content)
                if not isinstance(frame, (f.Stop, f.KeyInUse)):  # a robot that is turned away gets these, too
                    self.received_s = time.monotonic()
                self._receive(frame, urgent)
            except ProtocolError as error:
                self._malformed.log_once(str(error))
            await asyncio.sleep(0)

    async def end(self) -> None:
        """Disconnect all pages."""
        tasks = [task for _, task in self._pages.values()]
        for channel, _ in list(self._pages.values()):
            channel.mark_gone()
        if tasks:
            await asyncio.wait(tasks)

    def _receive(self, frame: f.ToRobot, urgent: bool) -> None:
        if isinstance(frame, f.Stop):
            self._console.stop()
            self._link.send(f.pack(f.Stopped(frame.number)), urgent=True)
        elif isinstance(frame, f.KeyInUse):
            self.is_key_in_use = True
        elif isinstance(frame, f.PageMessage):
            self._on_page_message(frame, urgent)
        elif isinstance(frame, (f.Passed, f.PageGone)) and frame.page in self._pages:
            self._pages[frame.page][0].take(frame)

    def _on_page_message(self, message: f.PageMessage, urgent: bool) -> None:
        """Pass a page's message on. A stop comes on both connections: the first acts, even before a hello."""
        if message.page in self._pages:
            self._pages[message.page][0].say(message.text, urgent)
        elif urgent:
            if m.is_stop(stop := m.read(message.text)):
                self._console.stop_before_hello(stop)
        elif len(self._pages) < MAX_WEBSOCKETS:
            channel = _PageChannel(message.page, self._link, self._pictures)
            channel.say(message.text, urgent)
            task = asyncio.create_task(self._serve(message.page, channel))
            self._pages[message.page] = channel, task

    async def _serve(self, page: int, channel: _PageChannel) -> None:
        try:
            await self._console.serve(channel)
        finally:
            del self._pages[page]


class _PageChannel(Channel):
    """The channel to a page at the relay."""

    def __init__(self, page: int, link: f.RobotLink, pictures: deque[int]) -> None:
        self._page, self._link, self._pictures = page, link, pictures
        self._texts: deque[str] = deque()
        self._sent = self._passed = 0
        self._gone = False
        self._changes = asyncio.Event()

    def say(self, text: str, first: bool) -> None:
        """Queue a message of the page, an urgent one first; too many waiting messages close the page."""
        if len(self._texts) >= MAX_WAITING and not first:
            self.mark_gone()
        elif first:
            self._texts.appendleft(text)
        else:
            self._texts.append(text)
        self._changes.set()

    def take(self, frame: f.Passed | f.PageGone) -> None:
        """Act on what the relay reports of the page."""
        if isinstance(frame, f.PageGone):
            self.mark_gone()
        else:
            self._passed = max(self._passed, frame.count)
            self._changes.set()

    def mark_gone(self) -> None:
        """Mark the page as gone."""
        self._gone = True
        self._changes.set()

    async def text(self) -> str:
        while not self._texts:
            await self._changed()
        return self._texts.popleft()

    async def send(self, frame: str | bytes) -> None:
        while self._sent - self._passed >= f.WINDOW:
            await self._changed()
        if isinstance(frame, str):
            await self._cross(f.ConsoleMessage(self._page, frame))
        else:
            await self._show(frame)
        self._sent += 1

    async def close(self, code: int, reason: str = "") -> None:
        self._link.send(f.pack(f.End(self._page, cast(Any, code), reason[:MAX_REASON])))
        self.mark_gone()

    def may_speak(self) -> bool:
        """Return True: the relay checks the login."""
        return True

    async def _show(self, picture: bytes) -> None:
        if len(picture) > MAX_JPEG_BYTES:
            await self.close(UNREADABLE, "the pictures are too large for a relay: lower picture_width")
        number = picture_number(picture)
        if number not in self._pictures:
            await self._cross(f.Picture(number, picture))
            self._pictures.append(number)
        await self._cross(f.Look(self._page, number))

    async def _cross(self, frame: f.ToRelay) -> None:
        content = f.pack(frame)
        while self._gone or not self._link.send(content):
            if self._gone:
                raise WebSocketDisconnect(GOING)
            await asyncio.sleep(FULL_WAIT_S)

    async def _changed(self) -> None:
        if self._gone:
            raise WebSocketDisconnect(GOING)
        self._changes.clear()
        await self._changes.wait()
