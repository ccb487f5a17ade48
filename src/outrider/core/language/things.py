# SPDX-License-Identifier: Apache-2.0
"""What an instruction asks for: a kind, and what tells it from others of its kind."""

from __future__ import annotations

from dataclasses import dataclass

SIZES = ("small", "large")
SIDES = ("left", "right")
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
    def phrase(self) -> str:
        """Returns the words, such as "small red ball"."""
        return " ".join(word for word in (self.side, self.size, self.colour, self.kind) if word)
