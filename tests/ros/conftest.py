"""Runs nodes in threads of this process, on a DDS domain of this session alone, local to the machine."""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outrider.runtime.processes.ros_env import discovery_port, free_domain

if TYPE_CHECKING:
    from graphs import Robot, Teleop
    from support.relays import Relays


def own_domain() -> int:
    """Returns a free domain that no other worker of this session uses."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    while (domain := free_domain()) % workers != number:
        pass
    return domain


def held(domain: int) -> socket.socket:
    """Returns a socket that reserves a domain, even while this process has no node."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    holder.bind(("127.0.0.1", discovery_port(domain)))
    return holder


# Do not share a domain with another test session or a demo: their topics would mix.
DOMAIN = own_domain()
HOLDER = held(DOMAIN)
os.environ["ROS_DOMAIN_ID"] = str(DOMAIN)
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
# Processes started here must end on SIGHUP, even if the tests run under nohup.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

rclpy = pytest.importorskip("rclpy")
pytest.importorskip("outrider_interfaces")

from rclpy.action import ActionClient  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402

from outrider.nodes.common.running import ThreadedExecutor, spin_once, spin_until  # noqa: E402

WAIT_S = 20.0


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = WAIT_S) -> Any:
    """Returns the condition's first true value. The test fails if it stays false until the timeout."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"not within {timeout_s:g} s: {what}")


class NodeThread:
    """Runs a node in a thread of its own, from creation to destruction, as the node's process would."""

    def __init__(self, make_node: Callable[[], Any], start: bool = True, threads: int = 1) -> None:
        self.node: Any = None
        self.error: BaseException | None = None
        self._make_node, self._start = make_node, start
        self._executor = SingleThreadedExecutor() if threads == 1 else ThreadedExecutor(threads)
        self._stopping, self._made = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._made.wait(WAIT_S), "the node was not made in time"
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            self.node = self._make_node()
            if self._start:
                self.node.start()
        except BaseException as error:
            self.error = error
            return
        finally:
            self._made.set()
        spin_until(self.node, self._executor, self._stopping)
        self.node.end()
        self.node.destroy_node()

    def stop(self) -> None:
        if self._thread.is_alive():
            # A task wakes the executor.
            self._executor.create_task(self._stopping.set)
        self._stopping.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "the node did not end"


@pytest.fixture(scope="session")
def light_collections() -> None:
    """Collects garbage once and freezes the rest, so that the collection after each test is fast."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def ros(light_collections: None) -> Iterator[None]:
    """Initialises rclpy for the test."""
    rclpy.init()
    yield
    rclpy.shutdown()
    # Collect now: a participant that leaves while another one appears can block for ever (see leave_ros).
    gc.collect()


@pytest.fixture
def run_node(ros: None) -> Iterator[Callable[..., NodeThread]]:
    """Returns a function that starts nodes; they are stopped at the end of the test."""
    running: list[NodeThread] = []

    def run(make_node: Callable[[], Any], start: bool = True, threads: int = 1) -> NodeThread:
        thread = NodeThread(make_node, start, threads)
        running.append(thread)
        return thread

    yield run
    for thread in reversed(running):
        thread.stop()


class Client:
    """A plain node with publishers and subscriptions for a test."""

    def __init__(self) -> None:
        self.node = rclpy.create_node("test_client")
        self._publishers: dict[str, Any] = {}
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._stopping.is_set():
            spin_once(self._executor, 0.02)

    def do(self, call: Callable[[], Any]) -> Any:
        """Returns the value of a call by this client's thread, to which action clients belong."""
        task = self._executor.create_task(call)
        wait_until(task.done, "the client's thread")
        return task.result()

    def listen(self, message: type, topic: str, qos: Any) -> list[Any]:
        """Subscribes to a topic. Returns a list that grows with each message."""
        received: list[Any] = []
        self.node.create_subscription(message, topic, received.append, qos)
        return received

    def publisher(self, message: type, topic: str, qos: Any, wait: bool = True) -> Any:
        """Returns this client's publisher of a topic. With `wait`, waits for a subscriber first."""
        if topic not in self._publishers:
            self._publishers[topic] = self.node.create_publisher(message, topic, qos)
        publisher = self._publishers[topic]
        if wait:
            wait_until(lambda: publisher.get_subscription_count() > 0, f"a subscriber of {topic}")
        return publisher

    def publish(self, message: Any, topic: str, qos: Any, wait: bool = True) -> None:
        """Publishes a message. With `wait`, waits for a subscriber first."""
        self.publisher(type(message), topic, qos, wait).publish(message)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(WAIT_S)
        # Otherwise an interrupted executor may keep publishers alive, which the next test would see.
        self._executor.shutdown()
        # An action client outlives its node unless it is destroyed; the next test would see it.
        for waitable in list(self.node.waitables):
            if isinstance(waitable, ActionClient):
                waitable.destroy()
        self.node.destroy_node()


@pytest.fixture
def client(ros: None) -> Iterator[Client]:
    made = Client()
    yield made
    made.close()


@pytest.fixture
def robot(run_node: Callable[..., NodeThread], client: Client) -> Robot:
    """Returns a simulated robot that is sent goals."""
    from graphs import start_robot

    return start_robot(run_node, client)


@pytest.fixture
def relays(tmp_path: Path) -> Relays:
    """Returns keys and addresses of a relay for the console to dial. It runs only if a test serves it."""
    from support.relays import make_relays

    return make_relays(tmp_path)


@pytest.fixture
def teleop(run_node: Callable[..., NodeThread], client: Client, relays: Relays) -> Teleop:
    """Returns a simulated robot with a console."""
    from graphs import start_teleop

    return start_teleop(run_node, client, relays)
