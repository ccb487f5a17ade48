"""What the simulated homes hold and how people ask for it: kinds, colours, phrasings."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

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

FIND_PHRASINGS = (
    "find the {}",
    "find my {}",
    "find a {}",
    "go to the {}",
    "go to my {}",
    "go find the {}",
    "walk to the {}",
    "walk over to the {}",
    "run to the {}",
    "move to the {}",
    "drive to the {}",
    "come to the {}",
    "look for the {}",
    "look for a {}",
    "look for my {}",
    "search for the {}",
    "search the home for a {}",
    "locate the {}",
    "where is the {}?",
    "where is my {}?",
    "where did i leave my {}?",
    "take me to the {}",
    "bring me to my {}",
    "show me the {}",
    "lead me to the {}",
    "guide me to the {}",
    "i need the {}",
    "i am looking for my {}",
    "i want to see the {}",
    "can you find the {}?",
    "could you go to the {}, please?",
    "please find my {}",
    "please go to the {}",
    "please look for the {}",
    "head for the {}",
    "get to the {}",
    "approach the {}",
    "stop at the {}",
    "stand next to the {}",
    "wait at the {}",
)


@dataclass(frozen=True)
class ObjectSpec:
    """A thing by kind and colour."""

    kind: str
    colour: str

    @property
    def phrase(self) -> str:
        return f"{self.colour} {self.kind}"


def target_of(instruction: str) -> ObjectSpec | None:
    """The thing an instruction asks for, or None where it names no kind and colour of these homes."""
    words = "".join(c if c.isalpha() else " " for c in instruction.lower()).split()
    for colour, kind in pairwise(words):
        if colour in COLOURS and kind in KINDS:
            return ObjectSpec(kind, colour)
    return None


COMMANDS = (
    "stop",
    "halt",
    "stay where you are",
    "stand still",
    "freeze",
    "turn left",
    "turn right",
    "turn left a little",
    "turn right a little",
    "turn slightly left",
    "turn slightly right",
    "turn left a lot",
    "turn right a lot",
    "look left",
    "look right",
    "rotate left",
    "rotate right",
    "move forward",
    "go forward",
    "walk forward a little",
    "move forward a little",
    "go straight ahead",
    "move ahead a bit",
    "walk straight ahead a lot",
    "go forward a lot",
    "turn left at the door",
    "turn right at the door",
)


def instruction_words() -> tuple[str, ...]:
    """Every word an instruction of the training data can hold."""
    texts = (*FIND_PHRASINGS, *COMMANDS, *KINDS, *COLOURS)
    words = "".join(c if c.isalnum() else " " for c in " ".join(texts)).split()
    return tuple(sorted(set(words)))
