"""A fake robot for a console, and a page without a browser."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from websockets.sync.client import ClientConnection, connect

from outrider.console.drawing.frames import picture_number
from outrider.console.robot import GoalEnd
from outrider.console.switching.switches import Switch
from outrider.core.values import Velocity

WAIT_S, PING_S = 10.0, 1.0
LIMITS = Velocity(0.5, 0.2, 1.0)


def wait_until(condition: Callable[[], Any], what: str, wait_s: float = WAIT_S) -> Any:
    """Returns the condition's first true value. The test fails if it stays false for `wait_s`."""
    deadline_s = time.monotonic() + wait_s
    while time.monotonic() < deadline_s:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"not within {wait_s:g} s: {what}")


@dataclass
class FakeRobot:
    """Implements `console.robot.RobotPort`: records all calls."""

    limits: Velocity = LIMITS
    hears: bool = True
    drives: list[Velocity] = field(default_factory=list)
    e_stops: list[bool] = field(default_factory=list)
    goals: list[tuple[str, Callable[[GoalEnd], None]]] = field(default_factory=list)
    cancels: int = 0
    switches: list[tuple[Switch, Callable[[str], None]]] = field(default_factory=list)

    def drive(self, velocity: Velocity) -> None:
        self.drives.append(velocity)

    def set_e_stop(self, engaged: bool) -> bool:
        self.e_stops.append(engaged)
        return self.hears

    def send_goal(self, instruction: str, on_end: Callable[[GoalEnd], None]) -> None:
        self.goals.append((instruction, on_end))

    def cancel_goal(self) -> None:
        self.cancels += 1

    def switch(self, request: Switch, on_end: Callable[[str], None]) -> None:
        self.switches.append((request, on_end))


class StandingRobot(FakeRobot):
    """Ends its goals when they are cancelled, as robots do."""

    def cancel_goal(self) -> None:
        super().cancel_goal()
        for _, on_end in self.goals:
            on_end(GoalEnd(False, "cancelled"))


class Served(Protocol):
    """A console by its port: in this process, or elsewhere on this machine."""

    port: int


class Page:
    """Stands in for the page's script, one message at a time."""

    def __init__(
        self,
        server: Served,
        resume: str = "",
        cookie: str = "",
        origin: str = "",
        agent: str = "",
        path: str = "",
        wait_s: float = WAIT_S,
    ) -> None:
        """Connects. `path`: the console's path at a relay. `wait_s`: the timeout for each message."""
        self.wait_s = wait_s
        address = f"127.0.0.1:{server.port}"
        headers = {"Cookie": cookie} if cookie else {}
        opening = connect(
            f"ws://{address}{path}/ws",
            origin=origin or f"http://{address}",  # type: ignore[arg-type]
            additional_headers=headers,
            compression=None,
            proxy=None,
        )
        self.socket: ClientConnection = opening.__enter__()
        self.beat, self._pinged_s = 0, math.inf
        self.send(do="hello", resume=resume, agent=agent)
        self.welcome = self.read("welcome")
        self.name = self.welcome["name"]

    def send(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    def seated(self) -> Page:
        """Takes the driver's seat and waits until it is taken."""
        self.send(do="take")
        self.read("state", driver=self.name)
        self._pinged_s = time.monotonic()
        return self

    def read(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Returns the next message of a kind with these values; skips the messages before it."""
        return self.read_all(kind, **fields)[-1]

    def read_all(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        """Returns all messages up to the next of a kind with these values. A driver sends pings meanwhile."""
        messages: list[dict[str, Any]] = []
        deadline_s = time.monotonic() + self.wait_s
        while time.monotonic() < deadline_s:
            content = self.socket.recv(timeout=max(0.0, deadline_s - time.monotonic()))
            if isinstance(content, bytes):
                continue
            if time.monotonic() - self._pinged_s > PING_S:
                self._pinged_s = time.monotonic()
                self.send(do="ping", sent_ms=0.0)
            messages.append(json.loads(content))
            self.beat = messages[-1].get("beat", self.beat)
            if messages[-1]["is"] == kind and all(messages[-1][n] == value for n, value in fields.items()):
                return messages
        raise AssertionError(f"no {kind} with {fields}")

    def read_picture(self) -> tuple[int, bytes]:
        """Returns the next picture with its number, without acknowledging it."""
        while True:
            content = self.socket.recv(timeout=self.wait_s)
            if isinstance(content, bytes):
                return picture_number(content), content[4:]

    def catch_up(self) -> None:
        """Reads all messages that the console has sent so far, so that the page acts on the newest state."""
        asked_ms = 1000.0 * time.monotonic()
        self.send(do="ping", sent_ms=asked_ms)
        self.read("pong", sent_ms=asked_ms)

    def drive(self, forward: float = 0.0, left: float = 0.0, turn: float = 0.0) -> None:
        """Sends a drive command with the beat of the newest state."""
        self.catch_up()
        self.read("state")
        self.send(do="drive", forward=forward, left=left, turn=turn, beat=self.beat)

    def release_e_stop(self) -> None:
        """Releases the stop with the beat of the newest state, in which it is engaged."""
        self.catch_up()
        self.read("state", e_stop=True)
        self.send(do="e_stop", engaged=False, beat=self.beat)

    def closed(self) -> int:
        """Returns the code with which the console closes this page's connection."""
        while True:
            try:
                self.socket.recv(timeout=self.wait_s)
            except Exception:
                code = self.socket.close_code
                assert code is not None, "the connection is still open"
                return code

    def vanish(self) -> None:
        """Drops the connection without a close frame, like a browser that crashes."""
        with contextlib.suppress(OSError):
            self.socket.socket.shutdown(socket.SHUT_RDWR)


OpenPage = Callable[..., Page]
"""The type of the fixture `open_page`."""
