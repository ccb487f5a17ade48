"""A console for tests: its robot, its server on a free port, and a browser for its page."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import Any

import pytest
from support.browsers import open_browser
from support.consoles import FakeRobot, OpenPage, Page
from support.speakers import FakeEngine

from outrider.console.limits import ConsoleLimits
from outrider.console.server import ConsoleServer, ConsoleSettings


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def room_for_many_sockets() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def robot() -> FakeRobot:
    return FakeRobot()


@pytest.fixture
def limits() -> ConsoleLimits:
    """Returns the limits of `server`. A test can override them by parametrization."""
    return ConsoleLimits()


@pytest.fixture
def server(robot: FakeRobot, limits: ConsoleLimits) -> Iterator[ConsoleServer]:
    made = ConsoleServer(robot, ConsoleSettings(port=0, limits=limits))
    yield made
    made.close()


@pytest.fixture
def console(server: ConsoleServer) -> ConsoleServer:
    """Returns the server, with a robot that stands."""
    server.update(stands=True)
    return server


@pytest.fixture
def engine() -> FakeEngine:
    """Returns a speech recognizer that ends at once."""
    made = FakeEngine()
    made.may_end.set()
    return made


@pytest.fixture
def open_page(server: ConsoleServer) -> Iterator[OpenPage]:
    """Returns a function that opens pages of the server. All are closed at the end of the test."""
    pages: list[Page] = []

    def open_(**options: str) -> Page:
        pages.append(Page(server, **options))
        return pages[-1]

    yield open_
    for page in pages:
        page.socket.close()
