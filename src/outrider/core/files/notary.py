# SPDX-License-Identifier: Apache-2.0
"""Writes a journal in a thread of its own: who notes something waits neither for a disk nor for a lock."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from outrider.core.errors import ConfigError
from outrider.core.files.journal import MOST_AT_ONCE, Journal, Note
from outrider.core.files.journal_files import CLOSED, LOST, OPENED

MOST_WAITING = 1000
CLOSE_S = 5.0
_log = logging.getLogger(__name__)


class Notary:
    """Notes from construction until `close`. `name` is the part of the robot that writes.

    `fault` says why nothing can be written; empty where all is well.
    """

    def __init__(self, journal: Journal, name: str, brief: Callable[[str], str]) -> None:
        """`brief` makes a sentence short for the journal; what it is about memory must not be in it."""
        self._journal, self._name, self._brief = journal, name, brief
        self.fault = self._logged = ""
        self._num_lost = 0
        self._waiting: queue.Queue[tuple[str, str, str, str] | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._run, name="notary", daemon=True)
        self.note(name, OPENED)
        self._thread.start()

    def note(self, who: str, did: str, what: str = "", said: str = "") -> None:
        """Have a line written; `said` is a sentence, of which the brief form is put before `what`."""
        try:
            self._waiting.put_nowait((who, did, what, said))
        except queue.Full:
            self._num_lost += 1
            self.fault = "more is to be noted than can be written"

    def close(self) -> None:
        """Write what waits, and a closing line."""
        self.note(self._name, CLOSED)
        self._waiting.put(None)
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        """What waits is written together, as each time has to reach the disk."""
        is_closing = False
        while not is_closing:
            waiting = [self._waiting.get()]
            while len(waiting) < MOST_AT_ONCE and not self._waiting.empty():
                waiting.append(self._waiting.get_nowait())
            is_closing = None in waiting
            self._write([self._short(*noted) for noted in waiting if noted is not None])

    def _short(self, who: str, did: str, what: str, said: str) -> Note:
        return who, did, "; ".join(filter(None, (self._brief(said) if said else "", what)))

    def _write(self, notes: list[Note]) -> None:
        try:
            if self._num_lost:
                lost, self._num_lost = self._num_lost, 0
                notes = [(self._name, LOST, f"{lost} lines"), *notes]
            self._journal.write_all(notes)
            self.fault = self._logged = ""
        except ConfigError as error:
            if str(error) != self._logged:
                self._logged = str(error)
                _log.error("the journal is not written: %s", error)
            self.fault = str(error)
