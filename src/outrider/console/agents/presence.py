# SPDX-License-Identifier: Apache-2.0
"""Which agents over HTTP keep their places: HTTP itself does not tell that one has gone."""

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
    """Sessions, by whether a request of theirs is open: a call under way, or the stream of their answers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: dict[str, _Session] = {}

    def __contains__(self, session: str) -> bool:
        return session in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, session: str) -> None:
        """A session has been opened."""
        self._sessions.setdefault(session, _Session(0, self._clock()))

    def end(self, session: str) -> None:
        """A session has been closed."""
        self._sessions.pop(session, None)

    @contextmanager
    def open(self, session: str) -> Iterator[Callable[[], None]]:
        """A request is open, until the end or until what is given is called: its connection has broken."""
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
        """Whether a request of the session is open, or was a short while ago."""
        return self._gone_s(session) <= GONE_AFTER_S

    def longest_gone(self) -> str | None:
        """The session that has been gone for longest; None where all are there."""
        session = max(self._sessions, key=self._gone_s, default=None)
        return None if session is None or self.is_there(session) else session

    def _gone_s(self, session: str) -> float:
        known = self._sessions.get(session)
        if known is None:
            return float("inf")
        return 0.0 if known.num_open else self._clock() - known.seen_s
