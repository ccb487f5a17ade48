# SPDX-License-Identifier: Apache-2.0
"""What the simulated homes hold: kinds and colours of things."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from outrider.core.errors import ConfigError
from outrider.core.language.grammar import Vocabulary

KINDS = ("ball", "bin", "bottle", "box", "chair", "cone", "cup", "lamp", "table", "vase")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "silver", "black")

COLOUR_RGB = {
    "red": (0.80, 0.07, 0.07),
    "orange": (1.00, 0.45, 0.05),
    "yellow": (0.95, 0.85, 0.08),
    "green": (0.08, 0.55, 0.15),
    "blue": (0.10, 0.25, 0.85),
    "purple": (0.50, 0.15, 0.68),
    "silver": (0.78, 0.81, 0.86),
    "black": (0.07, 0.07, 0.08),
}


@dataclass(frozen=True)
class ObjectSpec:
    """A thing by kind and colour."""

    kind: str
    colour: str

    @property
    def phrase(self) -> str:
        """Returns the name in words, such as "red ball"."""
        return f"{self.colour} {self.kind}"


def target_of(instruction: str) -> ObjectSpec | None:
    """The thing an instruction asks for, or None where it names no kind and colour of these homes."""
    words = "".join(c if c.isalpha() else " " for c in instruction.lower()).split()
    for colour, kind in pairwise(words):
        if colour in COLOURS and kind in KINDS:
            return ObjectSpec(kind, colour)
    return None


def checked_target(words: str) -> ObjectSpec:
    """`target_of` what a home is to hold. Raises ConfigError where that is none of its things."""
    target = target_of(words)
    if target is None:
        raise ConfigError(
            f"no home holds {words!r}: name a colour ({', '.join(COLOURS)}) and a kind ({', '.join(KINDS)})"
        )
    return target


def vocabulary() -> Vocabulary:
    """The words that models are trained on in these homes."""
    return Vocabulary({"colour": COLOURS, "kind": KINDS})
