# SPDX-License-Identifier: Apache-2.0
"""A plan: the steps that a sentence asks for, as values. Nothing else can be asked for.

Each step has an `intent`, its short form for data and journals, and a text in plain words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from outrider.core.values import Visibility

TURN_STEP_DEG, MOVE_STEP_M = 15.0, 0.25
MAX_TURN_DEG, MAX_MOVE_M, MAX_WAIT_S, MAX_POINT_M = 360.0, 5.0, 600.0, 500.0
MAX_STEPS = 8
_UNCHECKED = '"{}": a general model takes any words; whether it knows these is not checked'


@dataclass(frozen=True)
class Step:
    """One step. `moves`: it may move the robot; `answers`: it answers, and changes nothing.

    `template`: its plain words; `short`: the argument in its intent. Both have the step's fields in braces.
    """

    moves: ClassVar[bool] = False
    answers: ClassVar[bool] = False
    template: ClassVar[str] = ""
    short: ClassVar[str] = ""

    @property
    def intent(self) -> str:
        """The step in short: its name and its argument."""
        about = f"({self.short.format(**vars(self))})" if self.short else ""
        return type(self).__name__.lower() + about

    @property
    def words(self) -> str:
        """The step in plain words."""
        return self.template.format(**vars(self))

    def note(self, is_general: bool) -> str:
        """Return what the step assumes, for a general model or one made for few words; empty if nothing."""
        return ""


@dataclass(frozen=True)
class Find(Step):
    """Find a thing and stop in front of it.

    `instruction`: the sentence for the models; `known`: they know it.
    `room`: it is enough to reach the room with the thing.
    """

    thing: str
    instruction: str
    known: bool = True
    room: bool = False
    moves: ClassVar[bool] = True

    @property
    def intent(self) -> str:
        return f"find(room with the {self.thing})" if self.room else f"find({self.thing})"

    @property
    def words(self) -> str:
        return sentence_to_find(self.thing, self.room)

    def note(self, is_general: bool) -> str:
        if self.known:
            return ""
        if is_general:
            return _UNCHECKED.format(self.thing)
        return f'no model knows "{self.thing}": the robot goes to where memory has it'


@dataclass(frozen=True)
class Follow(Step):
    """Carry out a sentence with the models, exactly as it was said."""

    instruction: str
    moves: ClassVar[bool] = True
    template: ClassVar[str] = "{instruction}"
    short: ClassVar[str] = "{instruction}"

    def note(self, is_general: bool) -> str:
        return _UNCHECKED.format(self.instruction) if is_general else ""


@dataclass(frozen=True)
class Return(Step):
    """Come back to where the plan began."""

    moves: ClassVar[bool] = True
    template: ClassVar[str] = "come back to where this plan began"


@dataclass(frozen=True)
class Home(Step):
    """Go home: to the place that was named home, or to where the robot started."""

    moves: ClassVar[bool] = True
    template: ClassVar[str] = "go home"


@dataclass(frozen=True)
class Go(Step):
    """Go to a point on the floor: metres ahead and to the left of where odometry began."""

    x: float
    y: float
    moves: ClassVar[bool] = True
    template: ClassVar[str] = "go to the point {x:g} {y:g}"
    short: ClassVar[str] = "{x:g}, {y:g}"


@dataclass(frozen=True)
class Turn(Step):
    """Turn on the spot; left is positive."""

    degrees: float
    moves: ClassVar[bool] = True
    short: ClassVar[str] = "{degrees:g}"

    @property
    def words(self) -> str:
        return f"turn {'left' if self.degrees > 0 else 'right'} {abs(self.degrees):g} degrees"

    @property
    def actual_deg(self) -> float:
        """The degrees that are really turned, in whole steps."""
        return _rounded(self.degrees, TURN_STEP_DEG)

    def note(self, is_general: bool) -> str:
        exact = self.actual_deg == self.degrees
        return "" if exact else f"turns go by {TURN_STEP_DEG:g} degrees: this one is {abs(self.actual_deg):g}"


@dataclass(frozen=True)
class Move(Step):
    """Go straight; ahead is positive. A move back is a half turn, a move ahead, and a half turn."""

    metres: float
    moves: ClassVar[bool] = True
    short: ClassVar[str] = "{metres:g}"

    @property
    def words(self) -> str:
        if self.metres > 0:
            return f"go {self.metres:g} m forward"
        return f"turn around, go {-self.metres:g} m, and turn around again"

    @property
    def actual_m(self) -> float:
        """The metres that are really driven, in whole steps."""
        return _rounded(self.metres, MOVE_STEP_M)

    def note(self, is_general: bool) -> str:
        exact = self.actual_m == self.metres
        return "" if exact else f"ways go by {MOVE_STEP_M:g} m: this one is {abs(self.actual_m):g} m"


@dataclass(frozen=True)
class Wait(Step):
    """Stand still for some seconds."""

    seconds: float
    template: ClassVar[str] = "wait {seconds:g} s"
    short: ClassVar[str] = "{seconds:g}"


@dataclass(frozen=True)
class Stop(Step):
    """Stop the robot now."""

    template: ClassVar[str] = "stop at once"


@dataclass(frozen=True)
class See(Step):
    """Say what the newest picture shows."""

    answers: ClassVar[bool] = True
    template: ClassVar[str] = "say what is in sight, without moving"


@dataclass(frozen=True)
class Where(Step):
    """Say where a thing is or was seen; `question` and `original_words` are the person's own words."""

    what: str
    question: str = field(default="", compare=False)
    original_words: str = field(default="", compare=False)
    answers: ClassVar[bool] = True
    template: ClassVar[str] = "say where the {what} is, without moving"
    short: ClassVar[str] = "{what}"


@dataclass(frozen=True)
class Did(Step):
    """Say what was done."""

    answers: ClassVar[bool] = True
    template: ClassVar[str] = "say what was done, without moving"


@dataclass(frozen=True)
class Ask(Step):
    """Answer any other question from memory."""

    question: str
    answers: ClassVar[bool] = True
    template: ClassVar[str] = 'answer "{question}" from memory, without moving'


@dataclass(frozen=True)
class Remember(Step):
    """Store a statement. `here`: its place is the robot's position."""

    text: str
    visibility: Visibility = Visibility.PRIVATE
    here: bool = False
    template: ClassVar[str] = 'remember "{text}" ({visibility.value})'


@dataclass(frozen=True)
class Forget(Step):
    """Forget every memory with all these words, or with all words of one of `others`;
    without words, everything.
    """

    about: str = ""
    others: tuple[str, ...] = field(default=(), compare=False)

    @property
    def intent(self) -> str:
        return f"forget({self.about or '*'})"

    @property
    def words(self) -> str:
        return f'forget all about "{self.about}"' if self.about else "forget everything"


@dataclass(frozen=True)
class Correct(Step):
    """Find a thing other than the last: of its kind, with other properties, or `beside` it."""

    other: bool = False
    kind: str = ""
    colour: str = ""
    size: str = ""
    side: str = ""
    beside: str = ""
    moves: ClassVar[bool] = True

    @property
    def intent(self) -> str:
        return f"correct({_words('other' * self.other, self._qualities, self.beside, self.kind)})"

    @property
    def words(self) -> str:
        beside = f"to the {self.beside} of it" if self.beside else ""
        return _words("find the", self._qualities or "other", self.kind or "one", beside)

    @property
    def _qualities(self) -> str:
        return _words(self.side, self.size, self.colour)


@dataclass(frozen=True)
class Plan:
    """The steps that a sentence asks for, in order. `notes` are the assumptions."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether any step may move the robot."""
        return any(step.moves for step in self.steps)

    @property
    def only_answers(self) -> bool:
        """Whether all steps are questions."""
        return all(step.answers for step in self.steps)

    @property
    def intent(self) -> str:
        """The intents of the steps in order, separated by semicolons."""
        return "; ".join(step.intent for step in self.steps)

    def text(self) -> str:
        """Return the plan as lines of text, numbered if there are several steps."""
        several = len(self.steps) > 1
        lines = [f"{f'{n}. ' * several}{step.words}" for n, step in enumerate(self.steps, 1)]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def sentence_to_find(thing: str, room: bool) -> str:
    """Return the plain sentence to find a thing, or the room with it."""
    return f"go to the room with the {thing}" if room else f"find the {thing}"


def _words(*words: str) -> str:
    """Join the words that are not empty with single spaces."""
    return " ".join(filter(None, words))


def _rounded(amount: float, step: float) -> float:
    """Round an amount to whole steps, at least one; keep its sign."""
    count = max(1, round(abs(amount) / step))
    return count * step if amount > 0 else -count * step


def says_stop(steps: Sequence[Step]) -> bool:
    """Return whether a plan begins with a stop, after which nothing else is done."""
    return bool(steps) and steps[0] == Stop()
