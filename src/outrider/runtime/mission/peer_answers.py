# SPDX-License-Identifier: Apache-2.0
"""Answers questions in one text with the cloud; each side's model reads its own documents.

The robot's documents are masked (`language.questions`): its model reads, drafts and sends no private word.
The slots of the final text are filled in here (`decoding.aggregation`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from outrider.core.language.questions import Slots, question_prompt
from outrider.core.ports import FrameLink, LanguageModel
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.aggregation.driver import PeerDecoder
from outrider.decoding.aggregation.worker import Context
from outrider.runtime.wiring.decoders import SESSION, open_link
from outrider.runtime.wiring.knowledge import ANSWER_TOKENS, fitting_context, load_reader
from outrider.wire.emulator import Emulation

ANSWER_DEADLINE_S = 20.0


class PeerAnswers:
    """Answers questions in one text with a cloud that has documents of its own. Use it from one thread."""

    def __init__(
        self,
        link: FrameLink,
        model: LanguageModel,
        where: str,
        wanted_model: str = "",
        deadline_s: float = ANSWER_DEADLINE_S,
    ) -> None:
        """`deadline_s` is the time in seconds that the cloud has for each answer."""
        self._model, self._deadline_s = model, deadline_s
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
        """Returns the answer. `documents` are private texts with their relevance, best first.

        Raises LinkError if the cloud does not answer, Cancelled, and ConfigError for a question that does
        not fit into the model's context.
        """
        slots = Slots(question)
        self._asked = question
        self._documents = [(slots.mask(text), relevance) for text, relevance in documents]
        request = DecodeRequest(Prompt(question_prompt(question), b""), ANSWER_TOKENS, self._deadline_s)
        text = self._decoder.decode(request, cancelled=cancelled).text
        return slots.fill(" ".join(text.split()))

    def close(self) -> None:
        """Close the connection to the cloud."""
        self._decoder.close()

    def _contexts(self, question: Prompt) -> tuple[Context, ...]:
        return (fitting_context(self._asked, self._documents, self._model, question.jpeg),)


def open_peer_answers(
    endpoint: str,
    model: str,
    *,
    threads: int = 1,
    key_file: str = "",
    emulation: Emulation | None = None,
    wanted_model: str = "",
    deadline_s: float = ANSWER_DEADLINE_S,
) -> PeerAnswers:
    """Load the answering model and prepare the link, which need not be up yet.

    `deadline_s` is the time in seconds that the cloud has for each answer. Raises ModelError and
    ConfigError.
    """
    reader = load_reader(model, threads)
    link, where = open_link(endpoint, Path(key_file) if key_file else None, emulation)
    return PeerAnswers(link, reader, where, wanted_model, deadline_s)
