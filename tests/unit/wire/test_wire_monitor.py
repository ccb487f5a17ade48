"""Connection events that nobody reads: they stop neither a socket's connections nor its end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

import pytest
import zmq

from outrider.core.values import LinkState
from outrider.wire.client import DealerLink
from outrider.wire.monitor import MAX_UNREAD, Monitor
from outrider.wire.server import RouterServer

LIMIT_S = 60.0


def ends(act: Callable[[], object]) -> bool:
    """Whether a call returns. It runs in a thread, because one that does not would hold up the tests."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    return not thread.is_alive()


@pytest.mark.lengthy
def test_a_crowd_of_strangers_while_the_model_computes_keeps_no_robot_out(endpoint):
    server = RouterServer(endpoint)
    port = int(endpoint.rpartition(":")[2])
    for _ in range(MAX_UNREAD + 500):
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S).close()
    with closing(DealerLink(endpoint)) as robot:
        until_s = time.monotonic() + LIMIT_S
        while robot.state is not LinkState.CONNECTED and time.monotonic() < until_s:
            robot.receive(0.01)
        assert robot.state is LinkState.CONNECTED
    assert ends(server.close)


@pytest.mark.lengthy
def test_a_socket_can_be_closed_though_libzmq_waits_for_its_events_to_be_read():
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.RECONNECT_IVL, 1)
    monitor = Monitor(dealer, zmq.EVENT_ALL)
    with socket.create_server(("127.0.0.1", 0)) as verifier:
        verifier.settimeout(2.0)
        dealer.connect(f"tcp://127.0.0.1:{verifier.getsockname()[1]}")
        with suppress(TimeoutError):  # libzmq connects no more
            for _ in range(MAX_UNREAD):
                verifier.accept()[0].close()
        assert ends(monitor.close)
    dealer.close(linger=0)
    assert ends(context.term)
