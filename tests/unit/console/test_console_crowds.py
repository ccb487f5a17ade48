"""An emergency stop gets through among slow, silent or many clients; the console may open 256 files."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from support.consoles import wait_until

from outrider.console.acceptor import MAX_OPEN_A_PEER, peer_of
from outrider.console.access import load_token
from outrider.console.hub import MAX_VIEWERS

pytestmark = pytest.mark.usefixtures("room_for_many_sockets")
TESTS = Path(__file__).resolve().parents[2]
MAX_FILES, STOP_S = 256, 0.3
REQUEST_S, PING_S = 1.0, 2.0
HEAD = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nOrigin: http://127.0.0.1:%d\r\n"

OPENING = (
    b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nOrigin: http://127.0.0.1:%d\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
# A text frame, masked with zeros.
HELLO = b"\x81\x8e\0\0\0\0" + b'{"do":"hello"}'


class Console:
    """A console in a process of its own, as its clients see it."""

    def __init__(self, token: Path, max_files: int = MAX_FILES, **settings: Any) -> None:
        settings = {"login": True, "token_file": str(token), **settings}
        self.token = load_token(token)
        self.tls = "tls_cert" in settings
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.served_console", json.dumps([max_files, settings])],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self._sockets: list[socket.socket] = []

    def connect(self, first: bytes = b"") -> socket.socket:
        """Opens another connection, sends `first`, and no more."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=5.0)
        self._sockets.append(made)
        with contextlib.suppress(OSError):  # the console may close it in favour of a later one
            made.sendall(first.replace(b"%d", str(self.port).encode()))
        return made

    def ask(self, method: str, path: str, body: str = "", cookie: str = "", source: str = "127.0.0.1") -> Any:
        scheme, kind = (
            ("https", http.client.HTTPSConnection) if self.tls else ("http", http.client.HTTPConnection)
        )
        trust = {"context": ssl._create_unverified_context()} if self.tls else {}
        connection = kind("127.0.0.1", self.port, timeout=5.0, source_address=(source, 0), **trust)
        headers = {"Origin": f"{scheme}://127.0.0.1:{self.port}", "Cookie": cookie}
        connection.request(method, path, body or None, headers)
        with contextlib.closing(connection):
            answer = connection.getresponse()
            answer.read()
            return answer

    def log_in(self) -> str:
        answer = self.ask("POST", "/login", urlencode({"token": self.token}))
        assert answer.getheader("location") == "/"
        return str(answer.getheader("set-cookie")).partition(";")[0]

    def stops(self, source: str = "127.0.0.1") -> float:
        """Sends an emergency stop. Returns the seconds it takes."""
        begun_s = time.monotonic()
        assert self.ask("POST", "/e_stop", source=source).status == 200
        return time.monotonic() - begun_s

    def num_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def end(self) -> str:
        """Ends the process. Returns its log."""
        for one in self._sockets:
            one.close()
        self.process.terminate()
        return self.process.communicate(timeout=10.0)[1]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Console]]:
    consoles: list[Console] = []

    def start(**settings: Any) -> Console:
        consoles.append(Console(tmp_path / "token", **settings))
        return consoles[-1]

    yield start
    for console in consoles:
        assert "Traceback" not in console.end()


@pytest.fixture
def console(serve: Callable[..., Console]) -> Console:
    return serve()


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /e_stop HTTP/1.1\r\nHost: 127.0",
        HEAD + b"Content-Length: 40\r\n\r\ntoken=",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\ntok",
    ],
    ids=["nothing", "half a header", "half a body", "half a chunk"],
)
def test_the_stop_is_served_beside_300_unfinished_requests(console: Console, sent: bytes) -> None:
    for _ in range(300):
        console.connect(sent)
    assert console.stops() < STOP_S
    assert console.ask("GET", "/login").status == 200
    assert console.log_in()
    assert console.num_files() < MAX_FILES


@pytest.mark.lengthy
def test_the_stop_is_served_where_no_file_can_be_opened(serve: Callable[..., Console]) -> None:
    console = serve(max_files=24)
    for _ in range(300):
        console.connect()
    assert console.stops() < STOP_S


@pytest.mark.lengthy
def test_the_stop_is_served_amid_a_flood(console: Console) -> None:
    console.connect()
    took_s = []
    for _ in range(20):
        for _ in range(30):
            console.connect(b"GET / HTTP/1.1\r\n")
        took_s.append(console.stops())
    assert max(took_s) < STOP_S


@pytest.mark.lengthy
def test_a_stop_is_not_dropped_for_those_who_come_after_it(console: Console) -> None:
    console.process.send_signal(signal.SIGSTOP)
    stop = console.connect(HEAD.replace(b"/login", b"/e_stop") + b"\r\n")
    for _ in range(300):
        console.connect(b"GET / HTTP/1.1\r\n")
    console.process.send_signal(signal.SIGCONT)
    stop.settimeout(5.0)
    assert stop.recv(64).startswith(b"HTTP/1.1 200")


@pytest.mark.lengthy
def test_one_peer_takes_the_room_of_itself_alone(console: Console) -> None:
    other = socket.create_connection(
        ("127.0.0.1", console.port), source_address=("127.0.0.9", 0), timeout=5.0
    )
    with other:
        other.sendall(b"GET /login HTTP/1.1\r\n")
        for _ in range(300):
            console.connect()
        assert console.stops("127.0.0.8") < STOP_S
        other.sendall(b"Host: 127.0.0.1:%d\r\n\r\n" % console.port)
        assert other.recv(64).startswith(b"HTTP/1.1 200")
    assert console.num_files() < MAX_OPEN_A_PEER + 60


@pytest.mark.lengthy
def test_many_peers_leave_room_for_the_stop(console: Console) -> None:
    held = []
    for number in range(300):
        source = f"127.0.1.{number % 200 + 1}"
        held.append(socket.create_connection(("127.0.0.1", console.port), source_address=(source, 0)))
    assert console.stops() < STOP_S
    assert console.num_files() < MAX_FILES
    for one in held:
        one.close()


@pytest.mark.lengthy
@pytest.mark.parametrize("sent", [b"", HEAD + b"Content-Length: 400\r\n\r\n"], ids=["no header", "no body"])
def test_a_request_that_trickles_ends_in_its_time(serve: Callable[..., Console], sent: bytes) -> None:
    console = serve(request_s=REQUEST_S)
    begun_s = time.monotonic()
    slow = console.connect(sent)
    with contextlib.suppress(OSError):
        while time.monotonic() - begun_s < REQUEST_S + 2.0:
            slow.sendall(b"x")
            time.sleep(0.05)
    assert 0.9 * REQUEST_S < time.monotonic() - begun_s < REQUEST_S + 2.0


@pytest.mark.lengthy
def test_answers_that_nobody_reads_hold_nothing(console: Console) -> None:
    before = console.num_files()
    for _ in range(40):
        console.connect(b"GET /static/style.css HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" * 100)
    assert console.stops() < STOP_S
    wait_until(lambda: console.num_files() <= before, "all of them to be answered and closed")


@pytest.mark.lengthy
def test_websockets_that_never_read_are_closed(serve: Callable[..., Console]) -> None:
    console = serve(request_s=REQUEST_S, ping_s=PING_S)
    cookie, before = console.log_in(), console.num_files()
    for _ in range(40):
        console.connect(OPENING + f"Cookie: {cookie}\r\n\r\n".encode() + HELLO)
    wait_until(lambda: console.num_files() >= before + MAX_VIEWERS, "viewers")
    assert console.stops() < STOP_S
    for _ in range(300):
        console.connect()
    assert console.stops() < STOP_S
    wait_until(lambda: console.num_files() <= before, "all of them to be closed", 30.0)


@pytest.mark.lengthy
def test_websockets_without_a_session_leave_nothing_behind(console: Console) -> None:
    before = console.num_files()
    for _ in range(300):
        console.connect(OPENING + b"\r\n")
    assert console.stops() < STOP_S
    wait_until(lambda: console.num_files() <= before, "refused websockets to be closed")


@pytest.mark.lengthy
@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_half_open_tls_leaves_room_for_the_stop(serve: Callable[..., Console], tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    making = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=127.0.0.1"
    files = ["-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", *making.split(), *files], check=True, capture_output=True)
    console = serve(tls_cert=str(cert), tls_key=str(key))
    assert console.log_in()
    for sent in (b"", b"\x16\x03\x01\x02\x00\x01"):
        for _ in range(150):
            console.connect(sent)
    assert console.stops() < STOP_S
    assert console.num_files() < MAX_FILES


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_an_address_counts_for_its_peer(host: str, peer: str) -> None:
    assert peer_of(host) == peer
