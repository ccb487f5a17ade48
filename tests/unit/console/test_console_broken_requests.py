"""A malformed request leaves no line in the log, a broken websocket at most one; neither a traceback."""

from __future__ import annotations

import contextlib
import http.client
import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.consoles import FakeRobot, Page, wait_until

from outrider.console.server import ConsoleServer, ConsoleSettings

LIMIT_S = 5.0
CHUNKED = b"Transfer-Encoding: chunked\r\n"
BODIES = {
    "both lengths": CHUNKED + b"Content-Length: 5\r\n\r\nhello",
    "both lengths, whole": CHUNKED + b"Content-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "no chunk": CHUNKED + b"\r\nZZ\r\nhello\r\n",
    "no chunk after one": CHUNKED + b"\r\n5\r\nhelloXXXX\r\n",
    "no trailer": CHUNKED + b"\r\n0\r\n\x00bad\r\n\r\n",
    "an endless length": CHUNKED + b"\r\n" + b"f" * 100 + b"\r\n",
    "cut off": b"Content-Length: 500\r\n\r\ntoken=",
    "cut off chunk": CHUNKED + b"\r\n5\r\nhel",
    "more than said": b"Content-Length: 5\r\n\r\n" + b"x" * 50_000,
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "negative length": b"Content-Length: -5\r\n\r\n",
    "no UTF-8": b"Content-Length: 9\r\n\r\ntoken=\xff\xfe\xfd",
    "no JSON": b"Content-Type: application/json\r\nContent-Length: 1\r\n\r\n{",
    "huge header": b"X: " + b"a" * 200_000 + b"\r\n\r\n",
    "many headers": b"X: a\r\n" * 12_000 + b"\r\n",
    "no header": b"X\x00: \xff\r\n\r\n",
    "cut header": b"X: ",
    "junk after it": b"Content-Length: 0\r\n\r\n\x00\x01\r\n\r\n",
    "another after it": b"Content-Length: 0\r\n\r\nPOST / HTTP/1.1\r\n\r\n",
}
LINES = [b"POST /login", b"POST /e_stop", b"POST /", b"GET /", b"POST /mcp", b"GET /static/en.json"]
OPENING = (
    b"GET /ws HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
KEY = bytes(4)
HELLO = b"\x81\x8e" + KEY + b'{"do":"hello"}'
FRAMES = {
    "nothing": b"",
    "hello alone": HELLO,
    "no JSON": HELLO + b"\x81\x81" + KEY + b"{",
    "no JSON first": b"\x81\x81" + KEY + b"{",
    "no UTF-8": HELLO + b"\x81\x82" + KEY + b"\xff\xfe",
    "bytes": HELLO + b"\x82\x81" + KEY + b"\x80",
    "half a frame": HELLO + b"\x81\xfe\xff",
    "unmasked": HELLO + b"\x81\x02{}",
    "reserved bits": HELLO + b"\xf1\x82" + KEY + b"{}",
    "unknown kind": HELLO + b"\x8f\x82" + KEY + b"{}",
    "endless": HELLO + b"\x81\xff" + b"\x7f" + b"\xff" * 7 + KEY,
    "no close code": HELLO + b"\x88\x82" + KEY + b"\x00\x01",
    "a part of nothing": HELLO + b"\x80\x81" + KEY + b"x",
    "deep": HELLO + b"\x81\xf8" + KEY + b"[" * 120,
    "two hellos": HELLO + HELLO,
}


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[logging.LogRecord]]:
    """Returns a function for the log records from WARNING up. It fails if the log has a traceback."""
    caplog.set_level(logging.WARNING)

    def logged() -> list[logging.LogRecord]:
        assert not any(record.exc_info or "Traceback" in record.getMessage() for record in caplog.records)
        return caplog.records

    return logged


def send(port: int, parts: tuple[bytes, ...], is_reset: bool) -> None:
    """Sends `parts`, then waits for the end of the connection, or resets it if `is_reset`."""
    with socket.create_connection(("127.0.0.1", port), LIMIT_S) as client, contextlib.suppress(OSError):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            client.sendall(part)
        if is_reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass


def num_files() -> int:
    """Returns the number of open files and sockets, with those of the servers in this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def still_answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status < 500


@pytest.fixture(scope="module")
def console() -> Iterator[ConsoleServer]:
    server = ConsoleServer(FakeRobot(), ConsoleSettings(port=0, request_s=1.0))
    yield server
    server.close()


@pytest.fixture(scope="module")
def agents(console: ConsoleServer) -> int:
    """Returns the port of a server for agents, whose token these requests have."""
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    from outrider.console.agents.address import ConsoleAddress
    from outrider.console.agents.agent import AgentSettings
    from outrider.console.agents.envelope import Envelope
    from outrider.console.agents.serving import serve_http
    from outrider.console.notes import note_nothing

    ports: list[int] = []
    settings = AgentSettings(ConsoleAddress(console.url), Envelope(None), "say: turn left")
    given = (settings, note_nothing, ConsoleSettings(port=0), "token", ports.append)
    threading.Thread(target=serve_http, args=given, daemon=True).start()
    port = int(wait_until(lambda: ports, "the server")[0])
    assert still_answers(port, "/login")  # opens what the server keeps open
    return port


@pytest.mark.lengthy
@pytest.mark.parametrize("is_reset", [False, True], ids=["ended", "reset"])
@pytest.mark.parametrize("is_split", [False, True], ids=["at once", "in parts"])
@pytest.mark.parametrize("body", BODIES)
def test_a_strangers_broken_request_leaves_no_line_in_the_log(
    console: ConsoleServer,
    agents: int,
    lines: Callable[[], list[object]],
    body: str,
    is_split: bool,
    is_reset: bool,
) -> None:
    allowed, files = 0, num_files()
    for port, line in ((port, line) for port in (console.port, agents) for line in LINES):
        host = b"127.0.0.1:%d" % port
        begin = b"%s HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\n" % (line, host, host)
        begin += b"Authorization: Bearer token\r\n"
        head, end, rest = (begin + BODIES[body]).partition(b"\r\n\r\n")
        send(port, (head + end, rest) if is_split else (head + end + rest,), is_reset)
        assert still_answers(port, "/login")
        wait_until(lambda: num_files() <= files, "the server's end of it to be closed")
        allowed += port == agents  # an agent with the token may be told of
        assert len(lines()) <= allowed


@pytest.mark.parametrize("is_reset", [False, True], ids=["ended", "reset"])
@pytest.mark.parametrize("frames", FRAMES)
def test_a_websocket_that_breaks_costs_one_line_of_the_log(
    console: ConsoleServer, lines: Callable[[], list[object]], frames: str, is_reset: bool
) -> None:
    host = b"127.0.0.1:%d" % console.port
    send(console.port, (OPENING % (host, host), FRAMES[frames]), is_reset)
    wait_until(lambda: console.num_viewers == 0, "its viewer has gone")
    page = Page(console)
    page.vanish()
    assert page.name and len(lines()) <= 1
