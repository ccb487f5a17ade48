"""Among the connections that wait for the console, one that asks for a stop is served first."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator

import pytest

from outrider.console.protocols.accept_queue import SERVED_AT_ONCE, AcceptQueue

PAGE = b"GET / HTTP/1.1\r\n\r\n"
STOP = b"POST /e_stop HTTP/1.1\r\n\r\n"
CALL = b'POST /mcp HTTP/1.1\r\n\r\n{"method": "tools/call", "params": {"name": "stop"}}'
ROOM = 20


class Clients:
    """Named connections to a lobby. `served` lists them in the order of service."""

    def __init__(self) -> None:
        self.served: list[str] = []
        self.lobby = AcceptQueue(ROOM, self._serve)
        self._ends: dict[str, socket.socket] = {}
        self._names: dict[int, str] = {}

    def connect(self, name: str, sends: bytes = b"", peer: str = "one") -> None:
        self._ends[name], accepted = socket.socketpair()
        self._names[accepted.fileno()] = name
        self.send(name, sends)
        self.lobby.add(accepted, peer)

    def send(self, name: str, sends: bytes) -> None:
        self._ends[name].sendall(sends)

    def leave(self, name: str) -> None:
        self._ends[name].close()

    def is_open(self, name: str) -> bool:
        self._ends[name].setblocking(False)
        try:
            return self._ends[name].recv(1) != b""
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False

    def close(self) -> None:
        for end in self._ends.values():
            end.close()

    def _serve(self, connection: socket.socket, peer: str) -> None:
        assert connection.recv(4096), "what was looked at can still be read"
        self.served.append(self._names[connection.fileno()])
        connection.close()


@pytest.fixture
def clients() -> Iterator[Clients]:
    kept = Clients()
    yield kept
    kept.close()


def run(steps: Callable[[], None]) -> None:
    """Runs the steps, then some turns of the event loop."""

    async def steps_and_turns() -> None:
        steps()
        for _ in range(2 * ROOM):
            await asyncio.sleep(0)

    asyncio.run(steps_and_turns())


@pytest.mark.parametrize("stop", [STOP, CALL])
def test_a_stop_is_served_before_all_that_waited_longer(clients: Clients, stop: bytes) -> None:
    def connect() -> None:
        for i in range(10):
            clients.connect(f"page {i}", PAGE)
        clients.connect("stop", stop)

    run(connect)
    assert clients.served == ["stop", *(f"page {i}" for i in range(10))]


def test_in_a_turn_few_are_served_and_the_others_later(clients: Clients) -> None:
    async def steps() -> None:
        for i in range(10):
            clients.connect(f"page {i}", PAGE)
        for served in (SERVED_AT_ONCE, 2 * SERVED_AT_ONCE, 10):
            await asyncio.sleep(0)
            assert len(clients.served) == served

    asyncio.run(steps())


def test_bytes_that_come_late_are_waited_for(clients: Clients) -> None:
    async def steps() -> None:
        clients.connect("late")
        await asyncio.sleep(0)
        clients.connect("page", PAGE)
        clients.send("late", STOP)
        while len(clients.served) < 2:
            await asyncio.sleep(0)

    asyncio.run(steps())
    assert set(clients.served) == {"late", "page"}


def test_what_is_closed_without_a_byte_is_not_served(clients: Clients) -> None:
    async def steps() -> None:
        clients.connect("silent")
        clients.leave("silent")
        clients.connect("page", PAGE)
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(steps())
    assert clients.served == ["page"]


def test_a_stop_whose_sender_has_left_is_served(clients: Clients) -> None:
    def connect() -> None:
        clients.connect("stop", STOP)
        clients.leave("stop")

    run(connect)
    assert clients.served == ["stop"]


def test_without_room_the_oldest_of_the_most_crowded_peer_goes(clients: Clients) -> None:
    def connect() -> None:
        clients.connect("stop", STOP)
        clients.connect("other", PAGE, peer="another")
        for i in range(ROOM + 3):
            clients.connect(f"page {i}", PAGE)

    run(connect)
    assert clients.served == ["stop", "other", *(f"page {i}" for i in range(5, ROOM + 3))]
    assert not any(clients.is_open(f"page {i}") for i in range(5))


def test_no_stop_is_closed_for_another(clients: Clients) -> None:
    def connect() -> None:
        for i in range(ROOM):
            assert not clients.lobby.is_full
            clients.connect(f"stop {i}", STOP)
        assert clients.lobby.is_full and not clients.lobby.drop_oldest()

    run(connect)
    assert clients.served == [f"stop {i}" for i in range(ROOM)]
    assert not clients.lobby.is_full


@pytest.mark.parametrize(
    "sends",
    [
        b"GET /?stop HTTP/1.1\r\n\r\n",
        b"GET /static/stop.js HTTP/1.1\r\n\r\n",
        b"GET /e_stop HTTP/1.1\r\n\r\n",
        b'GET / HTTP/1.1\r\nReferer: /e_stop\r\nCookie: "stop"\r\n\r\n',
    ],
)
def test_what_only_names_a_stop_waits_its_turn(clients: Clients, sends: bytes) -> None:
    def connect() -> None:
        for i in range(10):
            clients.connect(f"page {i}", PAGE)
        clients.connect("named", sends)
        clients.connect("stop", STOP)

    run(connect)
    assert clients.served == ["stop", *(f"page {i}" for i in range(10)), "named"]


def test_what_says_nothing_for_long_is_closed(clients: Clients) -> None:
    def connect() -> None:
        clients.connect("silent")
        clients.lobby.drop_since(0.0)
        assert clients.is_open("silent")
        clients.lobby.drop_since(float("inf"))
        assert not clients.is_open("silent")

    run(connect)


def test_at_the_end_all_are_closed(clients: Clients) -> None:
    def connect() -> None:
        clients.connect("silent")
        clients.connect("page", PAGE)
        clients.lobby.close()
        assert not clients.is_open("silent") and not clients.is_open("page")

    run(connect)
    assert clients.served == []
