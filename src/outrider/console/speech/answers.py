# SPDX-License-Identifier: Apache-2.0
"""Answers aloud: a page asks for one that it received, and gets its sound, made on this machine.

Lives on one event loop; the engine is called in a separate thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from outrider.console.speech import messages as s
from outrider.console.speech.recognition import Speaker
from outrider.core.errors import OutriderError
from outrider.core.hearing import TtsEngine

NO_ENGINE = "this console speaks no answers"
BROKEN = "the answer cannot be spoken ({}: {})"

_Viewer = TypeVar("_Viewer", bound=Speaker)


class SpokenAnswers(Generic[_Viewer]):
    """Synthesizes one text at a time; only the newest text of each viewer waits.

    `send` is called with a text's sound, or with the reason why it has none.
    """

    def __init__(self, engine: TtsEngine | None, send: Callable[[_Viewer, s.Spoken], None]) -> None:
        self._engine, self._send = engine, send
        self._worker = ThreadPoolExecutor(1, "answers")
        self._waiting: dict[_Viewer, s.Speak] = {}
        self._task: asyncio.Task[None] | None = None

    def receive(self, viewer: _Viewer, request: s.Speak) -> None:
        """Has a text spoken to a person's page; agents get no sound."""
        if viewer.is_agent:
            return
        if self._engine is None:
            self._send(viewer, s.Spoken(note=NO_ENGINE))
            return
        self._waiting[viewer] = request
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._speak_all(self._engine))

    def remove_viewer(self, viewer: _Viewer) -> None:
        """Discard the waiting text of a viewer that has gone."""
        self._waiting.pop(viewer, None)

    def close(self) -> None:
        """Stop speaking, and discard waiting texts."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def _speak_all(self, engine: TtsEngine) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            viewer = next(iter(self._waiting))
            request = self._waiting.pop(viewer)
            try:
                sound = await loop.run_in_executor(self._worker, engine.speak, request.text, request.language)
                self._send(viewer, s.Spoken(sound))
            except OutriderError as error:
                self._send(viewer, s.Spoken(note=str(error)))
            except Exception as error:  # of a third-party engine
                self._send(viewer, s.Spoken(note=BROKEN.format(type(error).__name__, error)))
