"""When a signal ends `outrider mcp`, the robot stops and the journal is closed."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

import httpx
from support.agents import COMMAND
from support.consoles import FakeRobot, wait_until
from support.raw_agents import HELLO, READY

from outrider.console.agents.stdio import pipe_streams
from outrider.console.server import ConsoleServer
from outrider.core.files.journal_proof import prove

LIMIT_S = 60.0


def request(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


MESSAGES = [
    request(0, "initialize", **HELLO),
    READY,
    request(1, "tools/call", name="goal", arguments={"sentence": "turn left", "wait_s": 600}),
]


class Program:
    """Runs the command with a journal of its own, and kills it on exit."""

    def __init__(self, console: ConsoleServer, folder: Path, *options: str) -> None:
        self.journal, self.errors = folder / "robot.journal", folder / "errors"
        self.process = subprocess.Popen(
            [*COMMAND, "--console", console.url, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors.open("wb"),
            env={**os.environ, "OUTRIDER_JOURNAL": str(self.journal)},
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def say(self, messages: list[dict[str, Any]]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in messages))
        self.process.stdin.flush()

    def begin(self) -> None:
        """Sends a goal call that waits for the goal's end, once the server has answered."""
        self.say(MESSAGES[:1])
        assert self.process.stdout is not None and b'"id":0' in self.process.stdout.readline()
        self.say(MESSAGES[1:])

    def url(self) -> str:
        """Returns the server's address once it serves."""
        while self.process.poll() is None:
            found = re.search(r"http://\S+/mcp", self.errors.read_text())
            if found:
                return found[0]
            time.sleep(0.02)
        raise AssertionError(self.errors.read_text())

    def check_end(self) -> None:
        assert self.process.wait(LIMIT_S) == 0, self.errors.read_text()
        proof = prove(self.journal)
        assert proof.holds and proof.is_closed
        assert "Traceback" not in self.errors.read_text()


ENDS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.mark.lengthy
@pytest.mark.parametrize("number", ENDS)
def test_a_signal_ends_a_server_on_a_pipe_and_closes_its_journal(
    server: ConsoleServer, robot: FakeRobot, tmp_path: Path, number: int
) -> None:
    with Program(server, tmp_path) as program:
        program.begin()
        wait_until(lambda: robot.goals, "the goal")
        program.process.send_signal(number)
        program.check_end()
    wait_until(lambda: robot.cancels, "the robot stands")


@pytest.mark.lengthy
def test_a_signal_ends_a_server_whose_agent_reads_nothing(
    server: ConsoleServer, robot: FakeRobot, tmp_path: Path
) -> None:
    with Program(server, tmp_path) as program:
        program.begin()
        wait_until(lambda: robot.goals, "the goal")
        program.say([request(number, "x" * 200) for number in range(2, 3000)])
        program.process.send_signal(signal.SIGTERM)
        program.check_end()
    wait_until(lambda: robot.cancels, "the robot stands")


@pytest.mark.lengthy
@pytest.mark.parametrize("number", ENDS)
def test_a_signal_ends_a_server_over_http_and_closes_its_journal(
    server: ConsoleServer, robot: FakeRobot, tmp_path: Path, number: int
) -> None:
    token = tmp_path / "agents.token"
    options = "--http", "--port", "0", "--token-file", str(token)
    with Program(server, tmp_path, *options) as program:
        url = program.url()
        headers = {
            "Authorization": f"Bearer {token.read_text().strip()}",
            "Accept": "application/json, text/event-stream",
        }
        with httpx.Client(headers=headers, timeout=LIMIT_S) as client:
            begun = client.post(url, json=MESSAGES[0])
            client.headers["Mcp-Session-Id"] = begun.headers["Mcp-Session-Id"]
            client.post(url, json=READY)
            said = {"sentence": "turn left", "wait_s": 0}
            assert (
                "turn left"
                in client.post(url, json=request(1, "tools/call", name="goal", arguments=said)).text
            )
            assert robot.goals
            program.process.send_signal(number)
            program.check_end()
    wait_until(lambda: robot.cancels, "the robot stands")


def test_a_message_after_the_end_of_a_session_prints_no_trace(monkeypatch):
    failures, (agent, pipe) = [], os.pipe()
    monkeypatch.setattr(threading, "excepthook", failures.append)

    async def session() -> None:
        async with pipe_streams(os.fdopen(agent, "rb"), io.BytesIO(), Future):
            reading.extend(thread for thread in threading.enumerate() if thread.name == "agent")

    reading: list[threading.Thread] = []
    asyncio.run(session())
    with os.fdopen(pipe, "wb") as messages:
        messages.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    for thread in reading:
        thread.join(60.0)
    assert reading and failures == []
