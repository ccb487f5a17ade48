"""The connection of a robot's link: other versions, dead connections, forks and broken handshakes."""

from __future__ import annotations

import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import zmq
from msgspec import structs
from support.broken_links import BreakingLink
from support.live_wire import (
    OPENING,
    TIMEOUT_MS,
    serving,
)

from outrider.core.errors import LinkError
from outrider.core.frames import PROTOCOL_VERSION, Ping, Pong
from outrider.core.values import LinkState
from outrider.runtime.wiring.probe import probe_verifier
from outrider.wire.client import HANDSHAKE_TIMEOUT_MS, DealerLink
from outrider.wire.codec import encode
from outrider.wire.keys import create_keys


def test_a_connection_that_accepts_frames_again_counts_as_a_new_generation(endpoint, peer_sockets):
    """Frames dropped meanwhile are lost, as after a disconnect; a new generation makes senders ask again."""
    server = peer_sockets.socket(zmq.ROUTER)
    server.setsockopt(zmq.RCVHWM, 1)
    server.bind(endpoint)
    large = structs.replace(OPENING, jpeg=b"\xff" * 500_000)
    with closing(DealerLink(endpoint)) as link:
        while link.state is not LinkState.CONNECTED or not link.send(large):
            link.receive(0.01)
        while link.send(large):
            pass
        before = link.generation
        link.receive(0.0)
        assert link.generation == before, "nothing has changed yet"
        while link.generation == before:
            assert server.poll(TIMEOUT_MS)
            server.recv_multipart()
            link.receive(0.001)
        assert link.generation == before + 1 and link.send(large)


FORGED = """
import sys
from pathlib import Path
from outrider.core.frames import Ping
from outrider.wire.client import DealerLink
from outrider.wire.keys import load_client_keys

link = DealerLink(sys.argv[1], load_client_keys(Path(sys.argv[2])))
for line in sys.stdin:
    before = link.generation
    while link.generation == before or link.receive(0.01) is None:
        link.send(Ping(0, 0))
    print("answered", flush=True)
link.close()
"""
"""For each line on its input, prints a line once a new connection has brought an answer."""


@contextmanager
def killed_in_time(process: subprocess.Popen[str]) -> Iterator[None]:
    """Kills a process that takes too long, so that reading its output always ends."""
    timer = threading.Timer(TIMEOUT_MS / 1000, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        process.kill()


def test_a_forged_message_ends_a_robots_connection_but_not_its_process(endpoint, tmp_path):
    """Runs in a process of its own, because libzmq would end the whole process."""
    server_key, robot_key = create_keys(tmp_path)
    with (
        serving(endpoint, key_file=server_key),
        closing(BreakingLink(int(endpoint.rsplit(":", 1)[1]))) as path,
        subprocess.Popen(
            [sys.executable, "-c", FORGED, f"tcp://127.0.0.1:{path.port}", str(robot_key)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as robot,
        killed_in_time(robot),
    ):
        for _ in range(4):
            robot.stdin.write("on\n")
            robot.stdin.flush()
            assert robot.stdout.readline() == "answered\n"
            path.forge("down")
        robot.stdin.close()
        assert robot.wait(TIMEOUT_MS / 1000) == 0


def test_a_verifier_of_another_version_is_named(endpoint, peer_sockets, caplog):
    older = peer_sockets.socket(zmq.ROUTER)
    older.bind(endpoint)

    def answer(*payloads):
        assert older.poll(TIMEOUT_MS)
        route, _ = older.recv_multipart()
        for payload in payloads:
            older.send_multipart([route, payload])

    other, deadline_s = bytes([PROTOCOL_VERSION - 1]) + b"an answer", time.monotonic() + TIMEOUT_MS / 1000
    with closing(DealerLink(endpoint)) as link:
        while not link.send(Ping(0, 0)):
            assert time.monotonic() < deadline_s
        answer(other, other, other, encode(Pong(0, 0, "toy", 8, 0, 1)))
        faults = []
        while (received := link.receive(1.0)) is None:
            assert time.monotonic() < deadline_s
            faults.append(link.fault)
        assert received[0].model == "toy" and link.fault == ""
    said = f"protocol version {PROTOCOL_VERSION - 1}, this side speaks {PROTOCOL_VERSION}"
    assert said in faults[-1] and caplog.text.count(said) == 1
    answering = threading.Thread(target=answer, args=(other,))
    answering.start()
    with pytest.raises(LinkError, match=r"is not understood: protocol version .* update the older one"):
        probe_verifier(endpoint, TIMEOUT_MS / 1000)
    answering.join()


def test_a_dead_connection_is_made_anew():
    """As with a mobile link lost during the handshake: nothing closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as front:
        front.settimeout(HANDSHAKE_TIMEOUT_MS / 1000 + TIMEOUT_MS / 1000)
        with closing(DealerLink(f"tcp://127.0.0.1:{front.getsockname()[1]}")):
            dead, _ = front.accept()
            with dead:
                front.accept()[0].close()


@pytest.mark.parametrize(
    "opened",
    [
        "DealerLink(endpoint)",
        "RouterServer(endpoint, load_server_keys(server_key))",
        "RobotTunnel(endpoint, load_client_keys(robot_key))",
        "RelayTunnel(endpoint, server_key)",
    ],
)
def test_sockets_whose_owner_is_dropped_unclosed_are_closed(endpoint, tmp_path, opened):
    """In a reference cycle, as with a stored exception, the collector finalizes objects in any order."""
    dropped = f"""
import asyncio, gc, os, sys, warnings
from pathlib import Path
from outrider.wire.client import DealerLink
from outrider.wire.keys import load_client_keys, load_server_keys
from outrider.wire.server import RouterServer
from outrider.wire.tunnel import RelayTunnel, RobotTunnel
warnings.simplefilter("error", ResourceWarning)
endpoint, server_key, robot_key = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])

async def main():
    gc.disable()
    cycle = [{opened}]
    cycle.append(cycle)
    num_open = len(os.listdir("/proc/self/fd"))
    del cycle
    gc.collect()
    print(num_open - len(os.listdir("/proc/self/fd")) > 4)

asyncio.run(main())
"""
    done = _finished(dropped, endpoint, *map(str, create_keys(tmp_path)))
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_link_in_a_forked_process_raises_an_error(endpoint):
    forked = """
import os, sys
from outrider.core.errors import LinkError
from outrider.core.frames import Ping
from outrider.wire.client import DealerLink
link = DealerLink(sys.argv[1])
while not link.send(Ping(0, 0)):
    link.receive(0.01)
if child := os.fork():
    os.waitpid(child, 0)
    while link.receive(0.01) is None:
        pass
    print(link.state.value)
else:
    print(link.state.value, link.send(Ping(0, 0)))
    try:
        link.receive(0.01)
    except LinkError as error:
        print(error)
link.close()
"""
    with serving(endpoint):
        reported = _run(forked, endpoint)
    assert reported == [
        "lost 0",
        "this link was opened before a fork: connect anew in this process",
        "connected",
    ]


def _run(program: str, *arguments: str) -> list[str]:
    """Runs a program in a process of its own. Returns the lines it prints."""
    return _finished(program, *arguments).stdout.splitlines()


def _finished(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own to its end."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_MS / 250,
    )
    assert done.returncode == 0, done.stderr
    return done


class _Oversized(socketserver.BaseRequestHandler):
    """Completes libzmq's handshake, then begins a frame that is larger than any limit."""

    READY = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER"

    def handle(self) -> None:
        self.request.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48))
        self.request.sendall(b"\x04" + bytes([len(self.READY)]) + self.READY)
        said = b""
        while b"READY" not in said:
            said += self.request.recv(4096)
        self.request.sendall(b"\x02" + (1 << 60).to_bytes(8, "big"))
        self.server.calls += 1
        while self.request.recv(4096):
            pass


def test_a_peer_that_breaks_the_protocol_is_tried_again(endpoint):
    port = int(endpoint.rsplit(":", 1)[1])
    with (
        socketserver.TCPServer(("127.0.0.1", port), _Oversized) as server,
        closing(DealerLink(endpoint)) as link,
    ):
        server.calls = 0
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        deadline_s = time.monotonic() + TIMEOUT_MS / 1000
        while server.calls < 2 and time.monotonic() < deadline_s:
            link.receive(0.01)
        server.shutdown()
        thread.join()
        assert server.calls >= 2
