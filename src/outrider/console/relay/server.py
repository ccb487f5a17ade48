# SPDX-License-Identifier: Apache-2.0
"""The relay's web server, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.types import ASGIApp

from outrider.console.access import Access
from outrider.console.relay.app import RelayApp
from outrider.console.relay.frames import RelayLink
from outrider.console.relay.robots import Robots
from outrider.console.server import ConsoleSettings, WebServer


class RelayServer:
    """Serves from construction until `close`.

    Raises ConfigError where the address cannot be served, or the token or certificate is not usable.
    """

    def __init__(self, link: RelayLink, settings: ConsoleSettings) -> None:
        """Takes the link over, and closes it."""
        self._link, self._settings = link, settings
        self._web = WebServer(settings, self._opened)

    @property
    def port(self) -> int:
        """Returns the TCP port of the pages."""
        return self._web.port

    @property
    def url(self) -> str:
        """Where a person opens it."""
        return self._web.url

    @property
    def login_hint(self) -> str:
        """Where the login's token is; empty where no login is needed."""
        return self._web.login_hint

    def close(self) -> None:
        """Ends all connections."""
        self._web.close()

    @contextlib.asynccontextmanager
    async def _opened(self, access: Access) -> AsyncIterator[ASGIApp]:
        robots = Robots(self._link)
        tasks = [asyncio.create_task(robots.read()), asyncio.create_task(robots.look())]
        try:
            yield RelayApp(robots, access, bool(self._settings.tls_cert)).application()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._link.close()
