# SPDX-License-Identifier: Apache-2.0
"""What an instruction asks for: a kind, and what tells it from others of its kind."""

from __future__ import annotations

from dataclasses import dataclass, replace

SIZES = ("small", "large")
SIDES = ("left", "right")
ORDER = ("side", "size", "colour", "kind")
"""The slots of a thing in the order of speech."""
SHAPES: tuple[tuple[str, ...], ...] = (
    ("colour", "kind"),
    ("kind",),
    ("size", "colour", "kind"),
    ("size", "kind"),
    ("side", "colour", "kind"),
    ("side", "kind"),
)
"""The slots that a thing's words fill, in the order of speech."""


@dataclass(frozen=True)
class Thing:
    """A kind; colour, size and side are empty where nothing is said of them."""

    kind: str
    colour: str = ""
    size: str = ""
    side: str = ""

    @property
    def shape(self) -> tuple[str, ...]:
        """The slots that its words fill, in the order of speech."""
        return tuple(slot for slot in ORDER if getattr(self, slot))

    @property
    def phrase(self) -> str:
        """Returns the words, such as "small red ball"."""
        return " ".join(getattr(self, slot) for slot in self.shape)

    @classmethod
    def of(cls, words: str) -> Thing:
        """The thing that any words name: the last is its kind; what tells no size or side, its colour."""
        *before, kind = words.split()
        size = next((word for word in before if word in SIZES), "")
        side = next((word for word in before if word in SIDES), "")
        return cls(kind, " ".join(word for word in before if word not in (size, side)), size, side)


def seen_as(words: str) -> str:
    """The words of a thing without its size and side, which no text and no memory tells."""
    return replace(Thing.of(words), size="", side="").phrase


def may_be(seen: str, wanted: str) -> bool:
    """Whether what was seen may be what is wanted: a "red chair" may be any "chair", or the "left" one."""
    return f" {seen}".endswith(f" {seen_as(wanted)}")
