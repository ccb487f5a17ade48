"""The button to talk, in headless Chromium, with a tone for a microphone."""

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
def engine() -> FakeEngine:
    made = FakeEngine()
    made.may_end.set()
    return made


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
