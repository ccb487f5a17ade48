# SPDX-License-Identifier: Apache-2.0
"""Time limits of a console, for its viewers, its robot and speech."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.console.commands import CANCEL_S
from outrider.console.seat import HOLD_S
from outrider.console.sentences.reading import READ_S
from outrider.console.speech.recognition import MAX_UTTERANCE_S, SILENCE_S

HELLO_S = 5.0


@dataclass(frozen=True)
class ConsoleLimits:
    """Time limits in seconds.

    `hello_s`: until a page has said hello. `hold_s`: how long a drive command holds. `cancel_s`: until a
    cancelled command counts as failed. `read_s`: until a sentence is read. `utterance_s`: the longest
    utterance. `silence_s`: how long a microphone may send nothing.
    """

    hello_s: float = HELLO_S
    hold_s: float = HOLD_S
    cancel_s: float = CANCEL_S
    read_s: float = READ_S
    utterance_s: float = MAX_UTTERANCE_S
    silence_s: float = SILENCE_S
