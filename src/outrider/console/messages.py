# SPDX-License-Identifier: Apache-2.0
"""Messages between page and server: JSON with a strict schema. For pictures see `drawn.frames`.

Units are metres, radians and seconds; left is positive. Fields of the page's messages are bounded, and
unknown fields are refused.
"""

from __future__ import annotations

from typing import Annotated, TypeGuard

import msgspec

from outrider.console.drawing.boxes import Box
from outrider.console.speech.messages import Heard, Speak, Speech, Spoken
from outrider.console.switching.switches import Switch, Switches
from outrider.core.errors import ProtocolError

MAX_MESSAGE_BYTES = 2048
MAX_COMMAND_CHARACTERS = 400
AGENT_NAME = r"\A[A-Za-z0-9_-]{0,32}\Z"

Fraction = Annotated[float, msgspec.Meta(ge=-1.0, le=1.0)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Metres = Annotated[float, msgspec.Meta(ge=-1e4, le=1e4)]


class _FromPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do"):
    """A message of the page; the field `do` names it."""


class Hello(_FromPage, frozen=True, tag="hello"):
    """The first message; `resume` is the secret of an earlier connection of the same page.

    `agent` names a program without a person: it may give commands in words, and must not drive.
    """

    resume: Annotated[str, msgspec.Meta(max_length=64)] = ""
    agent: Annotated[str, msgspec.Meta(pattern=AGENT_NAME)] = ""


class Seen(_FromPage, frozen=True, tag="seen"):
    """The picture with this number has arrived; another may be sent."""

    picture: Count


class Ping(_FromPage, frozen=True, tag="ping"):
    """A sign of life; the answer returns `sent_ms` unchanged."""

    sent_ms: Annotated[float, msgspec.Meta(ge=0.0)]


class Take(_FromPage, frozen=True, tag="take"):
    """Ask for the driver's seat."""


class Leave(_FromPage, frozen=True, tag="leave"):
    """Give the driver's seat back."""


class Drive(_FromPage, frozen=True, tag="drive"):
    """Held keys as fractions of the top speed; `beat` is that of the newest state the page has received."""

    forward: Fraction
    left: Fraction
    turn: Fraction
    beat: Count


class Say(_FromPage, frozen=True, tag="say"):
    """A command in words."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_COMMAND_CHARACTERS)]


class GoTo(_FromPage, frozen=True, tag="go_to"):
    """A command to go to a point of the floor, as on the map."""

    x: Metres
    y: Metres


class GoToSeen(_FromPage, frozen=True, tag="go_to_seen"):
    """A command to go to what is seen at a point of a picture, in fractions from its upper left corner."""

    picture: Count
    across: Share
    down: Share


class Cancel(_FromPage, frozen=True, tag="cancel"):
    """End the running command and stand."""


class EStop(_FromPage, frozen=True, tag="e_stop"):
    """Engage the emergency stop, or release it.

    A release carries the `beat` of the newest state the page has received, as proof that its sender has
    seen what is released. A stop needs no `beat`.
    """

    engaged: bool
    beat: Count = 0


Command = Say | GoTo | GoToSeen
Gated = Drive | Command | Switch | EStop
"""The messages that need the driver's seat, except a stop."""
FromPage = Hello | Seen | Ping | Take | Leave | Drive | Command | Switch | Cancel | EStop | Speech | Speak


class _ToPage(msgspec.Struct, frozen=True, tag_field="is"):
    """A message to the page; the field `is` names it."""


class State(_ToPage, frozen=True, tag="state"):
    """The robot's state, sent several times a second; `beat` counts these messages.

    `driver` is a viewer's name. `driver_yields`: an agent drives, and a person may take the seat.
    `unheard`: the emergency stop was engaged here, but nobody on the robot's side is subscribed. `stands`:
    current odometry shows no motion, and nothing is commanded; without odometry `stands` and `moving` are
    False.
    """

    beat: int = 0
    link: str = ""
    driver: str = ""
    driver_yields: bool = False
    viewers: int = 0
    e_stop: bool = False
    unheard: bool = False
    moving: bool = False
    stands: bool = False
    goal: str = ""
    pose: tuple[float, float, float] | None = None
    warning: str = ""


class Text(_ToPage, frozen=True, tag="text"):
    """A step's text as far as it is verified; `state`: decoding, finished, or withdrawn because of `note`."""

    session: str
    step: int
    state: str
    text: str
    action: str
    latency_s: float
    tokens_per_s: float
    tokens_per_round: float
    note: str = ""


class Tokens(_ToPage, frozen=True, tag="tokens"):
    """Tokens of a step in order: accepted drafts, the target's own, rejected drafts, unverified drafts.

    `first` verified tokens of the step were sent before. `origins` has one letter per piece: a, w, r, d.
    """

    session: str
    step: int
    first: int
    pieces: tuple[str, ...]
    origins: str


class Round(_ToPage, frozen=True, tag="round"):
    """The figures of one verification."""

    drafted: int
    accepted: int
    emitted: int
    round_trip_s: float
    verify_s: float


class Motion(_ToPage, frozen=True, tag="motion"):
    """How the motion of a step ended."""

    session: str
    step: int
    action: str
    outcome: str
    message: str


class Goal(_ToPage, frozen=True, tag="goal"):
    """A command: running, done, failed or cancelled. Only the viewer that gave it receives the message."""

    state: str
    instruction: str
    message: str = ""


class Ended(msgspec.Struct, frozen=True):
    """A past command: done or failed. Only the viewer that gave it receives its words and the message.

    Others receive the words of its plan, empty if it had none.
    """

    state: str
    instruction: str
    message: str = ""


class Halt(_ToPage, frozen=True, tag="halt"):
    """Somebody asked the robot to stop; sent again with `stands` once the robot was seen to stand."""

    stands: bool = False


class Plan(_ToPage, frozen=True, tag="plan"):
    """The plan of a command: its steps in words, and the index of the current one, from 0.

    `current` is the number of steps once all are done. If `running` is False before that, the step
    `current` has failed. `targets`: what the robot stands in front of after each step, empty for none.
    """

    steps: tuple[str, ...] = ()
    current: int = 0
    running: bool = False
    targets: tuple[str, ...] = ()


class Thing(msgspec.Struct, frozen=True):
    """Something at a place on the floor."""

    what: str
    x: float
    y: float


class Sights(_ToPage, frozen=True, tag="sights"):
    """What the newest text says it sees; `goal` if it says that the robot approaches one of the things."""

    things: tuple[Thing, ...] = ()
    goal: Thing | None = None


class Boxes(_ToPage, frozen=True, tag="boxes"):
    """Estimated boxes of the newest text's things in the picture with this number."""

    picture: int
    boxes: tuple[Box, ...]


class Memories(_ToPage, frozen=True, tag="memories"):
    """The shareable memories that have a position."""

    things: tuple[Thing, ...] = ()


class Trail(_ToPage, frozen=True, tag="trail"):
    """The robot's path: points to append to those sent before."""

    points: tuple[tuple[float, float], ...]


class Walls(_ToPage, frozen=True, tag="walls"):
    """Cells of the floor, `cell_m` wide, in which the scan has met something; added to earlier ones."""

    cell_m: float
    cells: tuple[tuple[int, int], ...]


class Pong(_ToPage, frozen=True, tag="pong"):
    """The answer to a ping."""

    sent_ms: float


class Notice(_ToPage, frozen=True, tag="notice"):
    """A line for the person: info, warning or error."""

    level: str
    text: str


class Unseated(_ToPage, frozen=True, tag="unseated"):
    """A person's request that was not carried out because that person has yet to take the seat."""

    asked: Gated


class Welcome(_ToPage, frozen=True, tag="welcome"):
    """The complete state: the answer to a hello, and sent again when a slow page has missed something.

    `name` is what the others see; `secret` resumes the connection.
    """

    name: str
    secret: str
    limits: tuple[float, float, float]
    state: State
    texts: tuple[Text, ...]
    rounds: tuple[Round, ...]
    motions: tuple[Motion, ...]
    ended: tuple[Ended, ...]
    switches: Switches
    plan: Plan
    sights: Sights
    memories: Memories
    trail: Trail
    walls: Walls


Run = State | Text | Tokens | Round | Motion | Goal | Halt | Plan
Drawn = Sights | Boxes | Memories | Trail | Walls
ToPage = Run | Drawn | Switches | Heard | Spoken | Pong | Notice | Unseated | Welcome

_decoder = msgspec.json.Decoder(FromPage)
_encoder = msgspec.json.Encoder()


def read(content: str | bytes) -> FromPage:
    """Parse a page's message. Raises ProtocolError unless it is exactly one of those above."""
    if len(content) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"the message has {len(content)} bytes, at most {MAX_MESSAGE_BYTES} are taken")
    try:
        return _decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"not a message of this console: {error}") from None


def is_stop(message: FromPage) -> bool:
    """Whether a message is a stop, which every viewer may always send."""
    return isinstance(message, Cancel) or (isinstance(message, EStop) and message.engaged)


def lets_go(message: FromPage) -> TypeGuard[Drive]:
    """Whether a message releases all keys."""
    return isinstance(message, Drive) and not (message.forward or message.left or message.turn)


def is_for_persons(message: FromPage) -> bool:
    """Whether no agent may send a message: driving, pointing, switching, releasing the emergency stop."""
    is_release = isinstance(message, EStop) and not message.engaged
    return is_release or isinstance(message, (Drive, GoTo, GoToSeen, Switch))


def write(message: ToPage) -> str:
    """Returns a message to the page as JSON."""
    return _encoder.encode(message).decode()
