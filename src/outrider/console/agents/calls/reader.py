# SPDX-License-Identifier: Apache-2.0
"""Reads agents' sentences in a thread, one after another, so that no stop waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from outrider.console.messages import MAX_COMMAND_CHARACTERS
from outrider.console.sentences.reading import is_plain_stop
from outrider.core.errors import BusyError
from outrider.core.language.sentences.stops import left_by_a_stop, says_to_stop

MAX_WAITING, MAX_READ = 10, 2 * MAX_COMMAND_CHARACTERS
_Result = TypeVar("_Result")
_worker = ThreadPoolExecutor(1, "sentences")
"""One thread for all agents: two would compete for the interpreter, and delay each other's stops."""


class Reader:
    """Reads the sentences of one agent in order; agents take turns."""

    def __init__(self) -> None:
        self._turn, self._num_waiting = asyncio.Lock(), 0

    async def read(self, work: Callable[[], _Result]) -> _Result:
        """Run `work` in the thread; return its result. Raises BusyError if too many reads already wait."""
        if self._num_waiting >= MAX_WAITING:
            raise BusyError(
                f"{self._num_waiting} sentences wait to be read: wait; stop and cancel are always taken"
            )
        self._num_waiting += 1
        try:
            async with self._turn:
                return await asyncio.get_running_loop().run_in_executor(_worker, work)
        finally:
            self._num_waiting -= 1

    async def says_to_stop(self, texts: Iterable[str]) -> bool:
        """Whether a text orders a stop, as far as a message is read. Raises BusyError if that is unknown."""
        parts = parts_of(texts)
        return any(map(is_plain_stop, parts)) or await self.read(lambda: any(map(says_to_stop, parts)))

    async def left_by_a_stop(self, sentence: str) -> str:
        """Return what to report about the rest of a sentence that orders a stop; empty if unknown."""
        with suppress(BusyError):
            return "" if is_plain_stop(sentence) else await self.read(lambda: left_by_a_stop(sentence))
        return ""


def parts_of(texts: Iterable[str]) -> list[str]:
    """Return the parts of a message that are read.

    The shortest texts come first, until MAX_READ characters are reached. Of each text, at most
    MAX_COMMAND_CHARACTERS are read from its start and as many from its end.
    """
    parts: list[str] = []
    for text in sorted(texts, key=len):
        if sum(map(len, parts)) >= MAX_READ:
            break
        parts += dict.fromkeys((text[:MAX_COMMAND_CHARACTERS], text[-MAX_COMMAND_CHARACTERS:]))
    return parts
