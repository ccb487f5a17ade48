"""A stop among a page's first messages, at the console and through a relay's two connections."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.consoles import FakeRobot, Page, wait_until
from support.relays import make_relays
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from outrider.console import messages as m
from outrider.console.access import Access
from outrider.console.app import NO_HELLO, UNREADABLE, Console
from outrider.console.hub import MAX_VIEWERS, Hub
from outrider.console.limits import ConsoleLimits
from outrider.console.relay import frames as f
from outrider.console.relay.robot_end import _Run
from outrider.console.server import ConsoleServer
from outrider.core.values import LinkState

HELLO, PING = json.dumps({"do": "hello"}), json.dumps({"do": "ping", "sent_ms": 1.0})
E_STOP, CANCEL = json.dumps({"do": "e_stop", "engaged": True}), json.dumps({"do": "cancel"})
RELEASE = json.dumps({"do": "e_stop", "engaged": False})


@contextlib.contextmanager
def opened(port: int, path: str = "") -> Iterator[ClientConnection]:
    """Yields a page's connection before its first message."""
    origin: Any = f"http://127.0.0.1:{port}"
    with connect(f"ws://127.0.0.1:{port}{path}/ws", origin=origin, proxy=None) as socket:
        yield socket


def stops_of(robot: FakeRobot, stop: str) -> int:
    return len(robot.e_stops) if stop == E_STOP else robot.cancels


@pytest.mark.parametrize("stop", [E_STOP, CANCEL])
@pytest.mark.parametrize("order", ["before", "behind", "alone"])
def test_a_stop_waits_for_no_hello(server: ConsoleServer, robot: FakeRobot, stop: str, order: str) -> None:
    with opened(server.port) as socket:
        for said in {"before": (stop, HELLO), "behind": (HELLO, stop), "alone": (stop,)}[order]:
            socket.send(said)
        wait_until(lambda: stops_of(robot, stop), "the stop")
        if order != "alone":
            assert json.loads(socket.recv(timeout=10))["is"] == "welcome"
    assert False not in robot.e_stops


@pytest.mark.parametrize("said", [PING, RELEASE, json.dumps({"do": "take"})])
def test_nothing_but_a_stop_comes_before_the_hello(
    server: ConsoleServer, robot: FakeRobot, said: str
) -> None:
    with opened(server.port) as socket:
        socket.send(said)
        with pytest.raises(ConnectionClosed) as ended:
            socket.recv(timeout=10)
    assert ended.value.rcvd is not None and ended.value.rcvd.code == UNREADABLE and robot.e_stops == []


@pytest.mark.lengthy
@pytest.mark.parametrize("limits", [ConsoleLimits(hello_s=1.0)])
def test_stops_alone_hold_no_connection(server: ConsoleServer, robot: FakeRobot) -> None:
    with opened(server.port) as socket:
        socket.send(E_STOP)
        with pytest.raises(ConnectionClosed, match=NO_HELLO):
            socket.recv(timeout=10)
    assert robot.e_stops == [True]


class ScriptedLink:
    """A robot's link on which the test plays the relay. It records what the robot sends."""

    state = LinkState.CONNECTED

    def __init__(self) -> None:
        self.told: list[f.ToRelay] = []

    def send(self, message: bytes, urgent: bool = False) -> bool:
        self.told.append(f.read_at_relay(message))
        return True


def kinds_told(link: ScriptedLink) -> list[str]:
    return [json.loads(frame.text)["is"] for frame in link.told if isinstance(frame, f.ConsoleMessage)]


Copy = tuple[str, bool]
"""A page's message, and whether this copy came by the connection for stops."""


def interleaved(ordinary: list[str], urgent: list[str]) -> list[list[Copy]]:
    """Returns all orders in which two connections may deliver; each keeps its own order."""
    count = len(ordinary) + len(urgent)
    orders = []
    for places in itertools.combinations(range(count), len(urgent)):
        rest, first = iter(ordinary), iter(urgent)
        orders.append([(next(first), True) if n in places else (next(rest), False) for n in range(count)])
    return orders


async def deliver(run: _Run, copies: list[Copy], turns: list[int]) -> None:
    """Delivers copies. After each, the console's loop runs as often as `turns` says: 0 for a bunch."""
    for (text, urgent), count in zip(copies, turns, strict=True):
        run._receive(f.PageMessage(7, text), urgent)
        for _ in range(count):
            await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.lengthy
@pytest.mark.parametrize("stop", [E_STOP, CANCEL])
@pytest.mark.parametrize("said", [[HELLO, None], [None, HELLO], [HELLO, None, PING], [HELLO, PING, None]])
def test_a_stop_of_two_connections_is_heeded_whatever_overtakes_what(
    stop: str, said: list[str | None]
) -> None:
    async def trial(copies: list[Copy], turns: list[int]) -> None:
        robot, link = FakeRobot(), ScriptedLink()
        run = _Run(link, Console(Hub(robot), Access(None), False))  # type: ignore[arg-type]
        await deliver(run, copies, turns)
        assert stops_of(robot, stop) >= 1, copies
        assert "welcome" in kinds_told(link) and not any(isinstance(one, f.End) for one in link.told), copies
        await run.end()

    for copies in interleaved([text or stop for text in said], [stop]):
        for turns in itertools.product((0, 5), repeat=len(copies)):
            asyncio.run(trial(copies, list(turns)))


@pytest.mark.parametrize("stop", [E_STOP, CANCEL])
def test_a_stop_behind_a_hello_that_finds_no_room_is_heeded(stop: str) -> None:
    async def trial(copies: list[Copy]) -> None:
        robot, link = FakeRobot(), ScriptedLink()
        hub = Hub(robot)
        for _ in range(MAX_VIEWERS):
            hub.join(m.Hello())
        run = _Run(link, Console(hub, Access(None), False))  # type: ignore[arg-type]
        await deliver(run, copies, [2] * len(copies))
        assert stops_of(robot, stop) >= 1, copies
        await run.end()

    for copies in interleaved([HELLO, stop], [stop]):
        asyncio.run(trial(copies))


@pytest.mark.lengthy
@pytest.mark.parametrize("stop", [E_STOP, CANCEL])
def test_a_stop_right_behind_the_hello_reaches_the_robot_through_a_relay(tmp_path: Path, stop: str) -> None:
    relays = make_relays(tmp_path)
    with relays.serving(), relays.robot() as dialled:
        for count in range(1, 16):
            before = stops_of(dialled.robot, stop)
            with opened(relays.port, "/robots/go2") as socket:
                socket.send(HELLO)
                socket.send(stop)
                assert json.loads(socket.recv(timeout=10))["is"] == "welcome", count
                wait_until(lambda before=before: stops_of(dialled.robot, stop) > before, "the stop")


@pytest.mark.lengthy
def test_a_page_that_says_nothing_keeps_no_place_at_a_relay(tmp_path: Path) -> None:
    relays = make_relays(tmp_path, limits=ConsoleLimits(hello_s=2.0))
    with relays.serving(), relays.robot() as dialled:
        with opened(relays.port, "/robots/go2") as socket, pytest.raises(ConnectionClosed) as ended:
            socket.recv(timeout=10)
        assert ended.value.rcvd is not None and ended.value.rcvd.reason == NO_HELLO
        page = Page(relays, path="/robots/go2")
        page.send(do="ping", sent_ms=1.0)
        page.read("pong", sent_ms=1.0)
        assert dialled.console.num_viewers == 1
