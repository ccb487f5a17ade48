# SPDX-License-Identifier: Apache-2.0
"""Engages emergency stops without waiting for agents' calls."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from outrider.console.agents.address import ConsoleAddress
from outrider.core.errors import LinkError

ENGAGED = "the emergency stop is engaged"
Outcome = Future[str]
"""The result of a stop: ENGAGED, or why it could not be engaged."""


class Stopper:
    """Engages stops in its own thread, so that none waits for calls. Concurrent requests share one stop."""

    def __init__(self, address: ConsoleAddress) -> None:
        self._address = address
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._pending: Outcome | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="stop", daemon=True)
        self._thread.start()

    def ask(self) -> Outcome:
        """Request the emergency stop; return its outcome as a future."""
        with self._lock:
            if self._pending is None:
                self._pending = Future()
                self._pending.set_running_or_notify_cancel()  # no waiting caller can cancel it
            outcome = self._pending
        self._wake.set()
        return outcome

    def close(self) -> None:
        """End the thread. Blocks until a stop that was requested last is done."""
        self._closed = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while self._pending or not self._closed:
            self._wake.wait()
            self._wake.clear()
            with self._lock:
                outcome, self._pending = self._pending, None
            if outcome is not None:
                outcome.set_result(self._engage())

    def _engage(self) -> str:
        try:
            self._address.e_stop()
        except LinkError as error:
            return str(error)
        return ENGAGED
