"""The relay's pages of one robot, without sockets."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator

import pytest

from outrider.console.relay import frames as f
from outrider.console.relay.robots import RelayedRobot
from outrider.core.frames import Peer

PEER = Peer("go2", b"run 1")


class Silent:
    """A relay's link that takes whatever is sent."""

    robots = ("go2",)

    def send(self, peer: Peer, message: bytes, urgent: bool = False) -> bool:
        return True


@pytest.fixture
def allocations() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_what_a_robot_says_to_a_page_that_was_closed_is_not_kept(allocations) -> None:
    """The browser behind it may take its time to close the connection, or not answer."""
    robot = RelayedRobot(Silent(), lambda: 0.0)
    robot.receive(PEER, f.Beat())
    page = robot.open()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(2000):
        robot.receive(PEER, f.ConsoleMessage(page.number, f"{number:01000}"))
    kept, _ = tracemalloc.get_traced_memory()
    assert page.reason == "the robot said too much at once"
    assert kept - before < f.WINDOW * sys.getsizeof("x" * 1000)
