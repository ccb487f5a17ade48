# SPDX-License-Identifier: Apache-2.0
"""The sessions of one verifier: what is known of each robot, and the text that is written for it."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.core.frames import CloudFrame, Refused
from outrider.decoding.cloud.admission import Presence
from outrider.decoding.cloud.target_sequence import TargetSequence
from outrider.decoding.jobs import SessionKey
from outrider.decoding.policy.session_estimates import SessionEstimates


@dataclass
class Session:
    """A session in the table. `epoch` is the newest one seen; `text` is None once cancelled or refused.

    `waiting_since_s`: since when a frame has waited for the model, None if none has; `verified`: number of
    verifications since its last prompt; `left_out`: number of batches in a row that began without it though
    it was ready.
    """

    epoch: int
    presence: Presence
    estimates: SessionEstimates
    text: TargetSequence | None = None
    refusal: Refused | None = None
    waiting_since_s: float | None = None
    prefilling: bool = False
    verified: int = 0
    left_out: int = 0

    @property
    def refused(self) -> bool:
        """Whether the session was refused, and is kept to repeat the reason."""
        return self.text is None and self.refusal is not None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to write for the session."""
        return self.text is None or self.text.finished

    def refusal_of(self, epoch: int) -> list[CloudFrame]:
        """Return the answer to a peer that still asks for a text that has ended: its refusal, if any."""
        return [self.refusal] if self.refusal is not None and self.refusal.epoch == epoch else []


class SessionTable(dict[SessionKey, Session]):
    """All sessions that are held. Those that were in a batch longest ago come first."""

    @property
    def texts(self) -> list[TargetSequence]:
        """Every text being written, in the order of the sessions."""
        return [session.text for session in self.values() if session.text is not None]

    def text_of(self, key: SessionKey, epoch: int) -> TargetSequence | None:
        """Return the text of a session; None if it has another epoch by now, or does not exist."""
        session = self.get(key)
        return session.text if session is not None and session.epoch == epoch else None
