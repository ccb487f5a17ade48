# SPDX-License-Identifier: Apache-2.0
"""Push to talk: a viewer's microphone goes to a speech engine, and the sentence back to that viewer.

Lives on one event loop; the engine is called in a separate thread. A recognised sentence moves nothing: the
page shows it, and a person sends it. Only a stop acts at once; the sentence is still recognised to its end,
because the stop may be misrecognised. An utterance is dropped if its speaker begins anew or goes, but a
stop in it still counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from outrider.console.speech import messages as s
from outrider.core.errors import OutriderError
from outrider.core.hearing import BYTES_A_SECOND, AsrEngine
from outrider.core.language.sentences.stops import begins_to_stand, left_by_a_stop, says_to_stop

MAX_UTTERANCE_S = 15.0
"""The longest utterance in seconds, both of sound and of time since its speaker began."""
SILENCE_S = 2.0
"""A microphone that sends nothing for this many seconds has failed."""
MAX_UNRECOGNISED = 4
"""Utterances that may be in recognition or wait for it; a further one counts as a stop."""
NO_ENGINE = "nobody listens here: start the console with --speech moonshine (extra voice)"
NOTHING_RECOGNISED = "no words were heard: hold the button while you speak"
TOO_LONG = "at most {:g} s are heard at once: say less"
BUSY = "somebody else speaks to the robot: try again"
DIED = "the microphone has fallen silent: what it sent was dropped"
TOO_MANY = "what was said before is still being recognised: wait; in doubt the robot stands"
BROKEN = "the speech engine failed ({}: {})"
STOPPED = "stopped"
STOPPED_BEFORE = "stopped, as a stop was heard; the whole sentence was heard like this"

T = TypeVar("T")


class Speaker(Protocol):
    """The speaker of an utterance: a person or an agent."""

    is_agent: bool


_Viewer = TypeVar("_Viewer", bound=Speaker)


@dataclass(eq=False)
class _Press(Generic[_Viewer]):
    """The utterance of one press of a viewer's button, and the loop time at which it is cut off."""

    viewer: _Viewer
    number: int
    until_s: float
    pending: bytearray = field(default_factory=bytearray)
    received: int = 0
    is_ended: bool = False
    is_cut: bool = False
    is_dropped: bool = False
    is_released: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, samples: bytes) -> None:
        """Add sound to the utterance."""
        self.received += len(samples)
        self.pending += samples
        self.wake.set()

    def end(self) -> None:
        """End the utterance; later sound belongs to none."""
        self.is_ended = True
        self.wake.set()

    def cut(self) -> None:
        """End the utterance at the limit of sound or time."""
        if not self.is_ended:
            self.is_cut = True
            self.end()


class SpeechRecognition(Generic[_Viewer]):
    """Recognises one utterance at a time, of the person who began first.

    `on_stop` is called for a recognised stop. `send` is called with the sentence, of at most `longest`
    characters, or with the reason why there is none. An utterance has at most `longest_s` seconds; a
    microphone that is silent for `silence_s` seconds has failed.
    """

    def __init__(
        self,
        engine: AsrEngine | None,
        on_stop: Callable[[_Viewer], None],
        send: Callable[[_Viewer, s.Heard], None],
        longest: int,
        longest_s: float,
        silence_s: float,
    ) -> None:
        self._engine, self._on_stop, self._send, self._longest = engine, on_stop, send, longest
        self._longest_s, self._silence_s = longest_s, silence_s
        self._worker = ThreadPoolExecutor(1, "ear")
        self._press: _Press[_Viewer] | None = None
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def receive(self, viewer: _Viewer, message: s.Speech) -> None:
        """Act on a message about speech; an agent has no microphone."""
        if viewer.is_agent:
            return
        if isinstance(message, s.Listen):
            self._begin(viewer, message.press)
        elif self._press is not None and viewer is self._press.viewer:
            self._take(self._press, message)

    def remove_viewer(self, viewer: _Viewer) -> None:
        """Handle a viewer that has gone: of what it said, only a stop still counts."""
        if self._press is not None and viewer is self._press.viewer:
            self._drop(self._press)

    def close(self) -> None:
        """Stop recognising speech."""
        for task in self._tasks:
            task.cancel()
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _begin(self, viewer: _Viewer, number: int) -> None:
        if self._engine is None:
            self._send(viewer, s.Heard(note=NO_ENGINE, press=number))
            return
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._longest_s
        if self._press is not None:
            if self._press.viewer is not viewer:
                self._send(viewer, s.Heard(note=BUSY, press=number))
                return
            if not self._press.is_released:
                until_s = self._press.until_s  # pressing again gives no more time
            self._drop(self._press)
        if len(self._tasks) >= MAX_UNRECOGNISED:
            self._on_stop(viewer)
            self._send(viewer, s.Heard(note=TOO_MANY, press=number))
            return
        self._press = _Press(viewer, number, until_s)
        task = loop.create_task(self._recognise(self._press, self._engine))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _take(self, press: _Press[_Viewer], message: s.Speech) -> None:
        press.is_released = press.is_released or not isinstance(message, s.Samples)
        if press.is_ended:
            return
        if isinstance(message, s.Samples):
            press.take(message.samples)
            if press.received >= self._longest_s * BYTES_A_SECOND:
                press.cut()
        else:
            press.end()

    def _drop(self, press: _Press[_Viewer]) -> None:
        self._press = None
        press.is_dropped = True
        press.end()

    async def _recognise(self, press: _Press[_Viewer], engine: AsrEngine) -> None:
        """Recognise one utterance, and send the result to its viewer."""
        sentence, note = "", ""
        limit = asyncio.get_running_loop().call_at(press.until_s, press.cut)
        try:
            async with self._turn:
                if press.received or not press.is_dropped:
                    sentence, note = await self._sentence(press, engine)
        except OutriderError as error:
            note = str(error)
        except Exception as error:  # of a third-party engine
            note = BROKEN.format(type(error).__name__, error)
        finally:
            limit.cancel()
            if self._press is press:
                self._press = None
        if not press.is_dropped:
            self._send(press.viewer, s.Heard(sentence[: self._longest], note, press=press.number))

    async def _sentence(self, press: _Press[_Viewer], engine: AsrEngine) -> tuple[str, str]:
        utterance = await self._call(engine.listen)
        has_stopped = has_died = False
        while press.pending or not (press.is_ended or has_died):
            try:
                await asyncio.wait_for(press.wake.wait(), self._silence_s)
            except asyncio.TimeoutError:
                has_died = True
            press.wake.clear()
            piece, press.pending = bytes(press.pending), bytearray()
            spotted = bool(piece) and await self._call(utterance.feed, piece)
            if spotted:
                has_stopped = True
                self._on_stop(press.viewer)
                if not press.is_dropped:
                    self._send(press.viewer, s.Heard("stop", STOPPED, is_whole=False, press=press.number))
        sentence = await self._call(utterance.end)
        is_stop = await self._call(says_to_stop, sentence)
        if not has_stopped and (is_stop or await self._call(begins_to_stand, sentence)):
            has_stopped = True
            self._on_stop(press.viewer)
        if has_died and not is_stop:
            return "", DIED
        rest = await self._call(left_by_a_stop, sentence) if is_stop else ""
        if has_stopped and (is_stop or not sentence):
            return "stop", f"{STOPPED}; {rest}" if rest else STOPPED
        return self._result_of(sentence, has_stopped, press.is_cut)

    def _result_of(self, sentence: str, has_stopped: bool, is_cut: bool) -> tuple[str, str]:
        """Return the sentence that remains to be sent, and a note on it."""
        if is_cut:
            return sentence, TOO_LONG.format(self._longest_s)
        return sentence, STOPPED_BEFORE if has_stopped else "" if sentence else NOTHING_RECOGNISED

    async def _call(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, function, *args)
