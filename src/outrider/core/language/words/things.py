# SPDX-License-Identifier: Apache-2.0
"""The thing that an instruction asks for: a kind, and what distinguishes it from others of its kind."""

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
"""The combinations of slots that name a thing, in the order of speech."""


@dataclass(frozen=True)
class Thing:
    """A kind of thing; colour, size and side are empty if not said."""

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
        """The words, such as "small red ball"."""
        return " ".join(getattr(self, slot) for slot in self.shape)

    @classmethod
    def of(cls, words: str) -> Thing:
        """Return the thing that any words name.

        The last word is its kind. Other words than a size and a side are its colour.
        """
        *before, kind = words.split()
        size = next((word for word in before if word in SIZES), "")
        side = next((word for word in before if word in SIDES), "")
        return cls(kind, " ".join(word for word in before if word not in (size, side)), size, side)


def seen_as(words: str) -> str:
    """Return the words of a thing without size and side, which neither texts nor memories contain."""
    return replace(Thing.of(words), size="", side="").phrase


def may_be(seen: str, wanted: str) -> bool:
    """Return whether a thing seen may be the wanted one: a "red chair" may be "chair" or "left chair"."""
    return f" {seen}".endswith(f" {seen_as(wanted)}")
