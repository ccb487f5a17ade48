# SPDX-License-Identifier: Apache-2.0
"""Reads what agents say in a thread, one sentence after another, so that no stop waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from outrider.console.messages import MAX_COMMAND_CHARACTERS
from outrider.console.said.reading import is_plain_stop
from outrider.core.errors import BusyError
from outrider.core.language.sentences.stops import left_by_a_stop, says_to_stop

MOST_WAITING, MOST_READ = 10, 2 * MAX_COMMAND_CHARACTERS
_Read = TypeVar("_Read")
_worker = ThreadPoolExecutor(1, "sentences")
"""One for all agents: two that read at once would take turns all the same, and delay the stops of both."""


class Reader:
    """Reads the sentences of one agent in order; each agent has its turn among all."""

    def __init__(self) -> None:
        self._turn, self._num_waiting = asyncio.Lock(), 0

    async def read(self, work: Callable[[], _Read]) -> _Read:
        """What `work` gives, in the thread. Raises BusyError where many of the agent's wait for it."""
        if self._num_waiting >= MOST_WAITING:
            raise BusyError(
                f"{self._num_waiting} sentences wait to be read: wait; stop and cancel are always taken"
            )
        self._num_waiting += 1
        try:
            async with self._turn:
                return await asyncio.get_running_loop().run_in_executor(_worker, work)
        finally:
            self._num_waiting -= 1

    async def says_to_stop(self, said: Iterable[str]) -> bool:
        """Whether a text does, as far as one message is read. Raises BusyError where that is not known."""
        parts = parts_of(said)
        return any(map(is_plain_stop, parts)) or await self.read(lambda: any(map(says_to_stop, parts)))

    async def left_by_a_stop(self, sentence: str) -> str:
        """What is to be told of the rest of a sentence that orders a stop; empty where that is not known."""
        with suppress(BusyError):
            return "" if is_plain_stop(sentence) else await self.read(lambda: left_by_a_stop(sentence))
        return ""


def parts_of(said: Iterable[str]) -> list[str]:
    """What is read of a message: the shortest texts first, until there are MOST_READ characters; of each as
    much of its begin and its end as a command may have.
    """
    parts: list[str] = []
    for text in sorted(said, key=len):
        if sum(map(len, parts)) >= MOST_READ:
            break
        parts += dict.fromkeys((text[:MAX_COMMAND_CHARACTERS], text[-MAX_COMMAND_CHARACTERS:]))
    return parts
