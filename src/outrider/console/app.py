# SPDX-License-Identifier: Apache-2.0
"""The web application: login, the page and its assets, and one channel per viewer."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from outrider.console import messages as m
from outrider.console.access import Access, cookie_name, same_origin
from outrider.console.hub import Hub
from outrider.console.limits import ConsoleLimits
from outrider.console.pages import STATIC, page_of
from outrider.console.speech.answers import SpokenAnswers
from outrider.console.speech.recognition import SpeechRecognition
from outrider.console.viewer import Viewer
from outrider.core.errors import ProtocolError
from outrider.core.hearing import AsrEngine, TtsEngine

MAX_LOGIN_BYTES = 1024
WRONG_TOKEN_PAUSE_S = 0.5
NO_HELLO = "no hello came in time"
MAX_WEBSOCKETS = 64
UNREADABLE, FULL, REPLACED, AWAY, GOING = 1008, 1013, 4001, 4002, 1001
MAX_REASON = 120
"""Maximum bytes of a reason; a websocket's close frame has room for 123."""
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; media-src blob:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
# One request per connection, so that the age of a connection is the age of its request.
HEADERS = {**SECURITY_HEADERS, "Connection": "close"}


class Channel(Protocol):
    """A viewer's connection to the console: a websocket, or one that a relay forwards."""

    async def text(self) -> str:
        """Returns the viewer's next message. Raises WebSocketDisconnect once the viewer has gone."""

    async def send(self, frame: str | bytes) -> None:
        """Sends a message or a picture; waits while the connection is full. Raises WebSocketDisconnect."""

    async def close(self, code: int, reason: str = "") -> None:
        """Closes the connection; the reason is sent to the viewer."""

    def may_speak(self) -> bool:
        """Whether the viewer's login still holds."""


class Login:
    """The login page and form, and the check of sessions."""

    def __init__(self, access: Access, secure: bool) -> None:
        self._access, self._secure = access, secure

    def routes(self) -> list[Route]:
        """Returns the routes of the login's page and form."""
        return [Route("/login", self.login_page), Route("/login", self.log_in, methods=["POST"])]

    def page(self, request: Request, name: str) -> Response:
        """Returns a page to a viewer who has logged in; redirects others to the login."""
        return HTMLResponse(page_of(name)) if self.knows(request) else RedirectResponse("/login", 303)

    async def login_page(self, request: Request) -> Response:
        """Answers with the login page, or redirects to the console a viewer who has logged in."""
        return RedirectResponse("/", 303) if self.knows(request) else HTMLResponse(page_of("login.html"))

    async def log_in(self, request: Request) -> Response:
        """Opens a session for the right token; answers a wrong one only after a pause."""
        if not is_own_page(request):
            return PlainTextResponse("log in on this console's own page", 403)
        form = parse_qs((await _body(request)).decode(errors="replace"))
        session = self._access.log_in(form.get("token", [""])[0])
        if session is None:
            await asyncio.sleep(WRONG_TOKEN_PAUSE_S)
            return RedirectResponse("/login?wrong", 303)
        response = RedirectResponse("/", 303)
        name = cookie_name(request.headers.get("host", ""))
        response.set_cookie(name, session, httponly=True, samesite="strict", secure=self._secure)
        return response

    def knows(self, connection: HTTPConnection) -> bool:
        """Whether a request or a websocket has a valid session."""
        return self._access.admits(connection.cookies.get(cookie_name(connection.headers.get("host", ""))))

    async def accept(self, socket: WebSocket) -> bool:
        """Accepts a websocket from a page of ours with a valid session; refuses any other."""
        if is_own_page(socket) and self.knows(socket):
            await socket.accept()
            return True
        await socket.close(UNREADABLE)  # before accepting: the handshake is answered with 403
        return False


class SocketChannel(Channel):
    """A websocket of this server. A message that is not text raises ProtocolError."""

    def __init__(self, socket: WebSocket, login: Login) -> None:
        self._socket, self._login = socket, login

    async def text(self) -> str:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", GOING))
        text = message.get("text")
        if text is None:
            raise ProtocolError("messages are text")
        return str(text)

    async def send(self, frame: str | bytes) -> None:
        if isinstance(frame, bytes):
            await self._socket.send_bytes(frame)
        else:
            await self._socket.send_text(frame)

    async def close(self, code: int, reason: str = "") -> None:
        await self._socket.close(code, reason.encode(errors="replace")[:MAX_REASON].decode(errors="ignore"))

    def may_speak(self) -> bool:
        return self._login.knows(self._socket)


class Console:
    """The HTTP and websocket handlers of one hub."""

    def __init__(
        self,
        hub: Hub,
        access: Access,
        secure: bool,
        engine: AsrEngine | None = None,
        voice: TtsEngine | None = None,
        limits: ConsoleLimits = ConsoleLimits(),
    ) -> None:
        self._hub, self._access, self._login = hub, access, Login(access, secure)
        self._hello_s = limits.hello_s
        self._recognition = SpeechRecognition(
            engine, self._stop, _send, m.MAX_COMMAND_CHARACTERS, limits.utterance_s, limits.silence_s
        )
        self._answers = SpokenAnswers(voice, _send)

    def application(self) -> ASGIApp:
        """Returns the web application with all routes."""
        routes = [
            Route("/", self.page),
            *self._login.routes(),
            Route("/e_stop", self.e_stop, methods=["POST"]),
            WebSocketRoute("/ws", self.socket),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        return Guard(Starlette(routes=routes), self._access)

    def close(self) -> None:
        """Shuts down recognition and synthesis of speech."""
        self._recognition.close()
        self._answers.close()

    async def page(self, request: Request) -> Response:
        """Answers with the console page, or redirects to the login."""
        return self._login.page(request, "index.html")

    async def e_stop(self, request: Request) -> Response:
        """Engages the emergency stop for a page without an open websocket or session: no login is needed."""
        if not is_own_page(request):
            return PlainTextResponse("stop on this console's own page", 403)
        self.stop()
        return PlainTextResponse("emergency stop engaged")

    def stop(self) -> None:
        """Engages the emergency stop, without a login."""
        self._hub.e_stop()

    def stop_before_hello(self, stop: m.FromPage) -> None:
        """Acts on a stop (see `is_stop`) from a page that has not said hello."""
        self._hub.receive(_somebody(), stop)

    async def socket(self, socket: WebSocket) -> None:
        """Serves a viewer's WebSocket until it closes; refuses one that is not logged in."""
        if await self._login.accept(socket):
            await self.serve(SocketChannel(socket, self._login))

    async def serve(self, channel: Channel) -> None:
        """Serves a viewer until it disconnects or sends an invalid message."""
        with contextlib.suppress(WebSocketDisconnect):
            await self._serve(channel)

    async def _serve(self, channel: Channel) -> None:
        try:
            hello = await asyncio.wait_for(self._hello(channel), self._hello_s)
        except (ProtocolError, asyncio.TimeoutError) as error:
            await channel.close(UNREADABLE, str(error) or NO_HELLO)
            return
        if not self._hub.has_room(hello):
            await channel.close(FULL, "too many viewers: close a page elsewhere")
            return
        viewer = self._hub.join(hello)
        sending = asyncio.create_task(_send_all(channel, viewer))
        try:
            while True:
                self._receive(viewer, m.read(await channel.text()), channel)
        except ProtocolError as error:
            await channel.close(UNREADABLE, str(error))
        finally:
            self._recognition.remove_viewer(viewer)
            self._answers.remove_viewer(viewer)
            self._hub.remove_viewer(viewer)
            sending.cancel()

    async def _hello(self, channel: Channel) -> m.Hello:
        """Returns the hello. Stops may come before it: a relay sends them ahead of other messages."""
        somebody = _somebody()
        while not isinstance(message := m.read(await channel.text()), m.Hello):
            if not m.is_stop(message):
                raise ProtocolError("the first message must be a hello")
            self._hub.receive(somebody, message)
        return message

    def _receive(self, viewer: Viewer, message: m.FromPage, channel: Channel) -> None:
        if not (m.is_stop(message) or channel.may_speak()):
            raise ProtocolError("the session has ended: log in again")
        self._hub.receive(viewer, message)
        if isinstance(message, m.Speech):
            self._recognition.receive(viewer, message)
        elif isinstance(message, m.Speak):
            self._answers.receive(viewer, message)

    def _stop(self, viewer: Viewer) -> None:
        """Cancels as if the page had asked for it: its speech was recognised as a stop."""
        with contextlib.suppress(ProtocolError):  # for too many messages, raised after the stop
            self._hub.receive(viewer, m.Cancel())


class Guard:
    """Wraps the application: limits websockets, refuses foreign hosts, and adds security headers.

    The emergency stop is served however many websockets are open.
    """

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
        num_others = self._websockets - (scope["type"] == "websocket")
        if not self._access.trusts_host(Headers(scope=scope).get("host", "")):
            await _refuse(400, "open this console by the name of this machine", scope, receive, send)
        elif num_others >= MAX_WEBSOCKETS and not scope["path"].endswith("/e_stop"):
            await _refuse(503, "too many connections: close a page elsewhere", scope, receive, send)
        else:
            await self._app(scope, receive, send)


async def _refuse(status: int, reason: str, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": UNREADABLE})
        return
    await PlainTextResponse(reason, status)(scope, receive, send)


async def _send_all(channel: Channel, viewer: Viewer) -> None:
    """Sends a viewer its mailbox. While `send` waits for a full link, the mailbox drops old pictures."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while (frame := await viewer.mailbox.next()) is not None:
            await channel.send(frame)
        await channel.close(REPLACED, "opened again elsewhere")


def _somebody() -> Viewer:
    """Returns a viewer for a page that has not said hello: it may only stop, and does not join."""
    return Viewer("somebody", "")


def _send(viewer: Viewer, message: m.ToPage) -> None:
    viewer.mailbox.put(m.write(message))


def is_own_page(connection: HTTPConnection) -> bool:
    """Whether a request or a websocket comes from a page of this server."""
    return same_origin(connection.headers.get("origin"), connection.headers.get("host"))


async def _body(request: Request) -> bytes:
    """Returns the posted body; empty if it is longer than MAX_LOGIN_BYTES."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_LOGIN_BYTES:
            return b""
    return body
