# SPDX-License-Identifier: Apache-2.0
"""What a relay and a robot say to each other of the pages that are open at the relay.

msgpack of a strict schema; the sizes are capped by the tunnel. Pages are numbered by the relay. The two meet
it as the Protocols at the end of this file.
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
"""How often each side gives a sign of life."""
SILENT_S = 2.0
"""Who has said nothing for this long is gone."""
WINDOW, ACKNOWLEDGED = 32, 8
"""Messages to one page that are on their way at most, and after how many the relay says that they went on."""
KEPT_PICTURES = 4
"""The newest that both sides know of: one of these need not cross again."""

Page = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class _Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """The first element names the frame."""


class Beat(_Frame, frozen=True, tag="beat"):
    """A sign of life."""


class Said(_Frame, frozen=True, tag="said"):
    """A message of a page, as it came. The first one of a page opens it."""

    page: Page
    text: Annotated[str, msgspec.Meta(max_length=MAX_MESSAGE_BYTES)]


class Passed(_Frame, frozen=True, tag="passed"):
    """How many messages the relay has passed on to a page so far."""

    page: Page
    count: Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class Gone(_Frame, frozen=True, tag="gone"):
    """A page has been closed."""

    page: Page


class Stop(_Frame, frozen=True, tag="stop"):
    """Engage the emergency stop; `number` comes back."""

    number: Page


class Taken(_Frame, frozen=True, tag="taken"):
    """Another robot with this key is here already."""


class Told(_Frame, frozen=True, tag="told"):
    """A message for a page."""

    page: Page
    text: str


class Picture(_Frame, frozen=True, tag="picture"):
    """A picture, which crosses once whatever the number of pages."""

    number: Page
    content: bytes


class Look(_Frame, frozen=True, tag="look"):
    """A page is to be shown a picture that has crossed."""

    page: Page
    number: Page


class End(_Frame, frozen=True, tag="end"):
    """A page's connection is to be closed."""

    page: Page
    code: Literal[1001, 1008, 1013, 4001, 4002]
    reason: Annotated[str, msgspec.Meta(max_length=200)]


class Stopped(_Frame, frozen=True, tag="stopped"):
    """The emergency stop with this number has been engaged."""

    number: Page


ToRobot = Beat | Said | Passed | Gone | Stop | Taken
ToRelay = Beat | Told | Picture | Look | End | Stopped
_log = logging.getLogger(__name__)
_to_robot = msgspec.msgpack.Decoder(ToRobot)
_to_relay = msgspec.msgpack.Decoder(ToRelay)
_encoder = msgspec.msgpack.Encoder()


def pack(frame: ToRobot | ToRelay) -> bytes:
    """Returns a frame as it crosses."""
    return _encoder.encode(frame)


def read_at_robot(content: bytes) -> ToRobot:
    """Returns a relay's frame. Raises ProtocolError where it is not exactly one of those above."""
    return _read(_to_robot, content)


def read_at_relay(content: bytes) -> ToRelay:
    """Returns a robot's frame. Raises ProtocolError where it is not exactly one of those above."""
    return _read(_to_relay, content)


def _read(decoder: msgspec.msgpack.Decoder[Any], content: bytes) -> Any:
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"not a frame between relay and robot: {error}") from None


class Malformed:
    """Logs what is no frame the first time, the second, the fourth and so on: it may come as a flood."""

    def __init__(self) -> None:
        self._count = 0

    def tell(self, what: str) -> None:
        """Another one has come."""
        self._count += 1
        if self._count & (self._count - 1) == 0:
            _log.warning("%s (%d so far)", what, self._count)


class RobotLink(Protocol):
    """A robot's end of the tunnel. Of one event loop."""

    @property
    def state(self) -> LinkState:
        """Returns the state of the connection."""

    async def receive(self, urgent: bool) -> bytes:
        """Returns the next message of the connection for stops, or of the other one."""

    def send(self, message: bytes, urgent: bool = False) -> bool:
        """Sends without blocking; False where it does not go through now."""

    def close(self) -> None:
        """Closes the connections."""


class RelayLink(Protocol):
    """A relay's end of the tunnel. Of one event loop.

    A peer is a robot's name, and a run of its connections.
    """

    @property
    def robots(self) -> tuple[str, ...]:
        """Returns the names of all robots that are let in."""

    async def receive(self) -> tuple[Peer, bytes]:
        """Returns the next message of a robot."""

    def send(self, peer: Peer, message: bytes, urgent: bool = False) -> bool:
        """Sends without blocking; False where it does not go through now."""

    def end_revoked(self) -> None:
        """Ends the connections of robots that are let in no more."""

    def close(self) -> None:
        """Closes the socket."""
