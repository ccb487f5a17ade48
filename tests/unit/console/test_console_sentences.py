"""A sentence is read in the background: no stop waits for it, and its page's next message takes effect."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest
from support.consoles import FakeRobot, Page, wait_until

from outrider.console.limits import ConsoleLimits
from outrider.console.messages import MAX_MESSAGE_BYTES
from outrider.console.sentences import reading, turns
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.language.sentences.stops import LEFT_BY_A_STOP

SLOW = "go to the end of the corridor, number "


class SlowEyes:
    """Reads each sentence until the test lets it go on. `begun` lists the sentences in order."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._turns = threading.Semaphore(0)
        self._is_stop: Callable[[str], bool] = lambda sentence: "stop" in sentence

    def __call__(self, sentence: str) -> bool:
        self.begun.append(sentence)
        assert self._turns.acquire(timeout=10.0)
        return self._is_stop(sentence)

    def go_on(self, times: int = 1) -> None:
        self._turns.release(times)


@pytest.fixture
def eyes(monkeypatch: pytest.MonkeyPatch, server: ConsoleServer) -> Iterator[SlowEyes]:
    slow = SlowEyes()
    monkeypatch.setattr(reading, "says_to_stop", slow)
    yield slow
    slow.go_on(100)


def say_slowly(page: Page, eyes: SlowEyes, times: int = 1) -> None:
    for number in range(times):
        page.send(do="say", text=f"{SLOW}{number}")
    wait_until(lambda: eyes.begun, "the first one to be read")


@pytest.mark.parametrize("stops", ["its own", "another's", "said by another"])
def test_no_stop_waits_while_a_sentence_is_read(
    server: ConsoleServer, robot: FakeRobot, eyes: SlowEyes, stops: str
) -> None:
    page, other = Page(server), Page(server)
    say_slowly(page, eyes, turns.MAX_SENTENCES)
    if stops == "said by another":
        other.send(do="say", text=" STOP! ")
        wait_until(lambda: robot.cancels, "the stop")
    else:
        (page if stops == "its own" else other).send(do="e_stop", engaged=True)
        wait_until(lambda: robot.e_stops, "the stop")
    assert len(eyes.begun) == 1


def test_a_stop_in_more_words_is_read_before_longer_sentences(
    server: ConsoleServer, robot: FakeRobot, eyes: SlowEyes
) -> None:
    page, other = Page(server), Page(server)
    say_slowly(page, eyes, turns.MAX_SENTENCES)
    other.send(do="say", text="please stop it")
    other.send(do="ping", sent_ms=1.0)
    other.read("pong")
    eyes.go_on(2)
    wait_until(lambda: robot.cancels, "the stop")
    assert eyes.begun[1] == "please stop it"


@pytest.mark.parametrize("said", ["no wait, go to the chair", "please stop it"])
def test_who_orders_a_stop_is_told_that_the_rest_is_not_done(
    server: ConsoleServer, robot: FakeRobot, said: str
) -> None:
    page = Page(server).seated()
    page.send(do="say", text=said)
    wait_until(lambda: robot.cancels, "the stop")
    page.send(do="say", text="turn left")
    wait_until(lambda: robot.goals, "what is said anew")
    page.send(do="ping", sent_ms=1.0)
    told = [one for one in page.read_all("pong") if one["is"] == "notice"]
    assert [one["text"] for one in told] == ([LEFT_BY_A_STOP] if "chair" in said else [])
    assert [sentence for sentence, _ in robot.goals] == ["turn left"]


def test_what_a_page_says_next_comes_after_its_sentence(
    server: ConsoleServer, robot: FakeRobot, eyes: SlowEyes
) -> None:
    page = Page(server).seated()
    say_slowly(page, eyes)
    page.send(do="leave")
    page.send(do="ping", sent_ms=1.0)
    page.read("pong")
    assert page.read("state")["driver"] == page.name
    eyes.go_on()
    wait_until(lambda: robot.goals, "the command")
    page.read("state", driver="")


@pytest.mark.parametrize("stop", [{"do": "cancel"}, {"do": "e_stop", "engaged": True}])
def test_a_stop_ends_what_was_said_before_it_and_is_not_yet_read(
    server: ConsoleServer, robot: FakeRobot, eyes: SlowEyes, stop: dict[str, object]
) -> None:
    page, other = Page(server).seated(), Page(server)
    say_slowly(page, eyes)
    other.send(**stop)
    wait_until(lambda: robot.cancels, "the stop")
    eyes.go_on()
    page.read("notice", text=turns.STOPPED)
    assert not robot.goals


def test_of_one_page_few_sentences_wait_and_in_doubt_the_robot_stands(
    server: ConsoleServer, robot: FakeRobot, eyes: SlowEyes
) -> None:
    page = Page(server).seated()
    say_slowly(page, eyes, turns.MAX_SENTENCES)
    assert not robot.cancels
    page.send(do="say", text=f"{SLOW}too many")
    page.read("notice", text=turns.TOO_MANY)
    assert robot.cancels
    eyes.go_on(100)
    page.read("state")
    assert f"{SLOW}too many" not in eyes.begun


@pytest.mark.parametrize("limits", [ConsoleLimits(read_s=0.05)])
def test_what_takes_too_long_to_read_may_be_a_stop(
    server: ConsoleServer, robot: FakeRobot, eyes: SlowEyes
) -> None:
    page = Page(server).seated()
    say_slowly(page, eyes)
    page.read("notice", text=turns.TOO_LONG.format(0.05))
    assert robot.cancels
    eyes.go_on()
    page.send(do="leave")
    page.read("state", driver="")
    assert not robot.goals


@pytest.mark.parametrize("text", [SLOW, "please stop it", "wait!", "halt at the chair"])
def test_of_what_a_page_said_that_has_gone_stops_count_alone(
    server: ConsoleServer, robot: FakeRobot, eyes: SlowEyes, text: str
) -> None:
    page, other = Page(server).seated(), Page(server)
    page.send(do="say", text=text)
    wait_until(lambda: eyes.begun, "it to be read")
    page.socket.close()
    other.read("state", viewers=1)
    eyes.go_on(2)
    other.send(do="say", text=SLOW)
    wait_until(lambda: len(eyes.begun) == 2, "the next one to be read")
    assert not robot.goals
    assert bool(robot.cancels) == (text != SLOW)


@pytest.mark.parametrize("limits", [ConsoleLimits(hold_s=60.0)])
def test_keys_that_are_released_let_go_at_once(
    server: ConsoleServer, robot: FakeRobot, eyes: SlowEyes
) -> None:
    page = Page(server).seated()
    page.drive(forward=1.0)
    wait_until(lambda: robot.drives, "the hand")
    say_slowly(page, eyes)
    page.drive()
    wait_until(lambda: len(robot.drives) == 2, "the hand to be taken off")
    assert not any((robot.drives[-1].vx, robot.drives[-1].vy, robot.drives[-1].wz))


class HeldRobot(FakeRobot):
    """Blocks the console's event loop in its first cancel until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()

    def cancel_goal(self) -> None:
        super().cancel_goal()
        assert self.may_go_on.wait(10.0)


def reset(page: Page) -> None:
    """Resets the connection, like a page closed with unread pictures: nothing can be sent to it any more."""
    page.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    page.vanish()
    page.socket.recv_events_thread.join(10.0)


@pytest.mark.parametrize(
    "stop",
    [{"do": "cancel"}, {"do": "e_stop", "engaged": True}, {"do": "say", "text": "please stop it"}],
    ids=str,
)
@pytest.mark.parametrize("num_before", [0, 15])
def test_a_stop_is_read_though_its_page_went_before_it_was(stop: dict[str, object], num_before: int) -> None:
    """Also behind 30 KiB, as streamed voice leaves them."""
    robot = HeldRobot()
    server = ConsoleServer(robot, ConsoleSettings(port=0))
    try:
        page, other = Page(server), Page(server)
        other.send(do="cancel")
        wait_until(lambda: robot.cancels, "the event loop to be held up")
        for _ in range(num_before):
            page.socket.send(f"{json.dumps({'do': 'ping', 'sent_ms': 0.0}):{MAX_MESSAGE_BYTES}}")
        page.send(**stop)
        reset(page)
        robot.may_go_on.set()
        wait_until(lambda: robot.cancels + len(robot.e_stops) > 1, "the stop")
    finally:
        robot.may_go_on.set()
        server.close()
