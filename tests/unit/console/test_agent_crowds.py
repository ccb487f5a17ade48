"""Stops of agents and persons get through while many slow connections without the token are open."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from support.consoles import wait_until

from outrider.console.agents.stopper import ENGAGED

pytestmark = pytest.mark.usefixtures("room_for_many_sockets")
TESTS = Path(__file__).resolve().parents[2]
MAX_FILES, REQUEST_S, MANY = 256, 1.0, 400
STOP_S = 5.0
"""Far longer than a stop takes; too short for a stop that waits until the crowd's requests end."""
TOKEN = "of agents in a crowd"
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}}
UNFINISHED = [
    b"",
    b"POST /mcp HTTP/1.1\r\nHost: x\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 400\r\n\r\n{",
    b"POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n"
    b"Content-Length: 400\r\n\r\n{",
]


class Agents:
    """The process of both servers, with a session of one agent."""

    def __init__(self, **settings: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.served_agents", json.dumps([MAX_FILES, TOKEN, settings])],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port, self.console = map(int, self.process.stdout.readline().split())
        self._session, self._number, self._held = "", 0, list[socket.socket]()
        status, self._session, _ = self.ask("initialize", HELLO)
        assert status == 200

    def ask(self, method: str, params: object, timeout_s: float = 30.0) -> tuple[int, str, str]:
        """Sends a request. Returns the answer's status, session and text."""
        self._number += 1
        told = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            **({"Mcp-Session-Id": self._session} if self._session else {}),
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        with contextlib.closing(connection):
            connection.request("POST", "/mcp", json.dumps(told), headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Mcp-Session-Id", ""), answer.read().decode()

    def call(self, tool: str, **given: object) -> str:
        return self.ask("tools/call", {"name": tool, "arguments": given})[2]

    def hold(self, sent: bytes) -> socket.socket:
        """Opens another connection, sends `sent`, and no more."""
        self._held.append(socket.create_connection(("127.0.0.1", self.port), timeout=10.0))
        with contextlib.suppress(OSError):  # the server may close it in favour of a later one
            self._held[-1].sendall(sent)
        return self._held[-1]

    def persons_stop(self) -> int:
        """Sends a stop to the console. Returns the answer's status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.console, timeout=STOP_S)
        with contextlib.closing(connection):
            connection.request("POST", "/e_stop", headers={"Origin": f"http://127.0.0.1:{self.console}"})
            return connection.getresponse().status

    def num_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def end(self) -> str:
        """Ends the process. Returns its log."""
        for one in self._held:
            one.close()
        self.process.terminate()
        return self.process.communicate(timeout=20.0)[1]


@pytest.fixture
def serve() -> Iterator[Callable[..., Agents]]:
    served: list[Agents] = []

    def start(**settings: Any) -> Agents:
        served.append(Agents(**settings))
        return served[-1]

    yield start
    for agents in served:
        assert "Traceback" not in agents.end()


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "sent", UNFINISHED, ids=["nothing", "half a header", "half a body", "with the token"]
)
def test_stops_are_served_beside_many_unfinished_requests(serve: Callable[..., Agents], sent: bytes) -> None:
    agents = serve()
    assert ENGAGED in agents.call("stop")
    for _ in range(MANY):
        agents.hold(sent)
    begun_s = time.monotonic()
    assert ENGAGED in agents.call("stop")
    assert time.monotonic() - begun_s < STOP_S
    assert agents.persons_stop() == 200
    assert agents.num_files() < MAX_FILES


@pytest.mark.lengthy
def test_a_request_that_trickles_ends_in_its_time(serve: Callable[..., Agents]) -> None:
    agents = serve(request_s=REQUEST_S)
    slow = [agents.hold(sent) for sent in UNFINISHED]

    def ended(one: socket.socket) -> bool:
        try:
            one.sendall(b"x")
            return False
        except OSError:
            return True

    wait_until(lambda: all(map(ended, slow)), "the ends of requests that nobody finishes")


@pytest.mark.lengthy
def test_an_answer_that_takes_long_is_waited_for(serve: Callable[..., Agents]) -> None:
    """The answer takes longer than a request may, while other connections wait for room."""
    agents = serve(request_s=REQUEST_S)
    with ThreadPoolExecutor(1) as waiting:
        goal = waiting.submit(agents.call, "goal", sentence="turn left", wait_s=3 * REQUEST_S)
        wait_until(lambda: "turn left" in agents.call("status"), "the goal to be read")
        for _ in range(MANY):
            agents.hold(UNFINISHED[1])
        assert "under way" in goal.result()
    assert ENGAGED in agents.call("stop")
