"""Spoken answers: made on the console's side, sent to the page that asked, and played there by choice."""

from __future__ import annotations

import base64
import io
import threading
import wave
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from support.browsers import PHONE, take_seat
from support.consoles import FakeRobot, Page, wait_until

from outrider.console.robot import GoalEnd
from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.console.speech.answers import BROKEN, NO_ENGINE
from outrider.console.speech.messages import MAX_SPOKEN_CHARACTERS
from outrider.core.errors import ConfigError
from outrider.core.hearing import SAMPLE_RATE_HZ

WATCH = """
window.played = []; window.browserSpoke = []; window.violations = [];
const play = HTMLMediaElement.prototype.play;
HTMLMediaElement.prototype.play = function () { window.played.push(this); return play.call(this); };
if (window.speechSynthesis) window.speechSynthesis.speak = (said) => window.browserSpoke.push(said.text);
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.blockedURI));
"""


def tone(seconds: float = 0.4) -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE_HZ)
        wave_of = 3000 * np.sin(np.arange(int(seconds * SAMPLE_RATE_HZ)) / 8)
        file.writeframes(wave_of.astype("<i2").tobytes())
    return made.getvalue()


@dataclass
class FakeVoice:
    """Implements `core.hearing.TtsEngine`."""

    failure: str = ""
    failure_of: type[Exception] = ConfigError
    spoken: list[tuple[str, str]] = field(default_factory=list)
    may_end: threading.Event = field(default_factory=threading.Event)

    def speak(self, text: str, language: str) -> bytes:
        self.spoken.append((text, language))
        assert self.may_end.wait(10.0)
        if self.failure:
            raise self.failure_of(self.failure)
        return tone()


@pytest.fixture
def voice() -> FakeVoice:
    made = FakeVoice()
    made.may_end.set()
    return made


@pytest.fixture
def server(robot: FakeRobot, voice: FakeVoice) -> Iterator[ConsoleServer]:
    made = ConsoleServer(robot, ConsoleSettings(port=0), voice=voice)
    yield made
    voice.may_end.set()
    made.close()


def test_a_page_gets_the_sound_that_it_asks_for_and_no_other_page_does(
    server: ConsoleServer, voice: FakeVoice
) -> None:
    page, other = Page(server), Page(server)
    page.send(do="speak", text="they hang by the door", language="en")
    assert base64.b64decode(page.read("spoken")["sound"]) == tone()
    assert voice.spoken == [("they hang by the door", "en")]
    other.send(do="ping", sent_ms=1.0)
    assert not [one for one in other.read_all("pong") if one["is"] == "spoken"]


def test_why_nothing_is_spoken_is_said(server: ConsoleServer, robot: FakeRobot, voice: FakeVoice) -> None:
    voice.failure = "install espeak-ng"
    page = Page(server)
    page.send(do="speak", text="hello", language="en")
    assert page.read("spoken") == {"is": "spoken", "sound": "", "note": "install espeak-ng"}
    without = ConsoleServer(robot, ConsoleSettings(port=0))
    try:
        page = Page(without)
        page.send(do="speak", text="hello", language="en")
        assert page.read("spoken")["note"] == NO_ENGINE
    finally:
        without.close()


def test_an_engine_that_fails_in_any_way_speaks_the_next_answer(
    server: ConsoleServer, voice: FakeVoice
) -> None:
    voice.failure, voice.failure_of = "of a library", ValueError
    page = Page(server)
    page.send(do="speak", text="hello", language="en")
    assert page.read("spoken")["note"] == BROKEN.format("ValueError", "of a library")
    voice.failure = ""
    page.send(do="speak", text="hello", language="en")
    assert page.read("spoken")["sound"]


def test_of_what_waits_the_newest_is_spoken_and_a_stop_waits_for_nothing(
    server: ConsoleServer, robot: FakeRobot, voice: FakeVoice
) -> None:
    voice.may_end.clear()
    page, gone = Page(server), Page(server)
    page.send(do="speak", text="first", language="en")
    wait_until(lambda: voice.spoken, "the first")
    for text in ("second", "third"):
        page.send(do="speak", text=text, language="en")
    gone.send(do="speak", text="nobody listens", language="en")
    gone.vanish()
    wait_until(lambda: server.num_viewers == 1, "the other page has gone")
    page.send(do="cancel")
    wait_until(lambda: robot.cancels, "the stop")
    voice.may_end.set()
    for _ in range(2):
        page.read("spoken")
    assert [text for text, _ in voice.spoken] == ["first", "third"]


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "", "language": "en"},
        {"text": "x" * (MAX_SPOKEN_CHARACTERS + 1), "language": "en"},
        {"text": "hello", "language": "-w/tmp/x"},
        {"text": "hello", "language": "en -w"},
        {"text": "hello", "language": "en\n"},
        {"text": "hello", "language": "../en"},
        {"text": "hello", "language": ""},
    ],
)
def test_what_no_page_asks_for_ends_it(
    server: ConsoleServer, voice: FakeVoice, fields: dict[str, str]
) -> None:
    page = Page(server)
    page.send(do="speak", **fields)
    assert page.closed() == 1008 and voice.spoken == []


def test_an_agent_is_told_in_words_alone(server: ConsoleServer, voice: FakeVoice) -> None:
    agent = Page(server, agent="one")
    agent.send(do="speak", text="hello", language="en")
    agent.send(do="ping", sent_ms=1.0)
    agent.read("pong")
    assert voice.spoken == []


@pytest.fixture(params=[{}, PHONE], ids=["desktop", "phone"])
def page(browser: Any, server: ConsoleServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    opened = browser.new_page(**request.param)
    opened.add_init_script(WATCH)
    opened.goto(server.url)
    opened.wait_for_selector("#page-link.good")
    take_seat(opened)
    yield opened
    opened.close()


def ask(page: Any, robot: FakeRobot, answer: str) -> None:
    page.fill("#words", "where are my keys?")
    page.press("#words", "Enter")
    wait_until(lambda: robot.goals, "the question")
    robot.goals.pop()[1](GoalEnd(True, answer))
    page.wait_for_selector(f"#answer >> text={answer[:20]}")


def test_a_page_plays_answers_where_that_is_asked_for_and_no_voice_of_the_browser_does(
    page: Any, robot: FakeRobot, voice: FakeVoice
) -> None:
    ask(page, robot, "on the desk")
    page.check("#speaks")
    ask(page, robot, "they hang by the door")
    wait_until(lambda: page.evaluate("window.played.some((one) => one.ended)"), "the answer is played")
    assert page.evaluate("window.played[0].duration") == pytest.approx(0.4, abs=0.05)
    assert voice.spoken == [("they hang by the door", "en")]
    assert page.evaluate("window.browserSpoke.concat(window.violations)") == []


def test_an_answer_beyond_measure_is_begun_and_no_answer_ends_the_page(
    page: Any, robot: FakeRobot, voice: FakeVoice
) -> None:
    page.check("#speaks")
    answer = "there it lies, " + "\U0001f511" * 400
    ask(page, robot, answer)
    wait_until(lambda: voice.spoken, "the answer")
    assert voice.spoken[0][0] == answer[:MAX_SPOKEN_CHARACTERS]
    assert page.inner_text("#driver") == "you drive"


def test_a_page_shows_why_nothing_is_spoken(page: Any, robot: FakeRobot, voice: FakeVoice) -> None:
    voice.failure = "answers cannot be spoken: install espeak-ng"
    page.check("#speaks")
    ask(page, robot, "they hang by the door")
    page.wait_for_selector("#toasts >> text=install espeak-ng")
    assert "by the door" in page.inner_text("#answer"), "the answer can still be read"
    assert page.evaluate("window.played.length + window.browserSpoke.length") == 0
