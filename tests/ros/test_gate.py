"""Gates: subscriptions that do not wake the executor while nothing needs them, and timers that slow down."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Client, NodeThread, wait_until
from std_msgs.msg import Int32

from outrider.nodes.common import gate as gate_module
from outrider.nodes.common import qos
from outrider.nodes.common.gate import Gate
from outrider.nodes.common.node import pace
from outrider.nodes.observers.markers_node import MarkersNode


class Listener(MarkersNode):
    """A node with a gate and nothing else to do."""

    def configure(self) -> None:
        self.numbers: list[int] = []
        self.came_s: list[float] = []
        self.wakes: list[float] = []
        self.then: Callable[[], None] = lambda: None
        self.gate = Gate(self)
        self.gate.subscription(Int32, "numbers", self._on_number, qos.RECENT_SENSOR)

    def _on_number(self, message: Int32, came_s: float) -> None:
        self.numbers.append(message.data)
        self.came_s.append(came_s)
        self.then()

    def activate(self) -> None:
        self.timer: Any = self.active_timer(0.01, lambda: self.wakes.append(time.monotonic()))

    def wakes_often(self) -> None:
        """Returns once the executor has been awake for a while."""
        before = len(self.wakes)
        wait_until(lambda: len(self.wakes) > before + 20, "the executor to be awake for a while")

    def in_its_thread(self, call: Callable[[], None]) -> None:
        """Runs a call in the executor's thread, where gates must be read."""
        done = threading.Event()
        guard = self.create_guard_condition(lambda: (call(), done.set()))
        guard.trigger()
        assert done.wait(5.0)
        self.destroy_guard_condition(guard)

    def read(self, number: int) -> bool:
        """Reads the gate. Returns whether the last number that has arrived is `number`."""
        self.in_its_thread(self.gate.read)
        return self.numbers[-1:] == [number]


@pytest.fixture
def listener(run_node: Callable[..., NodeThread]) -> Listener:
    return run_node(Listener).node


def say(client: Client, *numbers: int) -> None:
    for number in numbers:
        client.publish(Int32(data=number), "numbers", qos.EVENTS)


def test_a_closed_gate_keeps_messages_until_they_are_read(listener: Listener, client: Client) -> None:
    say(client, 1, 2, 3, 4)
    listener.wakes_often()
    assert listener.numbers == []
    wait_until(lambda: listener.read(4), "the messages")
    assert listener.numbers == [1, 2, 3, 4]


def test_a_message_comes_with_the_moment_of_its_arrival(listener: Listener, client: Client) -> None:
    said_s = time.monotonic()
    say(client, 1)
    listener.wakes_often()
    say(client, 2)
    read_s = time.monotonic()
    wait_until(lambda: listener.read(2), "the messages")
    first_s, last_s = listener.came_s
    assert said_s <= first_s < last_s <= time.monotonic() and first_s < read_s - 0.1


def test_messages_handled_at_once_and_read_keep_the_order_of_their_arrival(
    listener: Listener, client: Client
) -> None:
    """Two arrive while the node is busy: the executor handles the first, whose handler reads the second."""
    heard = client.listen(Int32, "numbers", qos.EVENTS)
    said_s: list[float] = []

    def be_busy() -> None:
        listener.gate.is_open, listener.then = True, listener.gate.read
        for number in (1, 2):
            said_s.append(time.monotonic())
            say(client, number)
            wait_until(lambda: len(heard) == number, "the message")  # noqa: B023

    listener.in_its_thread(be_busy)
    wait_until(lambda: listener.numbers == [1, 2], "the messages")
    first_s, last_s = listener.came_s
    assert said_s[0] <= first_s <= last_s and said_s[1] <= last_s <= time.monotonic()


def test_a_callback_that_takes_long_dates_no_later_message(listener: Listener, client: Client) -> None:
    heard, slow_s = client.listen(Int32, "numbers", qos.EVENTS), []
    said_s = time.monotonic()
    say(client, 1, 2)
    wait_until(lambda: len(heard) == 2, "the messages")

    def be_slow() -> None:
        listener.then = lambda: None
        slow_s.append(time.monotonic())
        say(client, 3)
        wait_until(lambda: len(heard) == 3, "the message")
        time.sleep(slow_s[0] - said_s)

    listener.then = be_slow
    wait_until(lambda: listener.read(3), "the messages")
    assert listener.came_s == sorted(listener.came_s) and listener.came_s[1] <= slow_s[0]


def test_without_times_of_arrival_messages_count_as_having_come_evenly(
    listener: Listener, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_back = SimpleNamespace(monotonic=time.monotonic, time_ns=lambda: time.time_ns() - 3_600_000_000_000)
    monkeypatch.setattr(gate_module, "time", set_back)
    began_s = time.monotonic()
    listener.in_its_thread(listener.gate.discard)
    say(client, 1, 2)
    listener.wakes_often()
    wait_until(lambda: listener.read(2), "the messages")
    first_s, last_s = listener.came_s
    now_s = time.monotonic()
    assert 0.1 < last_s - first_s < 0.5 * (now_s - began_s) + 0.01 and last_s <= now_s


def test_an_open_gate_calls_back_at_once_and_a_closed_one_no_more(listener: Listener, client: Client) -> None:
    listener.in_its_thread(lambda: setattr(listener.gate, "is_open", True))
    say(client, 1)
    wait_until(lambda: listener.numbers == [1], "the message")
    listener.in_its_thread(lambda: setattr(listener.gate, "is_open", False))
    say(client, 2)
    listener.wakes_often()
    assert listener.numbers == [1]


def test_what_waited_too_long_can_be_dropped(listener: Listener, client: Client) -> None:
    say(client, 1)
    listener.wakes_often()
    listener.in_its_thread(listener.gate.discard)
    say(client, 2)
    wait_until(lambda: listener.read(2), "the next message")
    assert listener.numbers == [2]


def test_a_timer_takes_another_pace(listener: Listener) -> None:
    listener.in_its_thread(lambda: pace([listener.timer], 0.2))
    before = len(listener.wakes)
    wait_until(lambda: len(listener.wakes) >= before + 3, "calls")
    last = listener.wakes[before + 1 : before + 3]
    assert last[1] - last[0] > 0.15
