# SPDX-License-Identifier: Apache-2.0
"""Writes a journal in its own thread, so that callers wait neither for a disk nor for a lock."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from outrider.core.errors import ConfigError
from outrider.core.files.journal import MAX_AT_ONCE, Journal, Note, NotNamedError
from outrider.core.files.journal_files import CLOSED, LOST, OPENED

MAX_WAITING = 1000
CLOSE_S, SLOW_S = 5.0, 2.0
TOO_MUCH = "more is to be noted than can be written"
HELD_UP = "the disk, or another process that writes to it, holds it up"
_log = logging.getLogger(__name__)


class Notary:
    """Writes notes from construction until `close`. `name` is the part of the robot that writes."""

    def __init__(
        self,
        journal: Journal,
        name: str,
        brief: Callable[[str], str],
        slow_s: float = SLOW_S,
        close_s: float = CLOSE_S,
    ) -> None:
        """`brief` shortens a sentence for the journal; it must remove what belongs to memory.

        A write that takes longer than `slow_s` seconds is a fault; `close` blocks for at most `close_s`.
        """
        self._journal, self._name, self._brief = journal, name, brief
        self._slow_s, self._close_s = slow_s, close_s
        self._problem = self._logged = ""
        self._num_lost, self._counting = 0, threading.Lock()
        self._writing_s: float | None = None
        self._waiting: queue.Queue[tuple[str, str, str, str] | None] = queue.Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._run, name="notary", daemon=True)
        self.note(name, OPENED)
        self._thread.start()

    @property
    def fault(self) -> str:
        """Why nothing can be written; empty if all is well."""
        since_s = self._writing_s
        is_held_up = since_s is not None and time.monotonic() - since_s > self._slow_s
        return self._problem or HELD_UP * is_held_up

    def note(self, who: str, did: str, what: str = "", said: str = "") -> None:
        """Queue a line; if there is a sentence in `said`, its brief form comes before `what`."""
        try:
            self._waiting.put_nowait((who, did, what, said))
        except queue.Full:
            self._lose(1)
            self._problem = TOO_MUCH

    def close(self) -> None:
        """Write what is queued, and a closing line. Blocks for a limited time."""
        until_s = time.monotonic() + self._close_s
        self.note(self._name, CLOSED)
        with suppress(queue.Full):
            self._waiting.put(None, timeout=self._close_s)
        self._thread.join(max(0.0, until_s - time.monotonic()))

    def _run(self) -> None:
        """Write the queued notes together, because every write must reach the disk."""
        is_closing = False
        while not is_closing:
            waiting = [self._waiting.get()]
            while len(waiting) < MAX_AT_ONCE - 1 and not self._waiting.empty():
                waiting.append(self._waiting.get_nowait())
            is_closing = None in waiting
            self._writing_s = time.monotonic()
            self._write([self._short(*noted) for noted in waiting if noted is not None])
            self._writing_s = None

    def _short(self, who: str, did: str, what: str, said: str) -> Note:
        return who, did, "; ".join(filter(None, (self._brief(said) if said else "", what)))

    def _write(self, notes: list[Note]) -> None:
        """Write lines. Those that fail are counted, and the count is written with the next ones."""
        lost = self._num_lost
        lost_note = [(self._name, LOST, f"{lost} lines")] if lost else []
        try:
            self._journal.write_all([*lost_note, *notes])
        except NotNamedError as error:
            self._lose(-lost)
            self._fail(error)
        except ConfigError as error:
            self._lose(len(notes))
            self._fail(error)
        else:
            self._lose(-lost)
            self._problem = self._logged = ""

    def _lose(self, count: int) -> None:
        with self._counting:
            self._num_lost += count

    def _fail(self, error: ConfigError) -> None:
        self._problem = str(error)
        if self._problem != self._logged:
            self._logged = self._problem
            _log.error("the journal is not written: %s", error)
