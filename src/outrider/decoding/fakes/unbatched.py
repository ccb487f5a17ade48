# SPDX-License-Identifier: Apache-2.0
"""Base classes for models without batching: sessions run one after the other, prompts in one part."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

from outrider.core.ports import Array, Chunk, ExitReader, ModelSession, Pause
from outrider.core.values import Prompt, Successors


class UnbatchedModel:
    """The batching methods of a LanguageModel."""

    shares_prompts = False

    def forward_together(
        self, chunks: Sequence[Chunk], read: ExitReader | None = None, pause: Pause | None = None
    ) -> list[Array]:
        """Run the chunks one after the other, with a pause before each.

        An exit is read once all chunks have reached it.
        """
        lengths, rows = [chunk.session.length for chunk in chunks], []
        exit_rows: dict[int, list[tuple[int, Array]]] = {}
        try:
            for number, chunk in enumerate(chunks):
                if pause is not None:
                    pause()
                on_exit = (
                    None if read is None else partial(_collect_exit, read, exit_rows, number, len(chunks))
                )
                rows.append(chunk.session.forward(chunk.token_ids, on_exit))
        except BaseException:
            for chunk, length in zip(chunks[: len(rows)], lengths, strict=False):
                chunk.session.truncate(length)
            raise
        return rows


def _collect_exit(
    read: ExitReader,
    exit_rows: dict[int, list[tuple[int, Array]]],
    number: int,
    count: int,
    index: int,
    rows: Array,
) -> None:
    """Collect an exit's rows in `exit_rows`, and call `read` once they are there for all `count` chunks."""
    collected = exit_rows.setdefault(index, [])
    collected.append((number, rows))
    if len(collected) == count:
        reading = read(index, collected)
        if reading is not None:
            reading.observe(reading.chosen)


class ListSession(ModelSession):
    """A session whose cache is a list with one entry per token.

    Its prefill is one part, and `expected` is empty.
    """

    def __init__(self) -> None:
        self._cache: list[Any] = []

    @property
    def length(self) -> int:
        return len(self._cache)

    def prefill(self, prompt: Prompt) -> Array:
        raise NotImplementedError

    def prefill_parts(self, prompt: Prompt) -> Generator[None, None, Array]:
        return self.prefill(prompt)
        yield

    def expected(self, count: int) -> Successors:
        return Successors()

    def truncate(self, length: int) -> None:
        del self._cache[length:]
