# SPDX-License-Identifier: Apache-2.0
"""Stops that wait for no call of an agent."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from outrider.console.agents.address import ConsoleAddress
from outrider.core.errors import LinkError

ENGAGED = "the emergency stop is engaged"
Outcome = Future[str]
"""What is told of a stop, once that is known: ENGAGED, or that it could not be, and why."""


class Stopper:
    """Stops in a thread of its own, so that none waits for calls. Any number that come at once are one."""

    def __init__(self, address: ConsoleAddress) -> None:
        self._address = address
        self._lock, self._news = threading.Lock(), threading.Event()
        self._asked: Outcome | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="stop", daemon=True)
        self._thread.start()

    def ask(self) -> Outcome:
        """Engage the emergency stop, soon."""
        with self._lock:
            if self._asked is None:
                self._asked = Future()
                self._asked.set_running_or_notify_cancel()  # who does not wait any more cancels it for nobody
            asked = self._asked
        self._news.set()
        return asked

    def close(self) -> None:
        """Blocks until a stop is done that came with the last of the input."""
        self._closed = True
        self._news.set()
        self._thread.join()

    def _run(self) -> None:
        while self._asked or not self._closed:
            self._news.wait()
            self._news.clear()
            with self._lock:
                asked, self._asked = self._asked, None
            if asked is not None:
                asked.set_result(self._engage())

    def _engage(self) -> str:
        try:
            self._address.e_stop()
        except LinkError as error:
            return str(error)
        return ENGAGED
