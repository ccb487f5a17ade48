# SPDX-License-Identifier: Apache-2.0
"""Push to talk: a viewer's microphone to a speech engine, and the sentence back to that viewer alone.

Lives on one event loop; the engine is called in one thread beside it. What was heard moves nothing: the page
shows it, and a person sends it. Only a stop acts at once; the sentence is heard to its end all the same, for
nobody may have said that stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from outrider.console.spoken import messages as s
from outrider.core.errors import OutriderError
from outrider.core.hearing import BYTES_A_SECOND, AsrEngine
from outrider.core.language.sentences.stops import says_to_stop

LONGEST_S = 15.0
"""What is said for longer is cut off here: of sound, and of time since a speaker began."""
SILENCE_S = 2.0
"""A microphone that sends nothing for this long has died."""
NO_ENGINE = "nobody listens here: start the console with --speech moonshine (extra voice)"
NO_WORDS = "no words were heard: hold the button while you speak"
TOO_LONG = f"at most {LONGEST_S:g} s are heard at once: say less"
TAKEN = "somebody else speaks to the robot: try again"
DIED = "the microphone has fallen silent: what it sent was dropped"
STOPPED = "stopped"
STOPPED_BEFORE = "stopped, as a stop was heard; the whole sentence was heard like this"

T = TypeVar("T")


class Speaker(Protocol):
    """Who speaks: a person, or an agent."""

    is_agent: bool


_Viewer = TypeVar("_Viewer", bound=Speaker)


class Ear(Generic[_Viewer]):
    """One utterance at a time, of whichever person began first.

    `on_stop` is called for a stop heard, `tell` with what else was heard, of at most `longest` characters, or
    with why nothing was.
    """

    def __init__(
        self,
        engine: AsrEngine | None,
        on_stop: Callable[[_Viewer], None],
        tell: Callable[[_Viewer, s.Heard], None],
        longest: int,
    ) -> None:
        self._engine, self._on_stop, self._tell, self._longest = engine, on_stop, tell, longest
        self._worker = ThreadPoolExecutor(1, "ear")
        self._speaker: _Viewer | None = None
        self._wake = asyncio.Event()
        self._pending = bytearray()
        self._received, self._ended, self._is_cut = 0, False, False
        self._until_s = 0.0
        self._limit: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def receive(self, viewer: _Viewer, message: s.Speech) -> None:
        """Act on a message about speech; an agent has no microphone."""
        if viewer.is_agent:
            return
        if isinstance(message, s.Listen):
            self._begin(viewer)
        elif viewer is self._speaker:
            self._take(message)

    def part(self, viewer: _Viewer) -> None:
        """A viewer has gone: what it said is dropped."""
        if viewer is self._speaker:
            self._drop()

    def close(self) -> None:
        """Hear no further."""
        self._drop()
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _begin(self, viewer: _Viewer) -> None:
        if self._engine is None:
            self._tell(viewer, s.Heard(note=NO_ENGINE))
        elif self._speaker not in (None, viewer):
            self._tell(viewer, s.Heard(note=TAKEN))
        else:
            loop = asyncio.get_running_loop()
            if self._speaker is None:  # who begins again meanwhile has no more time for it
                self._until_s = loop.time() + LONGEST_S
            self._drop()
            self._speaker, self._received, self._ended, self._is_cut = viewer, 0, False, False
            self._pending, self._wake = bytearray(), asyncio.Event()
            self._limit = loop.call_at(self._until_s, self._cut)
            self._task = loop.create_task(self._hear(viewer, self._engine))

    def _take(self, message: s.Speech) -> None:
        """What comes after the end belongs to no utterance."""
        if self._ended:
            return
        if isinstance(message, s.Samples):
            self._received += len(message.samples)
            self._pending += message.samples
        if self._received >= LONGEST_S * BYTES_A_SECOND:
            self._cut()
        self._ended |= isinstance(message, s.Listened)
        self._wake.set()

    def _cut(self) -> None:
        """The speaker has had all the sound or time there is."""
        if not self._ended:
            self._ended = self._is_cut = True
            self._wake.set()

    def _drop(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
        task, self._task, self._speaker = self._task, None, None
        if task is not None:
            task.cancel()

    async def _hear(self, viewer: _Viewer, engine: AsrEngine) -> None:
        """The whole of one utterance, and what the viewer is told of it."""
        sentence, note = "", ""
        try:
            sentence, note = await self._sentence(viewer, engine)
        except OutriderError as error:
            note = str(error)
        except TimeoutError:
            note = DIED
        finally:
            if self._task is asyncio.current_task():
                self._task = None
                self._drop()
        self._tell(viewer, s.Heard(sentence[: self._longest], note))

    async def _sentence(self, viewer: _Viewer, engine: AsrEngine) -> tuple[str, str]:
        utterance = await self._call(engine.listen)
        has_stopped = False
        while not (self._ended and not self._pending):
            try:
                await asyncio.wait_for(self._wake.wait(), SILENCE_S)
            except asyncio.TimeoutError:
                raise TimeoutError from None
            self._wake.clear()
            piece, self._pending = bytes(self._pending), bytearray()
            spotted = bool(piece) and await self._call(utterance.feed, piece)
            if spotted:
                has_stopped = True
                self._on_stop(viewer)
                self._tell(viewer, s.Heard("stop", STOPPED, is_whole=False))
        sentence = await self._call(utterance.end)
        is_stop = await self._call(says_to_stop, sentence)
        if not has_stopped and is_stop:
            has_stopped = True
            self._on_stop(viewer)
        return self._judged(sentence, is_stop, has_stopped)

    def _judged(self, sentence: str, is_stop: bool, has_stopped: bool) -> tuple[str, str]:
        """The sentence, and what is to be said of it. One that orders the stop that was heard is done."""
        if has_stopped and (is_stop or not sentence):
            return "stop", STOPPED
        if self._is_cut:
            return sentence, TOO_LONG
        return sentence, STOPPED_BEFORE if has_stopped else "" if sentence else NO_WORDS

    async def _call(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, function, *args)
