# SPDX-License-Identifier: Apache-2.0
"""The web application: login, the page and its assets, and one websocket for each viewer."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from outrider.console import messages as m
from outrider.console.access import Access, same_origin
from outrider.console.ear import Ear
from outrider.console.hub import Hub
from outrider.console.viewer import Viewer
from outrider.core.errors import ProtocolError
from outrider.core.hearing import AsrEngine

STATIC = Path(__file__).parent / "static"
COOKIE = "outrider_session"
MAX_LOGIN_BYTES = 1024
WRONG_TOKEN_PAUSE_S = 0.5
HELLO_S = 5.0
MAX_WEBSOCKETS = 64
UNREADABLE, FULL, REPLACED, GOING = 1008, 1013, 4001, 1001
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
# A connection carries one request, whose time can so be told from its age.
HEADERS = {**SECURITY_HEADERS, "Connection": "close"}


class Console:
    """Handlers around one hub."""

    def __init__(self, hub: Hub, access: Access, secure: bool, engine: AsrEngine | None = None) -> None:
        self._hub, self._access, self._secure = hub, access, secure
        self._ear = Ear(engine, self._stop)

    def application(self) -> ASGIApp:
        """Returns the web application with all routes."""
        routes = [
            Route("/", self.page),
            Route("/login", self.login_page),
            Route("/login", self.log_in, methods=["POST"]),
            Route("/e_stop", self.e_stop, methods=["POST"]),
            WebSocketRoute("/ws", self.socket),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        return _Guard(Starlette(routes=routes), self._access)

    def close(self) -> None:
        """Hears nobody any more."""
        self._ear.close()

    async def page(self, request: Request) -> Response:
        """Answers with the console, or leads to the login."""
        if not self._access.admits(request.cookies.get(COOKIE)):
            return RedirectResponse("/login", 303)
        return FileResponse(STATIC / "index.html")

    async def login_page(self, request: Request) -> Response:
        """Answers with the login, or leads to the console where the viewer is logged in."""
        if self._access.admits(request.cookies.get(COOKIE)):
            return RedirectResponse("/", 303)
        return FileResponse(STATIC / "login.html")

    async def log_in(self, request: Request) -> Response:
        """Opens a session for the right token; after a wrong one answers only after a pause."""
        if not same_origin(request.headers.get("origin"), request.headers.get("host")):
            return PlainTextResponse("log in on this console's own page", 403)
        form = parse_qs((await _body(request)).decode(errors="replace"))
        session = self._access.log_in(form.get("token", [""])[0])
        if session is None:
            await asyncio.sleep(WRONG_TOKEN_PAUSE_S)
            return RedirectResponse("/login?wrong", 303)
        response = RedirectResponse("/", 303)
        response.set_cookie(COOKIE, session, httponly=True, samesite="strict", secure=self._secure)
        return response

    async def e_stop(self, request: Request) -> Response:
        """For a page whose websocket is not open, or whose session has ended: engaging needs no login."""
        if not same_origin(request.headers.get("origin"), request.headers.get("host")):
            return PlainTextResponse("stop on this console's own page", 403)
        self._hub.e_stop()
        return PlainTextResponse("emergency stop engaged")

    async def socket(self, socket: WebSocket) -> None:
        """Serves a viewer's WebSocket until it closes; refuses one that is not logged in."""
        if not self._admits(socket):
            await socket.close(UNREADABLE)  # before accepting: the handshake is answered with 403
            return
        await socket.accept()
        with contextlib.suppress(WebSocketDisconnect):
            await self._serve(socket)

    async def _serve(self, socket: WebSocket) -> None:
        try:
            hello = m.read(await asyncio.wait_for(_text(socket), HELLO_S))
            if not isinstance(hello, m.Hello):
                raise ProtocolError("the first message must be a hello")
        except (ProtocolError, asyncio.TimeoutError) as error:
            await socket.close(UNREADABLE, str(error)[:120])
            return
        if not self._hub.has_room(hello):
            await socket.close(FULL, "too many viewers: close a page elsewhere")
            return
        viewer = self._hub.join(hello)
        sending = asyncio.create_task(_send_all(socket, viewer))
        try:
            while True:
                message = m.read(await _text(socket))
                if not (m.is_stop(message) or self._access.admits(socket.cookies.get(COOKIE))):
                    raise ProtocolError("the session has ended: log in again")
                self._hub.receive(viewer, message)
                if isinstance(message, m.Speech):
                    self._ear.receive(viewer, message)
        except ProtocolError as error:
            await socket.close(UNREADABLE, str(error)[:120])
        finally:
            self._ear.part(viewer)
            self._hub.part(viewer)
            sending.cancel()

    def _stop(self, viewer: Viewer) -> None:
        """A person at this page was heard to say stop: as if the page had sent it."""
        with contextlib.suppress(ProtocolError):  # of too many messages, after the stop
            self._hub.receive(viewer, m.Cancel())

    def _admits(self, connection: Request | WebSocket) -> bool:
        """A page of ours, with a session of ours."""
        origin, host = connection.headers.get("origin"), connection.headers.get("host")
        return same_origin(origin, host) and self._access.admits(connection.cookies.get(COOKIE))


class _Guard:
    """Around everything: bounds the websockets, turns away hosts that are not ours, and tells pages what they
    may do. The emergency stop is served however many websockets are open."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access
        self._websockets = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        is_websocket = scope["type"] == "websocket"
        self._websockets += is_websocket
        try:
            with contextlib.suppress(ClientDisconnect):
                await self._serve(scope, receive, with_headers)
        finally:
            self._websockets -= is_websocket

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        others = self._websockets - (scope["type"] == "websocket")
        if not self._access.trusts_host(Headers(scope=scope).get("host", "")):
            await _refuse(400, "open this console by the name of this machine", scope, receive, send)
        elif others >= MAX_WEBSOCKETS and scope["path"] != "/e_stop":
            await _refuse(503, "too many connections: close a page elsewhere", scope, receive, send)
        else:
            await self._app(scope, receive, send)


async def _refuse(status: int, reason: str, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": UNREADABLE})
        return
    await PlainTextResponse(reason, status)(scope, receive, send)


async def _send_all(socket: WebSocket, viewer: Viewer) -> None:
    """Everything for one viewer. `send` waits while the link is full, and the mailbox drops meanwhile."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while (frame := await viewer.mailbox.next()) is not None:
            if isinstance(frame, bytes):
                await socket.send_bytes(frame)
            else:
                await socket.send_text(frame)
        await socket.close(REPLACED, "opened again elsewhere")


async def _text(socket: WebSocket) -> str:
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", GOING))
    text = message.get("text")
    if text is None:
        raise ProtocolError("messages are text")
    return str(text)


async def _body(request: Request) -> bytes:
    """What was posted, as far as it may be a login; the rest is not read."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_LOGIN_BYTES:
            return b""
    return body
