# SPDX-License-Identifier: Apache-2.0
"""The simulated homes' kinds and colours of things, and what an instruction asks for among them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from outrider.core.errors import ConfigError
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.words.things import SHAPES, SIDES, SIZES, Thing

STANDING_KINDS = (
    "ball",
    "bench",
    "bin",
    "bottle",
    "box",
    "bucket",
    "chair",
    "cone",
    "cup",
    "ladder",
    "lamp",
    "person",
    "plant",
    "screen",
    "stool",
    "suitcase",
    "table",
    "teddy",
    "vase",
)
"""Free-standing things. They always have a colour."""
FURNITURE_KINDS = ("bed", "cabinet", "fridge", "shelf", "sofa")
"""Furniture along a wall. Its wood or cloth may have none of the COLOURS."""
DOOR_KIND = "door"
KINDS = (*STANDING_KINDS, *FURNITURE_KINDS, DOOR_KIND)
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "silver", "black", "pink", "turquoise")

COLOUR_RGB = {
    "red": (0.80, 0.07, 0.07),
    "orange": (1.00, 0.45, 0.05),
    "yellow": (0.95, 0.85, 0.08),
    "green": (0.08, 0.55, 0.15),
    "blue": (0.10, 0.25, 0.85),
    "purple": (0.50, 0.15, 0.68),
    "silver": (0.78, 0.81, 0.86),
    "black": (0.07, 0.07, 0.08),
    "pink": (1.00, 0.50, 0.72),
    "turquoise": (0.10, 0.80, 0.78),
}
SCALES = {"small": 0.7, "": 1.0, "large": 1.3}
_ROOM_WITH = re.compile(r"\broom with\b")


@dataclass(frozen=True)
class ObjectSpec:
    """A thing by kind and colour; without a colour it is plain wood or cloth. `size` is one of SCALES."""

    kind: str
    colour: str = ""
    size: str = ""

    @property
    def phrase(self) -> str:
        """Returns the name in words, such as "red ball"."""
        return f"{self.colour} {self.kind}".strip()

    @property
    def thing(self) -> Thing:
        """Returns the thing in the form of a request."""
        return Thing(self.kind, self.colour, self.size)


@dataclass(frozen=True)
class Wanted:
    """The object of an instruction: a thing, or the room that it is in."""

    thing: Thing
    room: bool = False

    @property
    def phrase(self) -> str:
        """Returns the thing in words, such as "small red ball"."""
        return self.thing.phrase

    def fits(self, spec: ObjectSpec) -> bool:
        """Whether a thing has this kind, and the colour and size if they are asked for."""
        thing = self.thing
        return (
            spec.kind == thing.kind
            and thing.colour in ("", spec.colour)
            and (not thing.size or spec.size == thing.size)
        )


def wanted(instruction: str) -> Wanted | None:
    """Returns what an instruction asks for; None if it names no kind of these homes.

    Colour, size and side are read from the words right before the kind.
    """
    words = "".join(c if c.isalpha() else " " for c in instruction.lower()).split()
    position = next((i for i in reversed(range(len(words))) if words[i] in KINDS), None)
    if position is None or "turn" in words:
        return None
    said = {"colour": "", "size": "", "side": ""}
    for word in reversed(words[:position]):
        slot = next((s for s, known in _SLOTS.items() if word in known and not said[s]), None)
        if slot is None:
            break
        said[slot] = word
    return Wanted(Thing(words[position], **said), _ROOM_WITH.search(instruction.lower()) is not None)


def target_of(instruction: str) -> ObjectSpec | None:
    """Returns the thing that a home should contain for an instruction; None if that names none."""
    goal = wanted(instruction)
    if goal is None or goal.thing.kind == DOOR_KIND:
        return None
    return ObjectSpec(goal.thing.kind, goal.thing.colour, goal.thing.size)


_SLOTS = {"colour": COLOURS, "size": SIZES, "side": SIDES}


def checked_target(words: str) -> ObjectSpec:
    """Returns `target_of` a home's content. Raises ConfigError if it is none of the homes' things."""
    target = target_of(words)
    if target is None:
        raise ConfigError(
            f"no home holds {words!r}: name one of {', '.join((*STANDING_KINDS, *FURNITURE_KINDS))}, in "
            f"{', '.join(COLOURS)} or without a colour"
        )
    return target


def vocabulary() -> Vocabulary:
    """Returns the words that models are trained on in these homes."""
    return Vocabulary({**_SLOTS, "kind": KINDS}, SHAPES, rooms=True)
