# SPDX-License-Identifier: Apache-2.0
"""What waits to be sent to one viewer: bounded, whatever the viewer's link does."""

from __future__ import annotations

import asyncio
from collections import deque

MAX_EVENTS = 256
MAX_UNSEEN_PICTURES = 2


class Mailbox:
    """Events in order, of each kind of status only the newest, of pictures only the newest.

    A picture is handed out only while at most one earlier one is on its way: on a slow link pictures are
    dropped here, where it costs nothing, and not delayed in the network's buffers. For one event loop.
    """

    def __init__(self) -> None:
        self.dropped_pictures = 0
        self._events: deque[str] = deque()
        self._latest: dict[str, str] = {}
        self._picture: tuple[int, bytes] | None = None
        self._unseen: deque[int] = deque()
        self._wake = asyncio.Event()
        self._closed = False

    def put(self, event: str) -> bool:
        """Queue an event; False where too many are waiting already, and it is not taken."""
        if len(self._events) >= MAX_EVENTS:
            return False
        self._events.append(event)
        self._wake.set()
        return True

    def put_first(self, event: str) -> None:
        """In place of all events and status that wait."""
        self._events.clear()
        self._latest.clear()
        self._events.append(event)
        self._wake.set()

    def put_latest(self, kind: str, status: str) -> None:
        """In place of an older status of this kind that still waits."""
        self._latest[kind] = status
        self._wake.set()

    def drop_latest(self, kind: str) -> None:
        """A status that still waits is out of date: it would be sent after the event that says so."""
        self._latest.pop(kind, None)

    def put_picture(self, number: int, frame: bytes) -> None:
        """In place of an older picture that still waits."""
        if self._picture is not None:
            self.dropped_pictures += 1
        self._picture = (number, frame)
        self._wake.set()

    def on_seen(self, number: int) -> None:
        """The viewer has this picture, and whatever was sent before it."""
        while self._unseen and self._unseen[0] <= number:
            self._unseen.popleft()
        self._wake.set()

    def close(self) -> None:
        """`next` gives None from now on."""
        self._closed = True
        self._wake.set()

    async def next(self) -> str | bytes | None:
        """What to send now: events first, then status, then a picture. Waits for something."""
        while not self._closed:
            frame = self._pop()
            if frame is not None:
                return frame
            self._wake.clear()
            await self._wake.wait()
        return None

    def _pop(self) -> str | bytes | None:
        if self._events:
            return self._events.popleft()
        if self._latest:
            return self._latest.pop(next(iter(self._latest)))
        if self._picture is not None and len(self._unseen) < MAX_UNSEEN_PICTURES:
            (number, frame), self._picture = self._picture, None
            self._unseen.append(number)
            return frame
        return None
