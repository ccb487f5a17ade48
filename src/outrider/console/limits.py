# SPDX-License-Identifier: Apache-2.0
"""How long a console waits for its viewers and its robot, and how long what they do holds."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.console.commands import CANCEL_S
from outrider.console.said.reading import READ_S
from outrider.console.seat import HOLD_S
from outrider.console.spoken.ear import LONGEST_S, SILENCE_S

HELLO_S = 5.0


@dataclass(frozen=True)
class ConsoleLimits:
    """Seconds until a page has said hello, that a drive command holds, until a cancelled command is given up,
    until a sentence is read, that an utterance lasts at most, and that a microphone may be silent.
    """

    hello_s: float = HELLO_S
    hold_s: float = HOLD_S
    cancel_s: float = CANCEL_S
    read_s: float = READ_S
    utterance_s: float = LONGEST_S
    silence_s: float = SILENCE_S
