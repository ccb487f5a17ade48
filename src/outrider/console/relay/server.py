# SPDX-License-Identifier: Apache-2.0
"""The relay's web server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial

from starlette.types import ASGIApp

from outrider.console.access import Access
from outrider.console.relay.app import RelayApp
from outrider.console.relay.frames import RelayLink
from outrider.console.relay.robots import Robots
from outrider.console.server import ConsoleSettings, WebServer


def serve_relay(link: RelayLink, settings: ConsoleSettings) -> WebServer:
    """Returns the running server of a relay's pages, which closes the link when it ends.

    Raises ConfigError where the address cannot be served, or the token or certificate is not usable.
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
