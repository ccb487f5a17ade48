# SPDX-License-Identifier: Apache-2.0
"""A bounded queue of what is to be sent to one viewer, however slow the viewer's link is."""

from __future__ import annotations

import asyncio
from collections import deque

MAX_EVENTS = 256
MAX_UNSEEN_PICTURES = 2


class Mailbox:
    """Holds events in order, and only the newest status of each kind and the newest picture.

    A picture is sent only while at most one earlier one is unacknowledged: on a slow link pictures are
    dropped here, at no cost, and not delayed in the network's buffers. For one event loop.
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
        """Queue an event; return False without queueing it if MAX_EVENTS already wait."""
        if len(self._events) >= MAX_EVENTS:
            return False
        self._events.append(event)
        self._wake.set()
        return True

    def put_first(self, event: str) -> None:
        """Queue an event in place of all waiting events and statuses."""
        self._events.clear()
        self._latest.clear()
        self._events.append(event)
        self._wake.set()

    def put_latest(self, kind: str, status: str) -> None:
        """Queue a status in place of a waiting one of the same kind."""
        self._latest[kind] = status
        self._wake.set()

    def drop_latest(self, kind: str) -> None:
        """Discard a waiting status: it is out of date, and would be sent after the event that replaces it."""
        self._latest.pop(kind, None)

    def put_picture(self, number: int, frame: bytes) -> None:
        """Queue a picture in place of a waiting one."""
        if self._picture is not None:
            self.dropped_pictures += 1
        self._picture = (number, frame)
        self._wake.set()

    def on_seen(self, number: int) -> None:
        """Record that the viewer has this picture, and all that were sent before it."""
        while self._unseen and self._unseen[0] <= number:
            self._unseen.popleft()
        self._wake.set()

    def close(self) -> None:
        """Make `next` return None from now on."""
        self._closed = True
        self._wake.set()

    async def next(self) -> str | bytes | None:
        """Wait for the next item and return it: events first, then statuses, then a picture.

        None once closed.
        """
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
