# SPDX-License-Identifier: Apache-2.0
"""The relay's web application: one login, a list of the robots, and the console's page for each of them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect

from outrider.console import messages as m
from outrider.console.access import Access
from outrider.console.app import (
    AWAY,
    NO_HELLO,
    UNREADABLE,
    Guard,
    Login,
    SocketChannel,
    is_own_page,
)
from outrider.console.pages import STATIC
from outrider.console.protocols.pace import Pace
from outrider.console.relay.frames import RelayLink
from outrider.console.relay.robots import NOT_HERE, RelayedPage, RelayedRobot, Robots
from outrider.console.server import ConsoleSettings, WebServer
from outrider.core.errors import ProtocolError

UNKNOWN = "no robot of this name is let in at this relay"


class RelayApp:
    """HTTP and websocket handlers for a relay's robots. They accept only what a console would accept."""

    def __init__(self, robots: Robots, access: Access, secure: bool, hello_s: float) -> None:
        self._robots, self._access, self._login = robots, access, Login(access, secure)
        self._hello_s = hello_s

    def application(self) -> ASGIApp:
        """Returns the web application with all routes."""
        static = StaticFiles(directory=STATIC)
        routes = [
            Route("/", self.list_page),
            *self._login.routes(),
            Route("/robots", self.robots),
            Mount("/static", static),
            Route("/robots/{robot}/", self.page),
            Route("/robots/{robot}/e_stop", self.e_stop, methods=["POST"]),
            WebSocketRoute("/robots/{robot}/ws", self.socket),
            Mount("/robots/{robot}/static", static),
        ]
        return Guard(Starlette(routes=routes), self._access)

    async def list_page(self, request: Request) -> Response:
        """Answers with the list of robots, or redirects to the login."""
        return self._login.page(request, "robots.html")

    async def robots(self, request: Request) -> Response:
        """Answers with the names of the robots, and whether each is connected."""
        if not self._login.knows(request):
            return RedirectResponse("/login", 303)
        return JSONResponse(self._robots.names())

    async def page(self, request: Request) -> Response:
        """Answers with a robot's console, or redirects to the login."""
        known = self._login.knows(request)
        if known and self._robots.robot(request.path_params["robot"]) is None:
            return PlainTextResponse(UNKNOWN, 404)
        return self._login.page(request, "index.html")

    async def e_stop(self, request: Request) -> Response:
        """Engages a robot's emergency stop, without a login. Confirms it only if the robot does."""
        if not is_own_page(request):
            return PlainTextResponse("stop on this console's own page", 403)
        robot = self._robots.robot(request.path_params["robot"])
        if robot is None and self._login.knows(request):
            return PlainTextResponse(UNKNOWN, 404)
        if robot is not None and await robot.e_stop():
            return PlainTextResponse("emergency stop engaged")
        return PlainTextResponse("the emergency stop does not reach the robot: use the robot's own", 503)

    async def socket(self, socket: WebSocket) -> None:
        """Relays messages between a page and its robot; refuses a page that is not logged in."""
        if not await self._login.accept(socket):
            return
        channel = SocketChannel(socket, self._login)
        robot = self._robots.robot(socket.path_params["robot"])
        if robot is None or not robot.is_here:
            await channel.close(AWAY, NOT_HERE)
        else:
            with contextlib.suppress(WebSocketDisconnect):
                await _relay(channel, robot, self._hello_s)


async def _relay(channel: SocketChannel, robot: RelayedRobot, hello_s: float) -> None:
    """Relay a page's messages: stops without a check of the login, others with it; limit their rate."""
    page, pace = robot.open(), Pace()
    sending = asyncio.create_task(_send_all(channel, robot, page))
    try:
        text = await asyncio.wait_for(channel.text(), hello_s)
        while True:
            is_stop = m.is_stop(m.read(text))
            if not (is_stop or channel.may_speak()):
                raise ProtocolError("the session has ended: log in again")
            robot.say(page, text, is_stop)
            pace.count(time.monotonic())
            text = await channel.text()
    except (ProtocolError, asyncio.TimeoutError) as error:
        await channel.close(UNREADABLE, str(error) or NO_HELLO)
    finally:
        robot.remove_page(page)
        sending.cancel()


async def _send_all(channel: SocketChannel, robot: RelayedRobot, page: RelayedPage) -> None:
    """Send a page its frames. While `send` waits for a full link, no acknowledgement goes to the robot."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while (frame := await page.next()) is not None:
            await channel.send(frame)
            robot.on_passed(page)
        await channel.close(page.code, page.reason)


def serve_relay(link: RelayLink, settings: ConsoleSettings) -> WebServer:
    """Returns the running server of a relay's pages, which closes the link when it ends.

    Raises ConfigError if the address cannot be served, or the token or certificate is not usable.
    """
    return WebServer(settings, partial(_opened, link, settings))


@contextlib.asynccontextmanager
async def _opened(link: RelayLink, settings: ConsoleSettings, access: Access) -> AsyncIterator[ASGIApp]:
    robots = Robots(link)
    tasks = [asyncio.create_task(robots.read()), asyncio.create_task(robots.look())]
    try:
        yield RelayApp(robots, access, bool(settings.tls_cert), settings.limits.hello_s).application()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        link.close()
