# SPDX-License-Identifier: Apache-2.0
"""`outrider bench relay`: measures what a relay adds to the console's delays, on the loopback.

One console, with a robot that only records stops, is opened directly and through a relay in its own process.
Both ways are timed in turn, while pictures go to both.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from outrider.console.drawing.frames import picture_number
from outrider.console.relay.robot_end import RobotEnd
from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.console.switching.switches import NOT_EMULATED, Switch
from outrider.core.errors import LinkError
from outrider.core.values import LinkState, Velocity
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.polling import wait_until
from outrider.evaluation.common.tables import print_results, results_table
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.ports import free_port
from outrider.wire.keys import SERVER_KEY_FILE, create_keys, load_client_keys
from outrider.wire.tunnel import RobotTunnel

LIMIT_MS = 10.0
PICTURE_BYTES = 60_000
PICTURE_PERIOD_S = 0.1
WAIT_S = 20.0
ROBOT = "robot"
WAYS = ("direct", "relayed")
TIMED = {
    "ping_ms": "a ping and its answer",
    "e_stop_ms": "click on the stop until the robot is told",
    "picture_ms": "picture from the robot to the page",
}


class _RecordingRobot:
    """A RobotPort that records when it received a stop."""

    limits = Velocity(0.5, 0.2, 1.0)

    def __init__(self) -> None:
        self.stopped_s = 0.0

    def drive(self, velocity: Velocity) -> None:
        """Does nothing: this robot does not move."""

    def set_e_stop(self, engaged: bool) -> bool:
        """Record the time of the first call."""
        self.stopped_s = self.stopped_s or time.perf_counter()
        return True

    def send_goal(self, instruction: str, on_end: Callable[[GoalEnd], None]) -> None:
        """End the goal at once."""
        on_end(GoalEnd(False, "no robot"))

    def cancel_goal(self) -> None:
        """Does nothing: no goal is running."""

    def switch(self, asked: Switch, on_end: Callable[[str], None]) -> None:
        """Report that switches are not emulated."""
        on_end(NOT_EMULATED)


class _Page:
    """A page that acknowledges every picture, and waits for given messages."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.send(do="hello")
        self.until(lambda message: message["is"] == "welcome")

    def send(self, **message: Any) -> None:
        """Send a message."""
        self._socket.send(json.dumps(message))

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Wait for a message. A picture is a message of the kind `picture`."""
        while not wanted(self._next()):
            pass

    def _next(self) -> dict[str, Any]:
        try:
            content = self._socket.recv(timeout=WAIT_S)
        except (TimeoutError, WebSocketException) as error:
            raise LinkError(f"the console does not answer ({error}): is the machine busy?") from None
        if isinstance(content, str):
            return dict(json.loads(content))
        self.send(do="seen", picture=picture_number(content))
        return {"is": "picture", "content": content[4:]}


def bench_relay(trials: int, json_file: Path | None = None) -> dict[str, Any]:
    """Measure, print a table, write JSON. Raises LinkError where the relay does not answer."""
    robot = _RecordingRobot()
    times: dict[tuple[str, str], list[float]] = {(way, name): [] for way in WAYS for name in TIMED}
    with _opened(robot) as (console, pages):
        for number in range(trials):
            for way, page in pages.items():
                times[way, "ping_ms"].append(_time_ping(page, number))
                times[way, "e_stop_ms"].append(_time_e_stop(page, robot, console))
                times[way, "picture_ms"].append(_time_picture(page, console, number))
    figures = _figures(times, trials)
    title = f"The console through a relay on the loopback, {trials} trials"
    rows = ((words, *_cells(figures[name])) for name, words in TIMED.items())
    print_results(results_table(title, *LEGENDS["bench relay"], rows=rows))
    write_figures(json_file, figures)
    return figures


def _time_ping(page: _Page, number: int) -> float:
    begun_s = time.perf_counter()
    page.send(do="ping", sent_ms=number)
    page.until(lambda message: message["is"] == "pong" and message["sent_ms"] == number)
    return time.perf_counter() - begun_s


def _time_e_stop(page: _Page, robot: _RecordingRobot, console: ConsoleServer) -> float:
    robot.stopped_s = 0.0
    clicked_s = time.perf_counter()
    page.send(do="e_stop", engaged=True)
    page.until(lambda message: message["is"] == "state" and message["e_stop"])
    page.until(lambda message: message["is"] == "state" and _is_released(message, console))
    return robot.stopped_s - clicked_s


def _is_released(state: dict[str, Any], console: ConsoleServer) -> bool:
    """Whether the stop is released; else release it. It comes by two connections, so it may engage again."""
    if state["e_stop"]:
        console.update(e_stop=False)
    return not state["e_stop"]


def _time_picture(page: _Page, console: ConsoleServer, number: int) -> float:
    """The delay of a picture after a pause, at a camera's rate."""
    time.sleep(PICTURE_PERIOD_S)
    picture = number.to_bytes(4, "big") * (PICTURE_BYTES // 4)
    taken_s = time.perf_counter()
    console.show_picture(picture)
    page.until(lambda message: message["is"] == "picture" and message["content"] == picture)
    return time.perf_counter() - taken_s


@contextmanager
def _opened(robot: _RecordingRobot) -> Iterator[tuple[ConsoleServer, dict[str, _Page]]]:
    """Yields the console, and one page for each way."""
    with tempfile.TemporaryDirectory(prefix="outrider-") as name, ExitStack() as stack:
        keys = Path(name) / "keys"
        create_keys(keys, (ROBOT,))
        endpoint, port = stack.enter_context(_relay_process(keys))
        robot_end = RobotEnd(lambda: RobotTunnel(endpoint, load_client_keys(keys / f"{ROBOT}.key")))
        console = stack.enter_context(
            closing(ConsoleServer(robot, ConsoleSettings(port=0), alongside=robot_end.run))
        )
        if not wait_until(lambda: robot_end.state is LinkState.CONNECTED, WAIT_S):
            raise LinkError("the robot does not reach the relay")
        addresses = zip(WAYS, ((console.port, ""), (port, f"/robots/{ROBOT}")), strict=True)
        pages = {way: _Page(stack.enter_context(_connected(*address))) for way, address in addresses}
        yield console, pages


def _connected(port: int, path: str) -> Any:
    origin: Any = f"http://127.0.0.1:{port}"
    return connect(
        f"ws://127.0.0.1:{port}{path}/ws", origin=origin, compression=None, proxy=None, ping_interval=None
    )


@contextmanager
def _relay_process(keys: Path) -> Iterator[tuple[str, int]]:
    """Run `outrider relay` in a process; yields the endpoint for robots, and the port of its pages."""
    endpoint, port = f"tcp://127.0.0.1:{free_port()}", free_port()
    command = [sys.executable, "-m", "outrider", "relay", "--endpoint", endpoint, "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--key-file", str(keys / SERVER_KEY_FILE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        if process.stdout is None or not process.stdout.readline().startswith("relay at"):
            raise LinkError("the relay does not start: try `outrider relay` by itself")
        yield endpoint, port
    finally:
        process.terminate()
        process.communicate()


def _figures(times: dict[tuple[str, str], list[float]], trials: int) -> dict[str, Any]:
    """Medians and 95th percentiles in milliseconds, and what the relay adds to each."""
    figures: dict[str, Any] = {"trials": trials, "limit_ms": LIMIT_MS}
    for name in TIMED:
        direct, relayed = (_spread(times[way, name]) for way in WAYS)
        added = [b - a for a, b in zip(direct, relayed, strict=True)]
        figures[name] = {"direct": direct, "relayed": relayed, "added": added}
    return figures


def _spread(times_s: Sequence[float]) -> list[float]:
    return [float(np.percentile(times_s, share)) * 1e3 for share in (50, 95)]


def _cells(spreads: dict[str, list[float]]) -> Iterator[str]:
    return (f"{median:.2f}, {p95:.2f} ms" for median, p95 in spreads.values())
