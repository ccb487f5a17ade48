# SPDX-License-Identifier: Apache-2.0
"""A hostile agent at a real `outrider mcp`: over a pipe, or over HTTP with many connections."""

from __future__ import annotations

import http.client
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol
from urllib.parse import urlsplit

from outrider.core.errors import LinkError
from outrider.evaluation.agents.hostile_calls import call_line
from outrider.evaluation.common.polling import wait_until

HASTY_SERVER = "outrider.evaluation.agents.hasty_server"
READY_S, POST_S = 120.0, 10.0
CONNECTIONS, MAX_WAITING = 8, 16
HELLO = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"hostile","version":"0"}}}\n',
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
)
STOP = call_line("stop", "stop", {})


class HostileAgent(Protocol):
    """A hostile agent. `answered` counts the answers that it has received."""

    answered: int

    def send(self, lines: Sequence[bytes]) -> None:
        """Send lines; block while too many wait. Raises LinkError if the server has ended."""
        ...

    def stop(self) -> None:
        """Call `stop` behind all that waits. Raises LinkError if the server has ended."""
        ...


class PipeAgent(HostileAgent):
    """A hostile agent at the standard streams of a server."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process, self.answered = process, 0
        threading.Thread(target=self._count, daemon=True).start()
        self.send(HELLO)
        if not wait_until(lambda: self.answered, READY_S):
            raise LinkError("outrider mcp does not answer: see its message above")

    def send(self, lines: Sequence[bytes]) -> None:
        sink = _stream(self._process.stdin)
        try:
            sink.write(b"".join(lines))
            sink.flush()
        except OSError:
            raise LinkError("outrider mcp has ended: see its message above") from None

    def stop(self) -> None:
        self.send([STOP])

    def _count(self) -> None:
        for line in _stream(self._process.stdout):
            self.answered += b'"method"' not in line  # the server's own requests are no answers


class HttpAgent(HostileAgent):
    """One session over many connections. A stop gets one more, so that nothing on this side delays it."""

    def __init__(self, url: str, token: str) -> None:
        self._parts, self.answered = urlsplit(url), 0
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        self._outbox: queue.Queue[bytes] = queue.Queue(MAX_WAITING)
        hello = self._post(self._connection(), HELLO[0])
        self._headers["Mcp-Session-Id"] = hello.getheader("Mcp-Session-Id", "")
        self._post(self._connection(), HELLO[1])
        for _ in range(CONNECTIONS):
            threading.Thread(target=self._flood, daemon=True).start()

    def send(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            self._outbox.put(line)

    def stop(self) -> None:
        try:
            self._post(self._connection(), STOP)
        except (OSError, http.client.HTTPException) as error:
            raise LinkError(f"outrider mcp does not answer a stop ({error!r})") from None

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._parts.netloc, timeout=POST_S)

    def _post(self, connection: http.client.HTTPConnection, line: bytes) -> http.client.HTTPResponse:
        connection.request("POST", self._parts.path, line, self._headers)
        response = connection.getresponse()
        response.read()
        self.answered += 1
        return response

    def _flood(self) -> None:
        connection = self._connection()
        while True:
            try:
                self._post(connection, self._outbox.get())
            except (OSError, http.client.HTTPException):
                connection.close()


@contextmanager
def served(url: str, is_hasty: bool, over_http: bool) -> Iterator[HostileAgent]:
    """Yield an agent at the console `url`, until its server has ended.

    Over a pipe, the server of a hasty agent limits no rate. Raises LinkError if the server does not answer.
    """
    server = [HASTY_SERVER, url] if is_hasty else ["outrider", "mcp", "--console", url]
    with tempfile.TemporaryDirectory() as folder:
        token_file = Path(folder) / "agents.token"
        options = ["--http", "--port", "0", "--token-file", str(token_file)] if over_http else []
        process = subprocess.Popen(
            [sys.executable, "-m", *server, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if over_http else None,
            bufsize=1 << 20,
        )
        try:
            if over_http:
                yield HttpAgent(_address(process), token_file.read_text().strip())
            else:
                yield PipeAgent(process)
        finally:
            with suppress(OSError):
                _stream(process.stdin).close()
            if over_http:
                process.terminate()
            process.wait(READY_S)


def _address(process: subprocess.Popen[bytes]) -> str:
    """Return the address that a server over HTTP prints; pass its later output on."""
    errors = _stream(process.stderr)
    line = errors.readline().decode()
    if not line.startswith("agents at "):
        raise LinkError(f"outrider mcp does not serve: {line.strip()}")
    threading.Thread(target=_pass_on, args=(errors,), daemon=True).start()
    return line.removeprefix("agents at ").partition(",")[0]


def _pass_on(errors: IO[bytes]) -> None:
    for line in errors:
        sys.stderr.write(line.decode(errors="replace"))


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
