# SPDX-License-Identifier: Apache-2.0
"""The places at one verifier: what is known of each robot, and the text that is written for it."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.core.frames import CloudFrame, Refused
from outrider.decoding.cloud.admission import Presence
from outrider.decoding.cloud.target_sequence import TargetSequence
from outrider.decoding.jobs import SessionKey
from outrider.decoding.policy.session_estimates import SessionEstimates


@dataclass
class Session:
    """A place in the table. `epoch` is the newest one seen; `text` is None once cancelled or refused.

    `asked_s`: since when a frame waits for the model; `verified`: how often since its last prompt;
    `left_out`: of how many batches in a row, though ready.
    """

    epoch: int
    presence: Presence
    estimates: SessionEstimates
    text: TargetSequence | None = None
    refusal: Refused | None = None
    asked_s: float | None = None
    prefilling: bool = False
    verified: int = 0
    left_out: int = 0

    @property
    def refused(self) -> bool:
        """Whether the session was refused, and is kept to repeat the reason."""
        return self.text is None and self.refusal is not None

    @property
    def rests(self) -> bool:
        """Whether there is nothing to write for the session."""
        return self.text is None or self.text.finished

    def closing_words(self, epoch: int) -> list[CloudFrame]:
        """What a peer is told that still asks for a text that is no more."""
        return [self.refusal] if self.refusal is not None and self.refusal.epoch == epoch else []


class SessionTable(dict[SessionKey, Session]):
    """The sessions that hold a place. Those whose turn in a batch was longest ago come first."""

    @property
    def texts(self) -> list[TargetSequence]:
        """Every text that is written, in the sessions' order."""
        return [session.text for session in self.values() if session.text is not None]

    def text_of(self, key: SessionKey, epoch: int) -> TargetSequence | None:
        """The text of a session, unless it has another by now."""
        session = self.get(key)
        return session.text if session is not None and session.epoch == epoch else None
