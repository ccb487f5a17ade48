# SPDX-License-Identifier: Apache-2.0
"""Answers questions to the robot: from its memory alone, or together with the cloud in one text."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.core.errors import Cancelled, LinkError, OutriderError
from outrider.core.language.plan import Ask, Where
from outrider.core.values import Pose2D
from outrider.runtime.common.links import emulation_of
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.mission.questions import question_to_memory
from outrider.runtime.wiring.memory_stores import open_known_memory

if TYPE_CHECKING:
    from outrider.runtime.mission.peer_answers import PeerAnswers

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answers:
    """Answers a question together with the cloud if possible; otherwise from memory alone."""

    recollection: Recollection
    peers: PeerAnswers | None = None

    def reply(
        self, question: Ask | Where, pose: Pose2D | None, cancelled: Callable[[], bool] = lambda: False
    ) -> str:
        """Returns the answer as a sentence. Raises MemoryStoreError and Cancelled."""
        alone = self.recollection.reply(question, pose)
        if self.peers is None:
            return alone
        documents = self.recollection.documents(question, pose)
        try:
            return self.peers.ask(question.question, documents, cancelled) or alone
        except Cancelled:
            raise
        except OutriderError as error:
            log.warning("answered without the cloud: %s", error)
            missing = "the cloud does not answer" if isinstance(error, LinkError) else str(error)
            return f"{alone} (from my own memory alone: {missing})"


def ask_once(
    question: str,
    answers: str = "memory",
    endpoint: str = "",
    key_file: str = "",
    link_profile: str = "",
    answer_model: str = "",
    store: str = "",
    store_key_file: str = "",
) -> str:
    """Returns the answer of a robot's memory to one question, without the robot: `outrider ask`.

    Raises MemoryStoreError, ModelError, and ConfigError for a wrong option or a sentence that is no
    question.
    """
    step = question_to_memory(question, answers)
    peers = None
    with open_known_memory(store, store_key_file) as memory:
        if answers == "aggregate":
            from outrider.runtime.mission.peer_answers import open_peer_answers  # takes seconds to import

            emulation = emulation_of(link_profile)
            peers = open_peer_answers(endpoint, answer_model, key_file=key_file, emulation=emulation)
        try:
            return Answers(Recollection(memory, "", time.time), peers).reply(step, None)
        finally:
            if peers is not None:
                peers.close()
