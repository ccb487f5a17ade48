# SPDX-License-Identifier: Apache-2.0
"""Questions answered in one text with the cloud: each side's model reads documents of its own.

The robot's are masked (`language.questions`): what its model reads, drafts and tells holds no private word,
and the slots of the final text are filled in here (`decoding.aggregation`).
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
    """Questions answered in one text with a cloud that has documents of its own. For one thread."""

    def __init__(
        self,
        link: FrameLink,
        model: LanguageModel,
        where: str,
        wanted_model: str = "",
        deadline_s: float = ANSWER_DEADLINE_S,
    ) -> None:
        """`deadline_s`: seconds that the cloud has for each answer."""
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
        """`documents`: private ones with their relevance, the best first.

        Raises LinkError where the cloud does not do its part, Cancelled, and ConfigError for a question that
        the model has no room for.
        """
        slots = Slots(question)
        self._asked = question
        self._documents = [(slots.mask(text), relevance) for text, relevance in documents]
        request = DecodeRequest(Prompt(question_prompt(question), b""), ANSWER_TOKENS, self._deadline_s)
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
    emulation: Emulation | None = None,
    wanted_model: str = "",
    deadline_s: float = ANSWER_DEADLINE_S,
) -> PeerAnswers:
    """Load the answering model and prepare the link, which need not be up. The cloud has `deadline_s` seconds
    for each answer.

    Raises ModelError, ConfigError.
    """
    reader = load_reader(model, threads)
    link, where = open_link(endpoint, Path(key_file) if key_file else None, emulation)
    return PeerAnswers(link, reader, where, wanted_model, deadline_s)
