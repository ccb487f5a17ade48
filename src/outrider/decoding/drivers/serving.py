# SPDX-License-Identifier: Apache-2.0
"""The loop of whatever answers frames by running a model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from outrider.core.frames import EdgeFrame, Peer
from outrider.core.ports import FrameServer
from outrider.decoding.cloud.machine import Reply

_IDLE_WAIT_S = 0.1


class FrameService(Protocol):
    """What answers frames by running a model: a verifier, or a peer with documents of its own."""

    def receive(self, peer: Peer, frame: EdgeFrame) -> list[Reply]:
        """Takes a frame of a peer; returns what can be answered at once."""

    def step(self, send: Callable[[Reply], None]) -> bool:
        """Do what is next; False where there is nothing."""

    def next_look_s(self) -> float | None:
        """How long to wait at most before the next `step`; None: until a frame comes."""

    def evict_idle(self) -> None:
        """Closes the sessions that were idle for too long."""


@runtime_checkable
class Listener(Protocol):
    """A FrameService whose steps profit in their midst from what has arrived meanwhile."""

    def listen(self, take_in: Callable[[], None]) -> None:
        """From now on `take_in` is called there: it hands such frames to `receive`."""


def serve_frames(service: FrameService, server: FrameServer, stop: threading.Event) -> None:
    """Serve until `stop` is set: take what has arrived, run one batch, repeat. What arrives while a batch of
    one runs is taken when an exit speaks.
    """

    def send(reply: Reply) -> None:
        server.send(reply.peer, reply.frame)

    def take_in(wait_s: float = 0.0) -> None:
        for peer, frame in server.receive(wait_s):
            send_all(send, service.receive(peer, frame))

    if isinstance(service, Listener):
        service.listen(take_in)
    wait_s = 0.0
    while not stop.is_set():
        take_in(wait_s)
        if service.step(send):
            wait_s = 0.0
        else:
            service.evict_idle()
            look_s = service.next_look_s()
            wait_s = _IDLE_WAIT_S if look_s is None else min(_IDLE_WAIT_S, look_s)


def send_all(send: Callable[[Reply], None], replies: list[Reply]) -> None:
    """Send one after the other."""
    for reply in replies:
        send(reply)
