"""No connection can make the console do so much work that a stop would wait."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

import h11
import pytest
from support.consoles import FakeRobot, Page, wait_until
from websockets.exceptions import ConnectionClosed
from websockets.protocol import Protocol

from outrider.console.protocols.connections import MAX_FRAMES_PER_S, MAX_HEADERS, READ_BYTES
from outrider.console.server import ConsoleServer

CHUNK = b"1\r\nx\r\n"
KEY = bytes(4)
SMALLEST_FRAME = 6
OPENING = (
    "GET /ws HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
FLOODS = {
    "pings": b"\x89\x80" + KEY,
    "pongs": b"\x8a\x80" + KEY,
    "full pings": b"\x89\xfd" + KEY + bytes(125),
    "empty parts": b"\x00\x80" + KEY,
}


def answer(server: ConsoleServer, path: str, fields: bytes, body: bytes = b"") -> bytes:
    """Returns the answer to a request, as far as the client receives it before the connection ends."""
    address = b"127.0.0.1:%d" % server.port
    head = b"POST %s HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\n" % (path.encode(), address, address)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10.0) as client:
        client.sendall(head + fields + b"\r\n" + body)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := client.recv(4096):
                received += piece
    return received


def counted(monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> list[Any]:
    """Records the arguments of each call of a method from now on."""
    calls: list[Any] = []
    original = getattr(kind, name)

    def count(self: Any, *args: Any) -> Any:
        calls.append(args)
        return original(self, *args)

    monkeypatch.setattr(kind, name, count)
    return calls


def test_a_body_in_chunks_is_refused_by_name(server: ConsoleServer) -> None:
    refused = answer(server, "/login", b"Transfer-Encoding: chunked\r\n", CHUNK)
    assert refused.startswith(b"HTTP/1.1 411 ") and b"Content-Length" in refused.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("path", ["/e_stop", "/e_stop?from=page"])
def test_a_stop_in_chunks_is_a_stop(server: ConsoleServer, robot: FakeRobot, path: str) -> None:
    assert answer(server, path, b"Transfer-Encoding: chunked\r\n").startswith(b"HTTP/1.1 200 ")
    assert robot.e_stops == [True]


@pytest.mark.parametrize("path", ["/nowhere", "/e_stop"])
def test_no_chunk_is_read(server: ConsoleServer, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    events = counted(monkeypatch, h11.Connection, "next_event")
    with contextlib.suppress(OSError):
        answer(server, path, b"Transfer-Encoding: chunked\r\n", CHUNK * 40_000)
    assert 0 < len(events) < 10


@pytest.mark.parametrize("num", [MAX_HEADERS - 10, MAX_HEADERS + 1, 12_000])
def test_of_a_head_few_lines_are_read(server: ConsoleServer, num: int) -> None:
    refused = answer(server, "/e_stop", b"a:\r\n" * num)
    # What follows of a long head resets the connection, and its answer may be lost.
    assert refused.partition(b"\r\n")[0][9:12] in ((b"200",) if num < MAX_HEADERS else (b"431", b""))


def test_the_pieces_are_small(server: ConsoleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = counted(monkeypatch, h11.Connection, "receive_data")
    with contextlib.suppress(OSError):  # the server need not read all of it
        answer(server, "/login", b"Content-Length: 1000000\r\n", b"x" * 1_000_000)
    assert 0 < max(len(piece) for (piece,) in pieces) <= READ_BYTES


@pytest.mark.lengthy
@pytest.mark.parametrize("flood", FLOODS)
def test_a_page_that_sends_too_many_frames_is_closed_by_name(
    server: ConsoleServer, robot: FakeRobot, monkeypatch: pytest.MonkeyPatch, flood: str
) -> None:
    frames = counted(monkeypatch, Protocol, "recv_frame")
    frame = FLOODS[flood]
    with socket.create_connection(("127.0.0.1", server.port), timeout=10.0) as client:
        client.sendall(OPENING.format(f"127.0.0.1:{server.port}").encode())
        assert b" 101 " in client.recv(4096)
        begin = b"\x01\x81" + KEY + b"{" if flood == "empty parts" else b""
        sending = threading.Thread(target=_send, args=(client, begin + frame * 10_000))
        sending.start()
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := client.recv(65536):
                received += piece
        sending.join()
    assert b"more than %d frames in a second" % MAX_FRAMES_PER_S in received
    assert MAX_FRAMES_PER_S < len(frames) <= MAX_FRAMES_PER_S + READ_BYTES // SMALLEST_FRAME + 2
    assert not robot.e_stops


def _send(client: socket.socket, content: bytes) -> None:
    with contextlib.suppress(OSError):
        client.sendall(content)


@pytest.mark.lengthy
def test_a_stop_before_a_flood_is_a_stop(server: ConsoleServer, robot: FakeRobot) -> None:
    page = Page(server)
    page.send(do="e_stop", engaged=True)
    with contextlib.suppress(ConnectionClosed):
        for _ in range(2 * MAX_FRAMES_PER_S):
            page.socket.pong()
    wait_until(lambda: robot.e_stops, "the stop")


def test_a_page_that_drives_and_speaks_is_within_the_pace(server: ConsoleServer) -> None:
    page = Page(server)
    for _ in range(45):  # within a second: 20 drive commands and 25 pieces of sound
        page.send(do="samples", samples="A" * 1700)
        page.send(do="drive", forward=0.0, left=0.0, turn=0.0, beat=page.beat)
    page.send(do="ping", sent_ms=1.0)
    page.read("pong")
