"""A relay in this process, and robots that connect to it."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from support.consoles import LIMITS, FakeRobot, Page, wait_until

from outrider.console.relay import frames as f
from outrider.console.relay.app import serve_relay
from outrider.console.relay.robot_end import RobotEnd
from outrider.console.server import ConsoleServer, ConsoleSettings, WebServer
from outrider.core.values import LinkState, Velocity
from outrider.runtime.common.ports import free_port
from outrider.wire.keys import SERVER_KEY_FILE, create_keys, load_client_keys
from outrider.wire.tunnel import RelayTunnel, RobotTunnel


@dataclass
class DialledRobot:
    """A robot with its own console. `end` is its end of the relay."""

    robot: FakeRobot
    end: RobotEnd
    console: ConsoleServer

    def close(self) -> None:
        self.console.close()


@dataclass
class Relays:
    """Keys and addresses of a relay, which may be restarted."""

    keys: Path
    settings: dict[str, Any] = field(default_factory=dict)
    link_port: int = field(default_factory=free_port)
    port: int = field(default_factory=free_port)

    @property
    def endpoint(self) -> str:
        return f"tcp://127.0.0.1:{self.link_port}"

    @contextmanager
    def serving(self) -> Iterator[WebServer]:
        link = RelayTunnel(self.endpoint, self.keys / SERVER_KEY_FILE)
        with closing(serve_relay(link, ConsoleSettings(port=self.port, **self.settings))) as server:
            yield server

    def tunnel(self, name: str = "go2") -> RobotTunnel:
        return RobotTunnel(self.endpoint, load_client_keys(self.keys / f"{name}.key"))

    @contextmanager
    def robot(self, name: str = "go2", awaited: bool = True) -> Iterator[DialledRobot]:
        robot, end = FakeRobot(), RobotEnd(lambda: self.tunnel(name))
        with closing(ConsoleServer(robot, ConsoleSettings(port=0), alongside=end.run)) as console:
            if awaited:
                wait_until(lambda: end.state is LinkState.CONNECTED, "the robot reaches the relay")
            yield DialledRobot(robot, end, console)

    def page(self, name: str = "go2", **options: Any) -> Page:
        return Page(self, path=f"/robots/{name}", **options)

    def ask(self, path: str, method: str = "POST", body: str = "", **headers: str) -> tuple[int, str, str]:
        """Sends a request of the relay's page. Returns the answer's status, body and cookie."""
        address = f"127.0.0.1:{self.port}"
        connection = http.client.HTTPConnection(address, timeout=10)
        connection.request(method, path, body, {"Origin": f"http://{address}", **headers})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text, (answer.getheader("set-cookie") or "").partition(";")[0]

    def e_stop(self, name: str = "go2", **headers: str) -> tuple[int, str]:
        """Asks for a robot's emergency stop. Returns the answer's status and body."""
        return self.ask(f"/robots/{name}/e_stop", **headers)[:2]

    def log_in(self, token_file: Path) -> str:
        """Returns the cookie of a login."""
        return self.ask("/login", body=urlencode({"token": token_file.read_text().strip()}))[2]


def make_relays(folder: Path, robots: tuple[str, ...] = ("go2",), **settings: Any) -> Relays:
    create_keys(folder / "keys", robots)
    return Relays(folder / "keys", settings)


@contextmanager
def relay_and_robot(folder: Path) -> Iterator[tuple[Relays, DialledRobot]]:
    relays = make_relays(folder)
    with ExitStack() as stack:
        stack.enter_context(relays.serving())
        yield relays, stack.enter_context(relays.robot())


def drive_ahead(page: Page, dialled: DialledRobot) -> None:
    """Takes the seat and drives until the robot is told to move at full speed."""
    page.seated()
    for _ in range(50):
        page.drive(forward=1.0)
        if Velocity(LIMITS.vx) in dialled.robot.drives:
            return
    raise AssertionError("the page does not drive")


@asynccontextmanager
async def lone_link(relays: Relays) -> AsyncIterator[RobotTunnel]:
    """Connects a robot's end of the relay that sends heartbeats and does nothing else by itself."""
    link = relays.tunnel()

    async def beat() -> None:
        while True:
            link.send(f.pack(f.Beat()))
            await asyncio.sleep(0.05)

    beating = asyncio.create_task(beat())
    await link.receive(urgent=True)  # the relay's own heartbeat
    yield link
    beating.cancel()
    link.close()
