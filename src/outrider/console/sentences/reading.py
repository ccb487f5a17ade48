# SPDX-License-Identifier: Apache-2.0
"""Reads sentences in a thread, outside the event loop: an odd one takes long, and no stop waits for it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from concurrent.futures import ThreadPoolExecutor

from outrider.core.language.sentences.stops import left_by_a_stop, read_phrases, says_to_stop
from outrider.core.language.words.phrasebook import stop_words

READ_S = 2.0
"""The timeout of a sentence's reading, in seconds."""
_SIGNS = ".,!?¡¿"


def is_plain_stop(sentence: str) -> bool:
    """Whether a sentence has only stop words, which is known at once, without reading it."""
    words = [word.strip(_SIGNS) for word in sentence.casefold().split()]
    return bool(words) and stop_words().issuperset(words)


class SentenceReader:
    """Reads in one thread, shortest waiting sentence first, with a timeout `read_s`. For one event loop."""

    def __init__(self, read_s: float) -> None:
        self._read_s = read_s
        self._worker = ThreadPoolExecutor(1, "sentences")
        self._numbers = itertools.count()
        self._waiting: list[tuple[int, int, str, asyncio.Future[bool]]] = []
        self._task: asyncio.Task[None] | None = None
        read_phrases()

    async def says_to_stop(self, sentence: str) -> bool:
        """Whether a sentence orders a stop. Raises TimeoutError if that is not known within `read_s`."""
        loop = asyncio.get_running_loop()
        read: asyncio.Future[bool] = loop.create_future()
        heapq.heappush(self._waiting, (len(sentence), next(self._numbers), sentence, read))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._read_all())
        try:
            return await asyncio.wait_for(read, self._read_s)
        except asyncio.TimeoutError:
            raise TimeoutError("the sentence takes too long to read") from None

    async def left_by_a_stop(self, sentence: str) -> str:
        """Return what to report about the rest of a sentence that orders a stop; empty for no rest."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, left_by_a_stop, sentence)

    def close(self) -> None:
        """Stop reading sentences."""
        if self._task is not None:
            self._task.cancel()
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def _read_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            _, _, sentence, read = heapq.heappop(self._waiting)
            if not read.done():
                is_stop = await loop.run_in_executor(self._worker, says_to_stop, sentence)
                if not read.done():
                    read.set_result(is_stop)
