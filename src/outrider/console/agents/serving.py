# SPDX-License-Identifier: Apache-2.0
"""Serves agents over a pipe, or over HTTP to those who know the token."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import threading
from collections.abc import Callable
from contextlib import closing, redirect_stdout, suppress

import anyio
import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from outrider.console.agents.address import ConsoleAddress
from outrider.console.agents.agent import AgentSettings
from outrider.console.agents.stdio import pipe_streams
from outrider.console.agents.tools import make_server
from outrider.console.notes import Note
from outrider.console.server import ConsoleSettings, check_certificate, listen
from outrider.core.errors import LinkError


def serve_pipe(settings: AgentSettings, note: Note) -> None:
    """One agent on standard input and output, until it closes them."""
    asyncio.run(_serve_pipe(settings, note))


async def _serve_pipe(settings: AgentSettings, note: Note) -> None:
    server = make_server(settings, note)._mcp_server
    # Copies: nothing else of this process may write there, nor be in the way when it ends.
    with (
        os.fdopen(os.dup(sys.stdin.fileno()), "rb") as source,
        os.fdopen(os.dup(sys.stdout.fileno()), "wb") as sink,
        redirect_stdout(sys.stderr),
        closing(_Stopper(settings.address)) as stopper,
    ):
        try:
            async with pipe_streams(source, sink, stopper.ask) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
        except Exception as error:
            if not _is_of_the_end(error):
                raise


class _Stopper:
    """Stops in a thread of its own, so that none waits for calls. Any number that come at once are one."""

    def __init__(self, address: ConsoleAddress) -> None:
        self._address = address
        self._asked, self._closed, self._news = False, False, threading.Event()
        self._thread = threading.Thread(target=self._run, name="stop", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Engage the emergency stop, soon."""
        self._asked = True
        self._news.set()

    def close(self) -> None:
        """Blocks until a stop is done that came with the last of the input."""
        self._closed = True
        self._news.set()
        self._thread.join()

    def _run(self) -> None:
        while self._asked or not self._closed:
            self._news.wait()
            self._news.clear()
            if self._asked:
                self._asked = False
                with suppress(LinkError):
                    self._address.e_stop()


def _is_of_the_end(error: BaseException) -> bool:
    """Whether nothing failed but answers that nobody listens to any more: the SDK sends them all the same."""
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
    """Agents at `/mcp`, until interrupted; `on_ready` is told the port. Raises ConfigError for an address."""
    check_certificate(at)
    listener = listen(at.host, at.port)
    config = uvicorn.Config(
        _TokenGuard(make_server(settings, note).streamable_http_app(), token),
        log_config=None,
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=1,
        ssl_certfile=at.tls_cert or None,
        ssl_keyfile=at.tls_key or None,
    )
    on_ready(listener.getsockname()[1])
    uvicorn.Server(config).run(sockets=[listener])


class _TokenGuard:
    """Lets those in who send `Authorization: Bearer TOKEN`; everything else is answered with 401."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("authorization", "").encode()
        if secrets.compare_digest(given, self._expected):
            await self._app(scope, receive, send)
            return
        refusal = PlainTextResponse(
            "send the token: Authorization: Bearer TOKEN", 401, {"WWW-Authenticate": "Bearer"}
        )
        await refusal(scope, receive, send)
