# SPDX-License-Identifier: Apache-2.0
"""What the console has written down of its viewers: a journal's `Notary.note`, or nothing."""

from __future__ import annotations

from typing import Protocol


class Note(Protocol):
    """Writes down who did what, and never blocks. Of `said`, a sentence, only what it moves may be kept."""

    def __call__(self, who: str, did: str, what: str = "", said: str = "") -> None: ...


def note_nothing(who: str, did: str, what: str = "", said: str = "") -> None:
    """Where there is no journal."""
