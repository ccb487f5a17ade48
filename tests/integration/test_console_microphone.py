"""Push to talk: Chromium's microphone plays a file of synthetic speech to a real speech engine."""

from __future__ import annotations

import importlib.util
import wave
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.browsers import PHONE, open_browser, take_seat
from support.consoles import FakeRobot, wait_until

from outrider.console.server import ConsoleServer, ConsoleSettings
from outrider.core.hearing import SAMPLE_RATE_HZ, AsrEngine, Utterance
from outrider.core.language.grammar import Vocabulary
from outrider.voice.engines import make_engine
from outrider.voice.sound import to_bytes
from outrider.voice.synthesis import Synthesizer, Voice

ENGINE_S = 60.0
"""Timeout: a real engine runs in this process, and the machine may be busy."""
WORDS = Vocabulary({"colour": ("red", "blue"), "kind": ("chair", "bottle")})


@dataclass
class CountedUtterance:
    """Wraps an utterance and adds its bytes to `engine.heard`."""

    engine: CountingEngine
    utterance: Utterance

    def feed(self, samples: bytes) -> bool:
        self.engine.heard += len(samples)
        return self.utterance.feed(samples)

    def end(self) -> str:
        return self.utterance.end()


@dataclass
class CountingEngine:
    """Wraps a real engine; `heard` counts the bytes of the newest utterance."""

    engine: AsrEngine
    heard: int = 0
    name: str = "moonshine"

    def listen(self) -> CountedUtterance:
        self.heard = 0
        return CountedUtterance(self, self.engine.listen())


@pytest.fixture(scope="module")
def engine() -> CountingEngine:
    pytest.importorskip("espeakng_loader", reason="the extra speech is not installed")
    if importlib.util.find_spec("moonshine_voice") is None:
        pytest.skip("the extra voice is not installed")
    return CountingEngine(make_engine("moonshine", WORDS))


@contextmanager
def talking(
    folder: Path, sentence: str, engine: CountingEngine, **options: Any
) -> Iterator[tuple[Any, FakeRobot, int]]:
    """Yields a page whose microphone plays a sentence, the robot, and the sound's size in bytes."""
    sound = to_bytes(Synthesizer().speak(sentence, Voice()) * 0.5)
    engine.heard = 0
    pause, path, robot = bytes(SAMPLE_RATE_HZ), folder / "said.wav", FakeRobot()
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, SAMPLE_RATE_HZ, 0, "NONE", ""))
        file.writeframes(pause + sound + 20 * pause)
    microphone = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    with (
        closing(ConsoleServer(robot, ConsoleSettings(port=0), engine=engine)) as server,
        open_browser(*microphone, f"--use-file-for-fake-audio-capture={path}") as browser,
    ):
        page = browser.new_page(**options)
        page.goto(server.url)
        page.wait_for_selector("#page-link.good")
        take_seat(page)
        yield page, robot, len(pause + sound)


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_what_the_microphone_hears_is_shown_corrected_and_sent(
    tmp_path: Path, engine: CountingEngine, options: dict[str, Any]
) -> None:
    with talking(tmp_path, "find the red chair", engine, **options) as (page, robot, num_bytes):
        page.dispatch_event("#talk", "pointerdown")
        wait_until(lambda: engine.heard > 1.3 * num_bytes, "the whole sentence is heard", ENGINE_S)
        page.dispatch_event("#talk", "pointerup")
        heard = lambda: page.input_value("#words") == "find the red chair"  # noqa: E731
        wait_until(heard, "the sentence that was heard", ENGINE_S)
        assert robot.goals == [] and robot.drives == []
        page.fill("#words", "find the blue chair")
        page.press("#words", "Enter")
        wait_until(lambda: robot.goals, "the goal is sent")
        assert robot.goals[0][0] == "find the blue chair"


def test_a_stop_acts_while_the_button_is_held(tmp_path: Path, engine: CountingEngine) -> None:
    with talking(tmp_path, "stop", engine) as (page, robot, _):
        page.dispatch_event("#talk", "pointerdown")
        wait_until(lambda: robot.cancels, "the stop, while the button is held", ENGINE_S)
        page.wait_for_selector("#answer:has-text('stopped')")
        assert robot.goals == []
