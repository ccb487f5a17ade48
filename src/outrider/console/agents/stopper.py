# SPDX-License-Identifier: Apache-2.0
"""Stops that wait for no call of an agent."""

from __future__ import annotations

import threading
from contextlib import suppress

from outrider.console.agents.address import ConsoleAddress
from outrider.core.errors import LinkError


class Stopper:
    """Stops in a thread of its own, so that none waits for calls. Any number that come at once are one."""

    def __init__(self, address: ConsoleAddress) -> None:
        self._address = address
        self._asked, self._closed, self._news = False, False, threading.Event()
        self._thread = threading.Thread(target=self._run, name="stop", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Engage the emergency stop, soon."""
        self._asked = True
        self._news.set()

    def close(self) -> None:
        """Blocks until a stop is done that came with the last of the input."""
        self._closed = True
        self._news.set()
        self._thread.join()

    def _run(self) -> None:
        while self._asked or not self._closed:
            self._news.wait()
            self._news.clear()
            if self._asked:
                self._asked = False
                with suppress(LinkError):
                    self._address.e_stop()
