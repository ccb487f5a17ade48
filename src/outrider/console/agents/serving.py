# SPDX-License-Identifier: Apache-2.0
"""Serves agents over a pipe, or over HTTP to clients that have the token."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import closing, redirect_stdout
from typing import Any

import anyio

from outrider.console.acceptor import ConnectionAcceptor
from outrider.console.agents.agent import AgentSettings
from outrider.console.agents.attendance import Attendance
from outrider.console.agents.http_guards import StopsFirst, TokenGuard
from outrider.console.agents.presence import Presence
from outrider.console.agents.stdio import pipe_streams
from outrider.console.agents.stopper import Stopper
from outrider.console.agents.tools import make_server
from outrider.console.notes import Note
from outrider.console.server import AcceptorServer, ConsoleSettings, check_certificate, listen, web_config
from outrider.core.errors import ConfigError


def serve_pipe(settings: AgentSettings, note: Note) -> None:
    """Serve one agent on standard input and output until it closes them.

    Raises ConfigError if they are already closed.
    """
    if sys.stdin is None or sys.stdout is None:
        raise ConfigError("standard input or output is closed: let the agent start this, or add --http")
    try:
        asyncio.run(_serve_pipe(settings, note))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _end_on_signals() -> None:
    """Make SIGINT cancel the running task.

    A KeyboardInterrupt raised within another task would be reported as that task's failure.
    """
    task = asyncio.current_task()
    if task is not None and threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)


async def _serve_pipe(settings: AgentSettings, note: Note) -> None:
    _end_on_signals()
    server = make_server(settings, note)._mcp_server
    # Duplicates, so that nothing else in this process writes there or blocks its end. They stay open:
    # closing one would wait for the thread that reads or writes it, and so for the agent.
    source, sink = os.fdopen(os.dup(sys.stdin.fileno()), "rb"), os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    with redirect_stdout(sys.stderr), closing(Stopper(settings.address)) as stopper:
        try:
            async with pipe_streams(source, sink, stopper.ask) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
        except Exception as error:
            if not _is_of_the_end(error):
                raise


def _is_of_the_end(error: BaseException) -> bool:
    """Whether only answers failed that no client reads any more: the SDK sends them nonetheless."""
    inner = getattr(error, "exceptions", None)
    if inner is not None:
        return all(map(_is_of_the_end, inner))
    return isinstance(error, (anyio.ClosedResourceError, anyio.BrokenResourceError))


def serve_http(
    settings: AgentSettings,
    note: Note,
    at: ConsoleSettings,
    token: str,
    on_ready: Callable[[int], None],
) -> None:
    """Serve agents at `/mcp` until interrupted; `on_ready` receives the port.

    Raises ConfigError if the address or the certificate is not usable.
    """
    check_certificate(at)
    listener = listen(at.host, at.port)
    with closing(Stopper(settings.address)) as stopper:
        presence = Presence()
        server = make_server(settings, note).streamable_http_app()
        app = StopsFirst(Attendance(server, presence), presence, stopper.ask)
        # One request per connection, so that the age of a connection is the age of its request.
        config = web_config(TokenGuard(app, token), at, headers=[("Connection", "close")])
        on_ready(listener.getsockname()[1])
        AcceptorServer(config, ConnectionAcceptor(listener, at.request_s), is_under_way).run()


def is_under_way(protocol: Any) -> bool:
    """Whether a request is complete and waits for its answer, which may take long for a goal.

    A request without the token has already been answered.
    """
    cycle = getattr(protocol, "cycle", None)
    return cycle is not None and not (cycle.more_body or cycle.response_complete)
