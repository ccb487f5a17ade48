# SPDX-License-Identifier: Apache-2.0
"""Tracks which agents over HTTP are still there: HTTP does not report that a client has gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

GONE_AFTER_S = 10.0


@dataclass
class _Session:
    num_open: int
    seen_s: float


class Presence:
    """Sessions, and whether each has an open request: a running call, or the stream of its answers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: dict[str, _Session] = {}

    def __contains__(self, session: str) -> bool:
        return session in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, session: str) -> None:
        """Record that a session was opened."""
        self._sessions.setdefault(session, _Session(0, self._clock()))

    def end(self, session: str) -> None:
        """Record that a session was closed."""
        self._sessions.pop(session, None)

    @contextmanager
    def open(self, session: str) -> Iterator[Callable[[], None]]:
        """Count a request as open until the block ends, or until the yielded function is called."""
        known = self._sessions.get(session)
        if known is None:
            yield lambda: None
            return
        known.num_open += 1
        is_open = True

        def close() -> None:
            nonlocal is_open
            known.num_open, known.seen_s, is_open = known.num_open - is_open, self._clock(), False

        try:
            yield close
        finally:
            close()

    def is_there(self, session: str) -> bool:
        """Whether the session has an open request, or had one at most GONE_AFTER_S seconds ago."""
        return self._absent_s(session) <= GONE_AFTER_S

    def longest_absent(self) -> str | None:
        """Return the session that has been gone for longest; None if none is gone."""
        session = max(self._sessions, key=self._absent_s, default=None)
        return None if session is None or self.is_there(session) else session

    def _absent_s(self, session: str) -> float:
        known = self._sessions.get(session)
        if known is None:
            return float("inf")
        return 0.0 if known.num_open else self._clock() - known.seen_s
