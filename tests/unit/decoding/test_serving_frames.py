"""The loop that serves frames, over a scripted server: when it reads the socket, and what a failure does."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from cloud_machine import ALICE, EAGER, PROMPT, ROOT, TRUSTING, draft, opening
from support.toys import own_text, request, toy_pair

from outrider.core.frames import CloudFrame, EdgeFrame, Peer, Verdict
from outrider.decoding.aggregation.service import AggregationService, JointService
from outrider.decoding.aggregation.worker import plain_context
from outrider.decoding.drivers.serving import FrameService, PollingService, serve_frames
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.protocol.prefix_digest import extend_digest

TARGET, _ = toy_pair(1, 1.0, eos_bias=-9.0)
TEXT = own_text(TARGET, request(PROMPT.text, 20))


class Script:
    """A FrameServer with a scripted result for each read of the socket. The last one stops the loop."""

    def __init__(self, reads: Sequence[EdgeFrame | Exception | None], stop: threading.Event) -> None:
        self._reads, self._stop = list(reads), stop
        self.sent: list[CloudFrame] = []

    def receive(self, timeout_s: float) -> list[tuple[Peer, EdgeFrame]]:
        read = self._reads.pop(0) if self._reads else None
        if isinstance(read, Exception):
            raise read
        if not self._reads:
            self._stop.set()
        return [] if read is None else [(ALICE, read)]

    def send(self, peer: Peer, frame: CloudFrame) -> None:
        self.sent.append(frame)

    def close(self) -> None: ...


def served(service: FrameService, *reads: EdgeFrame | Exception | None) -> Script:
    stop = threading.Event()
    server = Script(reads, stop)
    serve_frames(service, server, stop)
    return server


@pytest.fixture
def verifier(request) -> VerifierService:
    return VerifierService(TARGET, tuning=getattr(request, "param", TRUSTING))


@pytest.fixture(params=["verifier", "joint"])
def service(request, verifier) -> FrameService:
    return verifier if request.param == "verifier" else JointService(verifier, peers())


def peers() -> AggregationService:
    return AggregationService(TARGET, plain_context)


ASKS = {"hints": "useful", "when_idle": "adaptive"}
WRONG = draft(0, (*TEXT[:1], (TEXT[1] + 1) % 31 + 1, 3, 4))
BEGINNING = (opening(**ASKS), WRONG)
"""A prompt, and a draft whose second token is wrong. Every exit then reads the socket."""


@pytest.mark.parametrize("verifier", [EAGER], indirect=True)
def test_a_branch_received_during_a_forward_restarts_it(monkeypatch, service, verifier):
    monkeypatch.setattr(TARGET, "exit_row", lambda index, digest: TARGET.row(digest), raising=False)
    branch = draft(2, TEXT[2:6], digest=extend_digest(ROOT, TEXT[:2]))
    server = served(service, opening(**ASKS, max_new_tokens=7), WRONG, branch, *[None] * 6)
    assert verifier.stats.aborted == 1
    assert next(frame.tokens for frame in server.sent if isinstance(frame, Verdict)) == TEXT[:7]


def test_a_socket_error_ends_serving_at_any_point(service, verifier):
    with pytest.raises(OSError, match="gone"):
        served(service, *BEGINNING, OSError("the socket is gone"))
    assert (verifier.stats.failed_jobs, verifier.stats.open_sessions) == (0, 1)
    server = served(service, *[None] * 9)
    assert next(frame.tokens for frame in server.sent if isinstance(frame, Verdict)) == TEXT[:2]


def test_a_service_without_polling_receives_no_frames_during_a_step():
    assert not isinstance(peers(), PollingService)
    assert served(peers(), None).sent == []
