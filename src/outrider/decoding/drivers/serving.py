# SPDX-License-Identifier: Apache-2.0
"""The serving loop of a service that answers frames by running a model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from outrider.core.frames import EdgeFrame, Peer
from outrider.core.ports import FrameServer
from outrider.decoding.cloud.machine import Reply

_IDLE_WAIT_S = 0.1


class FrameService(Protocol):
    """A service that answers frames by running a model: a verifier, or a peer with its own documents."""

    def receive(self, peer: Peer, frame: EdgeFrame) -> list[Reply]:
        """Handle a peer's frame. Return the replies that can be given at once."""

    def step(self, send: Callable[[Reply], None]) -> bool:
        """Run the next batch. Return False if there is none."""

    def max_wait_s(self) -> float | None:
        """Return how long to wait at most before the next `step`; None: until a frame arrives."""

    def evict_idle(self) -> None:
        """Close the sessions that were idle for too long."""


@runtime_checkable
class PollingService(Protocol):
    """A FrameService that handles new frames during a step."""

    def set_poll(self, poll: Callable[[], None]) -> None:
        """Call `poll` during steps from now on: it hands new frames to `receive`."""


def serve_frames(service: FrameService, server: FrameServer, stop: threading.Event) -> None:
    """Serve until `stop` is set: receive frames, run one batch, repeat. Frames that arrive while a batch of
    one job runs are received at its early exits.
    """

    def send(reply: Reply) -> None:
        server.send(reply.peer, reply.frame)

    def poll(wait_s: float = 0.0) -> None:
        for peer, frame in server.receive(wait_s):
            send_all(send, service.receive(peer, frame))

    if isinstance(service, PollingService):
        service.set_poll(poll)
    wait_s = 0.0
    while not stop.is_set():
        poll(wait_s)
        if service.step(send):
            wait_s = 0.0
        else:
            service.evict_idle()
            max_wait_s = service.max_wait_s()
            wait_s = _IDLE_WAIT_S if max_wait_s is None else min(_IDLE_WAIT_S, max_wait_s)


def send_all(send: Callable[[Reply], None], replies: list[Reply]) -> None:
    """Send the replies one by one."""
    for reply in replies:
        send(reply)
