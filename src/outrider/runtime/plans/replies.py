# SPDX-License-Identifier: Apache-2.0
"""Answers without motion: from the newest picture, the memory, and the log of the robot's steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from outrider.core.errors import NotErasedError
from outrider.core.language.plan import Ask, Did, Forget, Remember, See, Where
from outrider.core.values import Pose2D
from outrider.memory.answers import not_seen_answer
from outrider.runtime.mission.answers import Answers
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.mission.peer_answers import PeerAnswers
from outrider.runtime.plans.run_log import RunLog
from outrider.runtime.plans.sight import Sight
from outrider.runtime.wiring.memory_stores import forget_memory

Cancelling = Callable[[], bool]


@dataclass
class Replies:
    """One method for each kind of step that moves nothing.

    They raise MemoryStoreError and `Sight`'s errors. Steps that need a memory are only given to a robot
    that has one.
    """

    recollection: Recollection | None
    peers: PeerAnswers | None
    sight: Sight
    log: RunLog
    pose: Callable[[], Pose2D | None]

    def see(self, step: See, cancelled: Cancelling) -> str:
        """Returns what the newest picture shows."""
        wanted = self.log.wanted
        return self.sight.see(wanted.thing if wanted and wanted.known else "", cancelled)

    def did(self, step: Did, cancelled: Cancelling) -> str:
        """Returns what the robot has done so far."""
        return self.log.words(time.time())

    def where(self, step: Where, cancelled: Cancelling) -> str:
        """Answer from memory; without a record there, look for a thing that the vocabulary names."""
        if self.recollection is not None and self.recollection.knows(step):
            return self._answers(self.recollection).reply(step, self.pose(), cancelled)
        words = self.sight.vocabulary
        seen = self.sight.where(step.what, cancelled) if words and words.names(step.what) else ""
        if seen or self.recollection is None:
            return seen or not_seen_answer(step.what)
        return self._answers(self.recollection).reply(step, self.pose(), cancelled)

    def ask(self, step: Ask, cancelled: Cancelling) -> str:
        """Answer any other question from memory, together with the cloud if possible."""
        assert self.recollection is not None
        return self._answers(self.recollection).reply(step, self.pose(), cancelled)

    def remember(self, step: Remember, cancelled: Cancelling) -> str:
        """Keep a statement, and return the confirmation."""
        assert self.recollection is not None
        return self.recollection.remember(step, self.pose())

    def forget(self, step: Forget, cancelled: Cancelling) -> str:
        """Forget records, and return the confirmation, or that some bytes stay in the file for now."""
        assert self.recollection is not None
        memory = self.recollection.memory
        self.log.forget(step.about)
        try:
            if not step.about:
                return forget_memory(memory, everything=True)[1]
            return forget_memory(memory, words=(step.about, *step.others))[1]
        except NotErasedError as error:
            return str(error)

    def _answers(self, recollection: Recollection) -> Answers:
        return Answers(recollection, self.peers)
