# SPDX-License-Identifier: Apache-2.0
"""The robot answers what it is asked: from its memory alone, or in one text with the cloud.

With the cloud each side's model reads documents of its own (`decoding.aggregation`). The robot's are masked
(`core.questions`): what its model reads, drafts and tells holds no private word, and the slots of the final
text are filled in here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.core.errors import Cancelled, LinkError, OutriderError
from outrider.core.language.plan import Ask, Where
from outrider.core.language.questions import Slots, question_prompt
from outrider.core.ports import FrameLink, LanguageModel
from outrider.core.values import DecodeRequest, Pose2D, Prompt
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.aggregation.driver import PeerDecoder
from outrider.decoding.aggregation.worker import Context
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.mission.questions import question_to_memory
from outrider.runtime.wiring.decoders import SESSION, open_link
from outrider.runtime.wiring.knowledge import ANSWER_TOKENS, fitting_context, load_reader
from outrider.runtime.wiring.memory_stores import open_memory

ANSWER_DEADLINE_S = 20.0
log = logging.getLogger(__name__)


class PeerAnswers:
    """Questions answered in one text with a cloud that has documents of its own. For one thread."""

    def __init__(self, link: FrameLink, model: LanguageModel, where: str, wanted_model: str = "") -> None:
        self._model = model
        self._documents: Sequence[tuple[str, float]] = ()
        self._asked = ""
        config = AggregationConfig(wanted_model=wanted_model)
        self._decoder = PeerDecoder(link, model, config, self._contexts, SESSION, where)

    def ask(
        self,
        question: str,
        documents: Sequence[tuple[str, float]],
        cancelled: Callable[[], bool] = lambda: False,
    ) -> str:
        """`documents`: private ones with their relevance, the best first.

        Raises LinkError where the cloud does not do its part, Cancelled, and ConfigError for a question that
        the model has no room for.
        """
        slots = Slots(question)
        self._asked = question
        self._documents = [(slots.mask(text), relevance) for text, relevance in documents]
        request = DecodeRequest(Prompt(question_prompt(question), b""), ANSWER_TOKENS, ANSWER_DEADLINE_S)
        text = self._decoder.decode(request, cancelled=cancelled).text
        return slots.fill(" ".join(text.split()))

    def close(self) -> None:
        """Closes the connection to the cloud."""
        self._decoder.close()

    def _contexts(self, question: Prompt) -> tuple[Context, ...]:
        return (fitting_context(self._asked, self._documents, self._model, question.jpeg),)


def open_peer_answers(
    endpoint: str,
    model: str,
    *,
    threads: int = 1,
    key_file: str = "",
    link_profile: str = "",
    wanted_model: str = "",
) -> PeerAnswers:
    """Load the answering model and prepare the link, which need not be up. Raises ModelError, ConfigError."""
    reader = load_reader(model, threads)
    link, where = open_link(endpoint, Path(key_file) if key_file else None, link_profile)
    return PeerAnswers(link, reader, where, wanted_model)


@dataclass(frozen=True)
class Answers:
    """What the robot says to a question: with a cloud if there is one and it does its part, else alone."""

    recollection: Recollection
    peers: PeerAnswers | None = None

    def reply(
        self, asked: Ask | Where, pose: Pose2D | None, cancelled: Callable[[], bool] = lambda: False
    ) -> str:
        """Raises MemoryStoreError, and Cancelled."""
        alone = self.recollection.reply(asked, pose)
        if self.peers is None:
            return alone
        documents = self.recollection.documents(asked, pose)
        try:
            return self.peers.ask(asked.question, documents, cancelled) or alone
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
    """`outrider ask`: one question to a robot's memory, without the robot.

    Raises MemoryStoreError, ConfigError for a wrong option or a sentence that asks nothing, and ModelError.
    """
    asked = question_to_memory(question, answers)
    peers = None
    with open_memory(store, store_key_file) as memory:
        if answers == "aggregate":
            peers = open_peer_answers(endpoint, answer_model, key_file=key_file, link_profile=link_profile)
        try:
            return Answers(Recollection(memory, "", time.time), peers).reply(asked, None)
        finally:
            if peers is not None:
                peers.close()
