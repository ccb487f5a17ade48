"""A console for tests: its robot, its server on a free port, and a browser for its page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.browsers import open_browser
from support.consoles import FakeRobot

from outrider.console.server import ConsoleServer, ConsoleSettings


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def robot() -> FakeRobot:
    return FakeRobot()


@pytest.fixture
def server(robot: FakeRobot) -> Iterator[ConsoleServer]:
    made = ConsoleServer(robot, ConsoleSettings(port=0))
    yield made
    made.close()
