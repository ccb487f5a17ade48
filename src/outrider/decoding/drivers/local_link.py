# SPDX-License-Identifier: Apache-2.0
"""Both machines in one process: a FrameLink whose other end is a VerifierService. Nothing crosses a wire."""

from __future__ import annotations

from collections import deque

from outrider.core.frames import CloudFrame, Draft, EdgeFrame, Peer
from outrider.core.ports import FrameLink
from outrider.core.values import LinkState
from outrider.decoding.drivers.verifier_service import VerifierService

_PEER = Peer("", b"local")


class LocalLink(FrameLink):
    """Runs the target in the caller's thread when the edge has sent a draft, or has nothing else to do.

    The edge drafts nothing while the target runs: a longer draft would only delay the verdict.
    """

    state = LinkState.LOCAL
    generation = 1

    def __init__(self, service: VerifierService) -> None:
        self._service = service
        self._inbox: deque[CloudFrame] = deque()
        self._has_draft = False

    def send(self, frame: EdgeFrame) -> int:
        self._has_draft = self._has_draft or isinstance(frame, Draft)
        self._inbox.extend(reply.frame for reply in self._service.receive(_PEER, frame))
        return 0

    def receive(self, timeout_s: float) -> tuple[CloudFrame, int] | None:
        """Return the next frame. With a timeout of 0, the edge has work of its own: the target runs only
        for a draft.
        """
        while (timeout_s > 0 or self._has_draft) and not self._inbox:
            self._has_draft = False
            if not self._service.step(lambda reply: self._inbox.append(reply.frame)):
                break
        return (self._inbox.popleft(), 0) if self._inbox else None

    def close(self) -> None:
        self._inbox.clear()
