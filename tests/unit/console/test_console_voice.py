"""Push to talk over a real websocket, with an engine that recognises what the test says."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.consoles import FakeRobot, Page, wait_until
from support.speakers import STOP_SOUND, FakeEngine

from outrider.console.limits import ConsoleLimits
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.console.speech import recognition
from outrider.console.speech.messages import MAX_SAMPLE_BYTES
from outrider.core.errors import LinkError
from outrider.core.hearing import BYTES_A_SECOND
from outrider.core.language.sentences.stops import LEFT_BY_A_STOP

NUM_HEARD = 50
"""Pieces of sound for which an utterance has room, in tests of that limit."""


@pytest.fixture
def server(robot: FakeRobot, engine: FakeEngine, limits: ConsoleLimits) -> Iterator[ConsoleServer]:
    made = ConsoleServer(robot, ConsoleSettings(port=0, limits=limits), engine=engine)
    yield made
    engine.may_end.set()
    made.close()


def heard(text: str, note: str = "", is_whole: bool = True, press: int = 0) -> dict[str, object]:
    return {"is": "heard", "text": text, "note": note, "is_whole": is_whole, "press": press}


def sound(page: Page, samples: bytes) -> None:
    page.send(do="samples", samples=base64.b64encode(samples).decode())


def test_what_was_heard_comes_back_to_its_speaker_and_moves_nothing(
    server: ConsoleServer, robot: FakeRobot, engine: FakeEngine
) -> None:
    page = Page(server)
    page.send(do="listen")
    for _ in range(5):
        sound(page, b"ab" * 100)
    page.send(do="listened")
    assert page.read("heard") == heard("find the red chair")
    assert engine.utterances[0].heard == b"ab" * 500
    assert (robot.goals, robot.drives, robot.cancels) == ([], [], 0)


def test_a_stop_acts_while_it_is_said(server: ConsoleServer, robot: FakeRobot, engine: FakeEngine) -> None:
    engine.may_end.clear()
    page = Page(server)
    page.send(do="listen")
    sound(page, STOP_SOUND)
    assert page.read("heard") == heard("stop", recognition.STOPPED, is_whole=False)
    assert robot.cancels == 1


@pytest.mark.parametrize(
    ("sentence", "text", "note"),
    [
        ("stop", "stop", recognition.STOPPED),
        ("please stop now", "stop", recognition.STOPPED),
        ("no wait, go to the chair", "stop", f"{recognition.STOPPED}; {LEFT_BY_A_STOP}"),
        ("", "stop", recognition.STOPPED),
        ("find the red chair", "find the red chair", recognition.STOPPED_BEFORE),
    ],
)
def test_after_a_stop_the_sentence_is_heard_to_its_end(
    server: ConsoleServer, robot: FakeRobot, engine: FakeEngine, sentence: str, text: str, note: str
) -> None:
    engine.sentence = sentence
    page = Page(server)
    page.send(do="listen")
    sound(page, STOP_SOUND)
    assert not page.read("heard")["is_whole"]
    sound(page, b"ab" * 100)
    page.send(do="listened")
    assert page.read("heard") == heard(text, note)
    assert engine.utterances[0].heard == STOP_SOUND + b"ab" * 100
    assert robot.cancels == 1
    assert robot.goals == []


@pytest.mark.parametrize(
    ("said", "text", "note"),
    [
        ("please stop", "stop", recognition.STOPPED),
        ("wait ten seconds", "wait ten seconds", recognition.STOPPED_BEFORE),
    ],
    ids=["a stop", "to wait, which may be sent as a step"],
)
def test_what_is_recognised_as_a_stop_only_at_the_end_acts_too(
    server: ConsoleServer, robot: FakeRobot, engine: FakeEngine, said: str, text: str, note: str
) -> None:
    engine.sentence = said
    page = Page(server)
    page.send(do="listen")
    sound(page, b"ab")
    page.send(do="listened")
    assert page.read("heard") == heard(text, note)
    assert robot.cancels == 1


@pytest.mark.parametrize("goes", [False, True], ids=["speaks again", "goes"])
def test_a_stop_acts_though_its_speaker_speaks_again_or_goes_before_it_is_recognised(
    server: ConsoleServer, robot: FakeRobot, engine: FakeEngine, goes: bool
) -> None:
    engine.may_end.clear()
    engine.sentence = "please stop"
    page = Page(server)
    page.send(do="listen", press=1)
    sound(page, b"ab")
    page.send(do="listened")
    wait_until(lambda: engine.utterances and engine.utterances[0].heard, "the first is being recognised")
    if goes:
        page.vanish()
        wait_until(lambda: server.num_viewers == 0, "the page has gone")
    else:
        page.send(do="listen", press=2)
        sound(page, b"cd")
    engine.may_end.set()
    wait_until(lambda: robot.cancels == 1, "the stop")
    if goes:
        page = Page(server)
        page.send(do="listen", press=2)
        sound(page, b"cd")
    engine.sentence = "find the red chair"
    page.send(do="listened")
    assert page.read("heard") == heard("find the red chair", press=2)
    assert [one.heard for one in engine.utterances] == [b"ab", b"cd"]
    assert (robot.goals, robot.cancels) == ([], 1)


def test_of_more_than_a_few_utterances_that_wait_any_may_be_a_stop(
    server: ConsoleServer, robot: FakeRobot, engine: FakeEngine
) -> None:
    engine.may_end.clear()
    page = Page(server)
    for press in range(recognition.MAX_UNRECOGNISED + 1):
        page.send(do="listen", press=press)
        sound(page, b"ab")
    assert page.read("heard") == heard("", recognition.TOO_MANY, press=recognition.MAX_UNRECOGNISED)
    assert robot.cancels == 1


@pytest.mark.parametrize("limits", [ConsoleLimits(silence_s=0.05)])
def test_a_stop_before_the_microphone_died_acts(
    server: ConsoleServer, robot: FakeRobot, engine: FakeEngine
) -> None:
    engine.sentence = "please stop"
    page = Page(server)
    page.send(do="listen")
    sound(page, b"ab")
    assert page.read("heard") == heard("stop", recognition.STOPPED)
    assert robot.cancels == 1


def test_each_stop_in_an_utterance_acts(server: ConsoleServer, robot: FakeRobot) -> None:
    page = Page(server)
    page.send(do="listen")
    for count in (1, 2, 3):
        sound(page, STOP_SOUND)
        assert page.read("heard")["note"] == recognition.STOPPED
        assert robot.cancels == count


def test_the_button_stops_while_a_sentence_is_recognised(
    server: ConsoleServer, robot: FakeRobot, engine: FakeEngine
) -> None:
    engine.may_end.clear()
    page = Page(server)
    page.send(do="listen")
    sound(page, b"ab")
    page.send(do="listened")
    page.send(do="cancel")
    wait_until(lambda: robot.cancels, "the stop reaches the robot")
    engine.may_end.set()
    assert page.read("heard")["text"] == "find the red chair"


@pytest.mark.parametrize("limits", [ConsoleLimits(silence_s=0.05)])
def test_a_microphone_that_dies_is_said_and_moves_nothing(server: ConsoleServer, robot: FakeRobot) -> None:
    page = Page(server)
    page.send(do="listen")
    sound(page, b"ab")
    assert page.read("heard") == heard("", recognition.DIED)
    assert robot.goals == []


@pytest.mark.parametrize(
    ("failure", "note"),
    [
        (LinkError("the speech engine has ended"), "the speech engine has ended"),
        (ValueError("of a library"), recognition.BROKEN.format("ValueError", "of a library")),
    ],
    ids=["ours", "any other"],
)
def test_an_engine_that_fails_is_said_and_the_next_utterance_is_heard(
    server: ConsoleServer, engine: FakeEngine, failure: Exception, note: str
) -> None:
    engine.failure = failure
    page = Page(server)
    page.send(do="listen")
    sound(page, b"ab")
    assert page.read("heard")["note"] == note
    engine.failure = None
    page.send(do="listen")
    sound(page, b"ab")
    page.send(do="listened")
    assert page.read("heard")["text"] == "find the red chair"


def test_without_an_engine_the_page_is_told_what_to_install(robot: FakeRobot) -> None:
    made = ConsoleServer(robot, ConsoleSettings(port=0))
    try:
        page = Page(made)
        page.send(do="listen")
        assert page.read("heard")["note"] == recognition.NO_ENGINE
    finally:
        made.close()


def test_one_person_speaks_at_a_time_and_leaves_the_turn_by_leaving(server: ConsoleServer) -> None:
    first, second = Page(server), Page(server)
    first.send(do="listen")
    sound(first, b"ab")
    first.send(do="ping", sent_ms=1.0)
    first.read("pong", sent_ms=1.0)
    second.send(do="listen")
    assert second.read("heard")["note"] == recognition.BUSY
    first.vanish()
    wait_until(lambda: server.num_viewers == 1, "the first page has gone")
    second.send(do="listen")
    sound(second, b"ab")
    second.send(do="listened")
    assert second.read("heard")["text"] == "find the red chair"


@pytest.mark.parametrize("limits", [ConsoleLimits(utterance_s=0.1)])
def test_what_lasts_too_long_is_cut_off(server: ConsoleServer) -> None:
    page = Page(server)
    page.send(do="listen")
    for _ in range(3):
        sound(page, bytes(MAX_SAMPLE_BYTES))
    assert page.read("heard") == heard("find the red chair", recognition.TOO_LONG.format(0.1))


@pytest.mark.parametrize("limits", [ConsoleLimits(utterance_s=NUM_HEARD * MAX_SAMPLE_BYTES / BYTES_A_SECOND)])
def test_what_comes_after_the_longest_is_not_heard(
    server: ConsoleServer, engine: FakeEngine, limits: ConsoleLimits
) -> None:
    engine.may_end.clear()
    page = Page(server)
    page.send(do="listen")
    for _ in range(NUM_HEARD + 15):
        sound(page, bytes(MAX_SAMPLE_BYTES))
    page.send(do="ping", sent_ms=1.0)
    page.read("pong", sent_ms=1.0)
    engine.may_end.set()
    assert page.read("heard") == heard("find the red chair", recognition.TOO_LONG.format(limits.utterance_s))
    assert len(engine.utterances[0].heard) == NUM_HEARD * MAX_SAMPLE_BYTES


def speak_until_told(page: Page, say: Callable[[], None]) -> dict[str, Any]:
    """Keeps speaking until the page gets what was recognised. Returns that message."""
    told: list[dict[str, Any]] = []
    reader = threading.Thread(target=lambda: told.append(page.read("heard")))
    reader.start()
    while reader.is_alive():
        say()
        reader.join(0.02)
    return told[0]


@pytest.mark.lengthy
@pytest.mark.parametrize("limits", [ConsoleLimits(utterance_s=0.5)])
@pytest.mark.parametrize("begins_anew", [False, True], ids=["a byte at a time", "begins again and again"])
def test_who_says_little_for_long_has_no_more_time(server: ConsoleServer, begins_anew: bool) -> None:
    first, second = Page(server), Page(server)

    def say() -> None:
        if begins_anew:
            first.send(do="listen")
        sound(first, b"a")

    first.send(do="listen")
    assert speak_until_told(first, say) == heard("find the red chair", recognition.TOO_LONG.format(0.5))
    first.vanish()
    wait_until(lambda: server.num_viewers == 1, "the first page has gone")
    second.send(do="listen")
    second.send(do="listened")
    assert second.read("heard")["text"] == "find the red chair"


@pytest.mark.lengthy
@pytest.mark.parametrize("limits", [ConsoleLimits(utterance_s=1.0)])
def test_each_turn_has_its_own_time(server: ConsoleServer, limits: ConsoleLimits) -> None:
    page = Page(server)
    begun_s = time.monotonic()
    while time.monotonic() < begun_s + 1.5 * limits.utterance_s:
        page.send(do="listen")
        sound(page, b"ab")
        page.read("state")
        page.send(do="listened")
        assert page.read("heard") == heard("find the red chair")


@pytest.mark.lengthy
@pytest.mark.parametrize("limits", [ConsoleLimits(utterance_s=1.0)])
@pytest.mark.parametrize("is_cut", [False, True], ids=["released in time", "released too late"])
def test_who_speaks_again_before_the_first_is_recognised_is_heard(
    server: ConsoleServer, robot: FakeRobot, engine: FakeEngine, limits: ConsoleLimits, is_cut: bool
) -> None:
    engine.may_end.clear()
    page = Page(server)
    page.send(do="listen", press=1)
    sound(page, b"ab")
    if not is_cut:
        page.send(do="listened")
    wait_until(lambda: engine.utterances and engine.utterances[0].heard, "the first is being recognised")
    time.sleep(1.1 * limits.utterance_s)
    if is_cut:
        page.send(do="listened")
    page.send(do="listen", press=2)
    for number in (1.0, 2.0):  # a person speaks later than that
        page.send(do="ping", sent_ms=number)
        page.read("pong", sent_ms=number)
    sound(page, b"cd")
    page.send(do="listened")
    engine.sentence = "please stop"
    engine.may_end.set()
    assert page.read("heard") == heard("stop", recognition.STOPPED, press=2)
    assert [one.heard for one in engine.utterances] == [b"ab", b"cd"]


def test_a_larger_piece_of_sound_ends_the_connection(server: ConsoleServer) -> None:
    page = Page(server)
    page.send(do="listen")
    sound(page, bytes(MAX_SAMPLE_BYTES + 1))
    assert page.closed() == 1008


def test_an_agent_has_no_microphone(server: ConsoleServer, engine: FakeEngine) -> None:
    agent = Page(server, agent="one")
    agent.send(do="listen")
    sound(agent, STOP_SOUND)
    agent.send(do="ping", sent_ms=1.0)
    agent.read("pong", sent_ms=1.0)
    assert engine.utterances == []
