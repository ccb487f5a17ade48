"""The talk button in headless Chromium, with a tone as its microphone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.browsers import PHONE, take_seat
from support.consoles import FakeRobot, wait_until
from support.speakers import FakeEngine

from outrider.console.server import ConsoleServer, ConsoleSettings

MICROPHONE = """navigator.mediaDevices.getUserMedia = async () => {
  const context = new AudioContext(), tone = context.createOscillator();
  const out = context.createMediaStreamDestination();
  tone.connect(out); tone.start();
  return out.stream;
};"""
NO_MICROPHONE = "navigator.mediaDevices.getUserMedia = async () => { throw new Error('permission denied'); };"


@pytest.fixture
def server(robot: FakeRobot, engine: FakeEngine) -> Iterator[ConsoleServer]:
    made = ConsoleServer(robot, ConsoleSettings(port=0), engine=engine)
    yield made
    made.close()


def opened(browser: Any, server: ConsoleServer, script: str, **options: Any) -> Any:
    page = browser.new_page(**options)
    page.add_init_script(script)
    page.goto(server.url)
    page.wait_for_selector("#page-link.good")
    return page


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_what_is_said_is_shown_corrected_and_sent_by_the_person(
    browser: Any, server: ConsoleServer, robot: FakeRobot, engine: FakeEngine, options: dict[str, Any]
) -> None:
    page = opened(browser, server, MICROPHONE, **options)
    take_seat(page)
    page.dispatch_event("#talk", "pointerdown")
    wait_until(lambda: engine.utterances and len(engine.utterances[0].heard) > 6400, "sound arrives")
    page.dispatch_event("#talk", "pointerup")
    wait_until(lambda: page.input_value("#words") == "find the red chair", "what was heard is shown")
    assert any(engine.utterances[0].heard)
    assert robot.goals == []
    page.fill("#words", "find the blue chair")
    page.press("#words", "Enter")
    wait_until(lambda: robot.goals, "the goal is sent")
    assert robot.goals[0][0] == "find the blue chair"
    page.close()


def test_without_a_microphone_the_page_says_so(browser: Any, server: ConsoleServer, robot: FakeRobot) -> None:
    page = opened(browser, server, NO_MICROPHONE)
    page.dispatch_event("#talk", "pointerdown")
    page.wait_for_selector("#answer:has-text('no microphone: permission denied')")
    assert robot.goals == []
    page.close()


GATED = """window.tracks = []; window.sent = []; window.sockets = [];
const asked = [];
window.allow = () => asked.shift()();
navigator.mediaDevices.getUserMedia = async () => {
  await new Promise((resolve) => asked.push(resolve));
  const context = new AudioContext(), tone = context.createOscillator();
  const out = context.createMediaStreamDestination();
  tone.connect(out); tone.start();
  window.tracks.push(...out.stream.getTracks());
  return out.stream;
};
const Plain = WebSocket;
window.WebSocket = class extends Plain {
  constructor(address) { super(address); window.sockets.push(this); }
  send(message) { window.sent.push(JSON.parse(message).do); super.send(message); }
};"""
LIVE = "window.tracks.filter((track) => track.readyState === 'live').length"


def press(page: Any) -> None:
    page.dispatch_event("#talk", "pointerdown")


def let_go(page: Any) -> None:
    page.dispatch_event("#talk", "pointerup")


@pytest.mark.parametrize("allowed", ["before the release", "after the release"])
def test_no_microphone_stays_on_after_a_press_while_the_person_is_still_asked(
    browser: Any, server: ConsoleServer, allowed: str
) -> None:
    page = opened(browser, server, GATED)
    press(page)
    let_go(page)
    press(page)
    if allowed == "before the release":
        page.evaluate("window.allow(); window.allow()")
        page.wait_for_selector("#answer >> text=listening")
        assert page.evaluate(LIVE) == 1
        let_go(page)
    else:
        let_go(page)
        page.evaluate("window.allow(); window.allow()")
    wait_until(lambda: page.evaluate("window.tracks.length") == 2, "both are given")
    wait_until(lambda: page.evaluate(LIVE) == 0, "both are off")
    asked = page.evaluate("window.sent.filter((one) => one === 'listen').length")
    assert asked == (1 if allowed == "before the release" else 0)
    page.close()


def listening(browser: Any, server: ConsoleServer) -> Any:
    """Returns a page that listens after one press, with its microphone allowed."""
    page = opened(browser, server, GATED)
    press(page)
    page.evaluate("window.allow()")
    page.wait_for_selector("#answer >> text=listening")
    return page


@pytest.mark.parametrize("when", ["listening", "recognising"])
def test_a_connection_that_is_lost_ends_what_was_said(
    browser: Any, server: ConsoleServer, engine: FakeEngine, when: str
) -> None:
    engine.may_end.clear()
    page = listening(browser, server)
    if when == "recognising":
        let_go(page)
        page.wait_for_selector("#answer >> text=recognising")
    page.evaluate("window.sockets.at(-1).close()")
    page.wait_for_selector("#answer.bad >> text=say it again")
    engine.may_end.set()
    wait_until(lambda: page.evaluate(LIVE) == 0, "the microphone is off")
    page.wait_for_selector("#page-link.good")
    assert page.input_value("#words") == "" and "say it again" in page.inner_text("#answer")
    page.close()


def test_what_is_heard_is_added_to_what_was_typed_and_replaces_what_was_heard(
    browser: Any, server: ConsoleServer
) -> None:
    page = opened(browser, server, MICROPHONE)
    for typed, expected in (
        ("turn left, then", "turn left, then find the red chair"),
        ("", "find the red chair"),
        ("find the red chair", "find the red chair"),
    ):
        page.fill("#words", typed)
        press(page)
        page.wait_for_selector("#answer >> text=listening")
        let_go(page)
        page.wait_for_selector("#answer.good >> text=heard")
        assert page.input_value("#words") == expected
    page.close()


def test_what_is_heard_of_one_press_does_not_end_the_next(
    browser: Any, server: ConsoleServer, engine: FakeEngine
) -> None:
    engine.may_end.clear()
    page = listening(browser, server)
    let_go(page)
    page.wait_for_selector("#answer >> text=recognising")
    press(page)
    engine.may_end.set()
    wait_until(lambda: page.input_value("#words") == "find the red chair", "the first is heard")
    page.evaluate("window.allow()")
    wait_until(lambda: len(engine.utterances) > 1 and engine.utterances[1].heard, "the second is heard")
    assert page.evaluate(LIVE) == 1 and page.locator("#talk.held").count() == 1
    let_go(page)
    page.wait_for_selector("#answer.good >> text=heard")
    page.close()
