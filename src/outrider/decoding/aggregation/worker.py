# SPDX-License-Identifier: Apache-2.0
"""A side's model over its documents: one cached sequence per document, weighted by relevance (eq. 2)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass

import torch

from outrider.core.errors import ConfigError
from outrider.core.frames import LOG_WEIGHT_UNIT
from outrider.core.ports import Array, LanguageModel
from outrider.core.values import Prompt
from outrider.decoding.acceptance.sampling import probabilities
from outrider.decoding.aggregation.rule import document_weights, log_sum_exp
from outrider.decoding.execution.cached_sequence import CachedSequence
from outrider.decoding.protocol.sampling_rules import Sampling

_MAX_LOG_WEIGHT = 30_000.0


@dataclass(frozen=True)
class Context:
    """The question with one document before it, and that document's relevance (a log weight)."""

    prompt: Prompt
    log_relevance: float = 0.0


Retrieve = Callable[[Prompt], Sequence[Context]]
"""Returns a side's contexts for a question, at least one. Each side has its own, over its own documents."""


def plain_context(question: Prompt) -> tuple[Context, ...]:
    """Return the question as the only context, without documents."""
    return (Context(question),)


def log_weight(contexts: Sequence[Context]) -> int:
    """Return a side's relevance for the wire, in LOG_WEIGHT_UNIT."""
    weight = log_sum_exp([context.log_relevance for context in contexts])
    if not -_MAX_LOG_WEIGHT <= weight <= _MAX_LOG_WEIGHT:
        raise ConfigError(f"the documents' log relevance {weight} must lie within {_MAX_LOG_WEIGHT:g} of 0")
    return round(weight / LOG_WEIGHT_UNIT)


class DocumentWorker:
    """Runs one model for any number of texts, each identified by a key."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._texts: dict[Hashable, list[tuple[CachedSequence, float]]] = {}

    def prefill(self, key: Hashable, contexts: Sequence[Context], max_new_tokens: int) -> None:
        """Cache a text's contexts. Raises FrameError or ConfigError if they cannot be used."""
        weights = document_weights([context.log_relevance for context in contexts])
        sequences = [CachedSequence(self._model) for _ in contexts]
        for sequence, context in zip(sequences, contexts, strict=True):
            sequence.prefill(context.prompt, max_new_tokens)
        self._texts[key] = list(zip(sequences, weights, strict=True))

    def distribution(self, key: Hashable, prefix: tuple[int, ...], sampling: Sampling) -> Array:
        """Return float64 (V,): the distribution after the prefix,
        averaged over the text's documents by weight.
        """
        rows = [
            weight * probabilities(sequence.logits(prefix, 0)[0], sampling).cpu()
            for sequence, weight in self._texts[key]
        ]
        return torch.stack(rows).sum(0)

    def keep_only(self, keys: Collection[Hashable]) -> None:
        """Free the caches of all other texts."""
        for key in [key for key in self._texts if key not in keys]:
            del self._texts[key]
