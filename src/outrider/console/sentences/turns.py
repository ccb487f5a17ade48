# SPDX-License-Identifier: Apache-2.0
"""Keeps the messages of each page in order, though sentences are read outside the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from outrider.console.sentences.reading import SentenceReader, is_plain_stop
from outrider.core.language.sentences.stops import begins_to_stand, begins_with_a_stop

MAX_SENTENCES = 4
"""Sentences of one page that may be read or wait at once."""
IN_DOUBT = "in doubt the robot stands"
TOO_MANY = f"{MAX_SENTENCES} sentences of this page are still being read: wait; {IN_DOUBT}"
TOO_LONG = "this could not be read within {:g} s: say it in other words; " + IN_DOUBT
STOPPED = "a stop came before this had been read: say it again"


class _Speaker(Hashable, Protocol):
    @property
    def is_agent(self) -> bool: ...


_Viewer = TypeVar("_Viewer", bound=_Speaker)


def _nothing() -> None:
    """Do nothing, in place of the action of a page that has gone."""


@dataclass(eq=False)
class _Turn:
    """One action of a page, in its turn.

    `read` gives whether the sentence may be followed; None if the action is no sentence. `if_gone` is done
    in place of `act` if the page has gone meanwhile.
    """

    act: Callable[[], object]
    read: asyncio.Task[bool] | None = None
    if_gone: Callable[[], object] = _nothing
    is_void: bool = False


class Turns(Generic[_Viewer]):
    """Runs the actions of each page in order. Lives on one event loop.

    `on_stop` is called for a sentence that orders a stop as soon as it has been read, `on_command` for any
    other in its turn. `warn` is called with the reason why a sentence is not followed, such as a timeout of
    `read_s`.

    A sentence that begins with a stop and is not begun, because `on_command` returns False or its page has
    gone, is still a stop. So is a person's "wait"; an agent's "wait" lets persons continue. If a stop
    leaves the rest of its sentence undone, `warn` says so.
    """

    def __init__(
        self,
        on_stop: Callable[[_Viewer], None],
        on_command: Callable[[_Viewer, str], bool],
        warn: Callable[[_Viewer, str], None],
        read_s: float,
    ) -> None:
        self._on_stop, self._on_command, self._warn = on_stop, on_command, warn
        self._reader, self._read_s = SentenceReader(read_s), read_s
        self._turns: dict[_Viewer, deque[_Turn]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def say(self, viewer: _Viewer, sentence: str) -> None:
        """Takes a sentence of a page. A sentence beyond MAX_SENTENCES is not read, and counts as a stop."""
        if is_plain_stop(sentence):
            self._on_stop(viewer)
        elif sum(turn.read is not None for turn in self._turns.get(viewer, ())) >= MAX_SENTENCES:
            self._warn(viewer, TOO_MANY)
            self._on_stop(viewer)
        else:
            read = asyncio.get_running_loop().create_task(self._may_follow(viewer, sentence))
            leading_stop = partial(self._apply_leading_stop, viewer, sentence)
            self._add(viewer, _Turn(partial(self._follow, viewer, sentence), read, leading_stop))

    def follow(self, viewer: _Viewer, act: Callable[[], object]) -> None:
        """Runs `act` once all earlier actions of the page have run."""
        if viewer in self._turns:
            self._add(viewer, _Turn(act))
        else:
            act()

    def stop(self) -> None:
        """Voids the sentences said before a stop, and warns their pages."""
        for viewer, turns in self._turns.items():
            for turn in turns:
                if turn.read is not None and not turn.is_void and turn.read is not asyncio.current_task():
                    turn.is_void = True
                    self._warn(viewer, STOPPED)

    def remove_viewer(self, viewer: _Viewer) -> None:
        """Handles a page that has gone: of what it has said, only stops still count."""
        for turn in self._turns.get(viewer, ()):
            turn.act = turn.if_gone

    def close(self) -> None:
        """Stops reading sentences."""
        for task in self._tasks:
            task.cancel()
        self._reader.close()

    def _add(self, viewer: _Viewer, turn: _Turn) -> None:
        if viewer in self._turns:
            self._turns[viewer].append(turn)
            return
        self._turns[viewer] = deque([turn])
        task = asyncio.get_running_loop().create_task(self._act_all(viewer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _act_all(self, viewer: _Viewer) -> None:
        turns = self._turns[viewer]
        try:
            while turns:
                await self._act(viewer, turns[0])
                turns.popleft()
        finally:
            del self._turns[viewer]

    async def _act(self, viewer: _Viewer, turn: _Turn) -> None:
        if turn.read is not None and not await turn.read:
            return
        if not turn.is_void:
            turn.act()

    def _follow(self, viewer: _Viewer, sentence: str) -> None:
        if not self._on_command(viewer, sentence):
            self._apply_leading_stop(viewer, sentence)

    def _apply_leading_stop(self, viewer: _Viewer, sentence: str) -> None:
        begins = begins_with_a_stop if viewer.is_agent else begins_to_stand
        if begins(sentence):
            self._on_stop(viewer)

    async def _may_follow(self, viewer: _Viewer, sentence: str) -> bool:
        """Whether a sentence orders no stop; if it orders one, stops now."""
        try:
            if not await self._reader.says_to_stop(sentence):
                return True
            self._on_stop(viewer)
            if if_gone := await self._reader.left_by_a_stop(sentence):
                self._warn(viewer, if_gone)
        except TimeoutError:
            self._warn(viewer, TOO_LONG.format(self._read_s))
            self._on_stop(viewer)
        return False
