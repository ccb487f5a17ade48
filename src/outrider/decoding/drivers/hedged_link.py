# SPDX-License-Identifier: Apache-2.0
"""A FrameLink to two verifiers of one model, one link each. `edge.hedging` decides which one leads."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle

from outrider.core.frames import Close, CloudFrame, EdgeFrame
from outrider.core.ports import FrameLink
from outrider.core.values import LinkState
from outrider.decoding.edge.hedging import Directed, Hedge

_SLICE_S = 2e-3
"""How long to wait for one link before checking the next."""
_UP = (LinkState.CONNECTED, LinkState.LOCAL)


class HedgedLink(FrameLink):
    """`send`, `receive` and `close` are for one thread; `state` and `generation` are for any."""

    def __init__(self, links: Sequence[FrameLink], clock: Callable[[], float] = time.monotonic) -> None:
        """`links`: owned by this one; the first is preferred."""
        self._links = links
        self._clock = clock
        self._hedge = Hedge(len(links))
        self._inbox: deque[tuple[CloudFrame, int]] = deque()
        self._withheld_bytes = 0
        """Bytes of received frames that were not passed on."""
        self._round_robin = cycle(range(len(links)))

    @property
    def state(self) -> LinkState:
        states = [link.state for link in self._links]
        return next((state for state in states if state in _UP), states[0])

    @property
    def generation(self) -> int:
        return sum(link.generation for link in self._links)

    def send(self, frame: EdgeFrame) -> int:
        """Send drafts, and requests for what was missed, to the leading verifiers; other frames to all.

        Return the number of bytes sent in all.
        """
        if not isinstance(frame, Close):  # which ends the text: nothing of it is sent again
            self._watch()
        return self._send(self._hedge.send(frame, self._clock()))

    def receive(self, timeout_s: float) -> tuple[CloudFrame, int] | None:
        """Return the next frame with something new, and the bytes received for it."""
        deadline_s = self._clock() + timeout_s
        while not self._inbox:
            self._watch()
            for number in range(len(self._links)):
                self._receive_from(number, 0.0)
            remaining_s = deadline_s - self._clock()
            if self._inbox or remaining_s <= 0.0:
                break
            self._receive_from(next(self._round_robin), min(remaining_s, _SLICE_S))
        return self._inbox.popleft() if self._inbox else None

    def close(self) -> None:
        for link in self._links:
            link.close()

    def _watch(self) -> None:
        up = [link.state in _UP for link in self._links]
        generations = [link.generation for link in self._links]
        self._send(self._hedge.watch(up, generations, self._clock()))

    def _receive_from(self, number: int, timeout_s: float) -> None:
        received = self._links[number].receive(timeout_s)
        if received is None:
            return
        frame, num_bytes = received
        forward, send = self._hedge.receive(number, frame, self._clock())
        self._send(send)
        self._withheld_bytes += num_bytes
        if forward is not None:
            self._inbox.append((forward, self._withheld_bytes))
            self._withheld_bytes = 0

    def _send(self, frames: Iterable[Directed]) -> int:
        return sum(self._links[number].send(frame) for number, frame in frames)
