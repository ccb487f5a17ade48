"""For models that gain nothing from batches or parts: sessions one after the other, prompts in one go."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from outrider.core.ports import Array, Chunk
from outrider.core.values import Prompt


class UnbatchedModel:
    """The batching half of a LanguageModel."""

    shares_prompts = False

    def forward_together(self, chunks: Sequence[Chunk]) -> list[Array]:
        return [chunk.session.forward(chunk.token_ids, chunk.on_exit) for chunk in chunks]


class WholePrefill:
    """A ModelSession whose prefill is one part."""

    def prefill(self, prompt: Prompt) -> Array:
        raise NotImplementedError

    def prefill_parts(self, prompt: Prompt) -> Generator[None, None, Array]:
        return self.prefill(prompt)
        yield
