# SPDX-License-Identifier: Apache-2.0
"""The frames between a relay and a robot, about the pages that are open at the relay.

They are msgpack with a strict schema; the tunnel limits their sizes. The relay numbers the pages. Both
sides use the tunnel through the Protocols at the end of this file.
"""

from __future__ import annotations

import logging
from typing import Annotated, Any, Literal, Protocol

import msgspec

from outrider.console.messages import MAX_MESSAGE_BYTES
from outrider.core.errors import ProtocolError
from outrider.core.frames import Peer
from outrider.core.values import LinkState

BEAT_S = 0.5
"""Seconds between the heartbeats of each side."""
SILENT_S = 2.0
"""A side counts as gone after this many seconds without a frame."""
WINDOW, ACKNOWLEDGED = 32, 8
"""How many messages to one page may be unacknowledged, and after how many the relay acknowledges."""
MAX_PICTURES = 4
"""Both sides keep this many of the newest pictures; such a picture need not be sent again."""

Page = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class _Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A frame; its first element names it."""


class Beat(_Frame, frozen=True, tag="beat"):
    """A heartbeat of either side."""


class PageMessage(_Frame, frozen=True, tag="said"):
    """A message of a page, unchanged. The first message of a page opens it."""

    page: Page
    text: Annotated[str, msgspec.Meta(max_length=MAX_MESSAGE_BYTES)]


class Passed(_Frame, frozen=True, tag="passed"):
    """How many messages the relay has sent on to a page so far."""

    page: Page
    count: Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class PageGone(_Frame, frozen=True, tag="gone"):
    """A page has been closed."""

    page: Page


class Stop(_Frame, frozen=True, tag="stop"):
    """Engage the emergency stop; the answer returns `number`."""

    number: Page


class KeyInUse(_Frame, frozen=True, tag="taken"):
    """Another robot with this key is already connected."""


class ConsoleMessage(_Frame, frozen=True, tag="told"):
    """A message for a page."""

    page: Page
    text: str


class Picture(_Frame, frozen=True, tag="picture"):
    """A picture, sent once whatever the number of pages."""

    number: Page
    content: bytes


class Look(_Frame, frozen=True, tag="look"):
    """Show a page a picture that was already sent."""

    page: Page
    number: Page


class End(_Frame, frozen=True, tag="end"):
    """Close a page's connection."""

    page: Page
    code: Literal[1001, 1008, 1013, 4001, 4002]
    reason: Annotated[str, msgspec.Meta(max_length=200)]


class Stopped(_Frame, frozen=True, tag="stopped"):
    """The emergency stop with this number has been engaged."""

    number: Page


ToRobot = Beat | PageMessage | Passed | PageGone | Stop | KeyInUse
ToRelay = Beat | ConsoleMessage | Picture | Look | End | Stopped
_log = logging.getLogger(__name__)
_to_robot = msgspec.msgpack.Decoder(ToRobot)
_to_relay = msgspec.msgpack.Decoder(ToRelay)
_encoder = msgspec.msgpack.Encoder()


def pack(frame: ToRobot | ToRelay) -> bytes:
    """Returns a frame's bytes on the wire."""
    return _encoder.encode(frame)


def read_at_robot(content: bytes) -> ToRobot:
    """Parses a relay's frame. Raises ProtocolError unless it is exactly one of those above."""
    return _read(_to_robot, content)


def read_at_relay(content: bytes) -> ToRelay:
    """Parses a robot's frame. Raises ProtocolError unless it is exactly one of those above."""
    return _read(_to_relay, content)


def _read(decoder: msgspec.msgpack.Decoder[Any], content: bytes) -> Any:
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"not a frame between relay and robot: {error}") from None


class Malformed:
    """Logs malformed frames: the first, second, fourth and so on, because they may come as a flood."""

    def __init__(self) -> None:
        self._count = 0

    def log_once(self, what: str) -> None:
        """Counts one more, and logs it if it is due."""
        self._count += 1
        if self._count & (self._count - 1) == 0:
            _log.warning("%s (%d so far)", what, self._count)


class RobotLink(Protocol):
    """A robot's end of the tunnel. For one event loop."""

    @property
    def state(self) -> LinkState:
        """Returns the state of the connection."""

    async def receive(self, urgent: bool) -> bytes:
        """Returns the next message of the connection for stops (`urgent`), or of the other one."""

    def send(self, message: bytes, urgent: bool = False) -> bool:
        """Sends without blocking; returns False if the message cannot be sent now."""

    def close(self) -> None:
        """Closes the connections."""


class RelayLink(Protocol):
    """A relay's end of the tunnel. For one event loop.

    A peer is a robot's name, and one run of its connections.
    """

    @property
    def robots(self) -> tuple[str, ...]:
        """Returns the names of all robots that may connect."""

    async def receive(self) -> tuple[Peer, bytes]:
        """Returns the next message of a robot."""

    def send(self, peer: Peer, message: bytes, urgent: bool = False) -> bool:
        """Sends without blocking; returns False if the message cannot be sent now."""

    def end_revoked(self) -> None:
        """Ends the connections of robots that may no longer connect."""

    def close(self) -> None:
        """Closes the socket."""
