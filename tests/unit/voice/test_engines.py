"""The embedded engine on synthetic speech, and the messages when an engine or its model is missing."""

from __future__ import annotations

import importlib.util
import signal
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outrider.core.errors import ConfigError
from outrider.core.hearing import SAMPLE_RATE_HZ
from outrider.core.language.grammar import Vocabulary
from outrider.voice.engine_process import EngineProcess
from outrider.voice.engines import make_engine
from outrider.voice.hearing import Heard, heard_in
from outrider.voice.moonshine_encoder import MIN_SAMPLES
from outrider.voice.sound import to_bytes
from outrider.voice.synthesis import Synthesizer, Voice
from outrider.voice.whisper import MISSING, MODEL_VARIABLE

WORDS = Vocabulary({"colour": ("red", "blue"), "kind": ("chair", "bottle")})


@pytest.fixture(scope="module")
def synthesizer() -> Synthesizer:
    pytest.importorskip("espeakng_loader", reason="the extra speech is not installed")
    if importlib.util.find_spec("moonshine_voice") is None:
        pytest.skip("the extra voice is not installed")
    return Synthesizer()


@pytest.fixture(scope="module")
def engine(synthesizer: Synthesizer) -> EngineProcess:
    return EngineProcess("moonshine", WORDS)


def test_what_a_signal_raises_while_a_text_is_spoken_is_not_lost() -> None:
    pytest.importorskip("espeakng_loader", reason="the extra speech is not installed")

    class Interrupted(Synthesizer):
        is_interrupted = False

        def _take(self, samples: Any, count: int, events: Any) -> int:
            if not self.is_interrupted:  # a second signal would hit the next test
                self.is_interrupted = True
                signal.raise_signal(signal.SIGINT)
            return super()._take(samples, count, events)

    interrupted = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        interrupted.speak("a chair", Voice())
    interrupted._thread.shutdown()  # the library has one state, which the next test uses


def said(synthesizer: Synthesizer, sentence: str) -> bytes:
    silence = np.zeros(SAMPLE_RATE_HZ // 2)
    return to_bytes(np.concatenate([silence, synthesizer.speak(sentence, Voice()) * 0.5, silence]))


@pytest.mark.lengthy
def test_sentences_and_stops_are_heard_one_after_the_other_in_another_process(
    synthesizer: Synthesizer, engine: EngineProcess
) -> None:
    assert heard_in(engine, said(synthesizer, "find the red chair")) == Heard("find the red chair", False)
    assert heard_in(engine, said(synthesizer, "stop")).stopped
    assert heard_in(engine, said(synthesizer, "find the red chair")) == Heard("find the red chair", False)


@pytest.mark.lengthy
def test_no_sound_is_no_sentence(engine: EngineProcess) -> None:
    assert heard_in(engine, b"") == Heard("", False)
    assert not heard_in(engine, bytes(32001)).stopped


@pytest.mark.parametrize("size", [1, 2, 500, 640, 641, 800, 1100, 1278, 1280, 1281, 1789])
def test_a_tap_on_the_button_is_no_sentence(engine: EngineProcess, size: int) -> None:
    """The sound is too short for the encoder to make a state."""
    assert heard_in(engine, np.random.default_rng(size).bytes(size)) == Heard("", False)
    assert engine._process.poll() is None


@pytest.mark.lengthy
def test_the_least_sound_that_the_encoder_takes_is_taken(engine: EngineProcess) -> None:
    noise = np.random.default_rng(7).bytes(2 * MIN_SAMPLES)
    assert heard_in(engine, noise[:-1]) == Heard("", False)
    assert not heard_in(engine, noise).stopped


@pytest.mark.lengthy
def test_an_engine_that_was_ended_is_started_anew(synthesizer: Synthesizer, engine: EngineProcess) -> None:
    engine.close()
    assert heard_in(engine, said(synthesizer, "find the red chair")).sentence == "find the red chair"
    engine.close()


def test_what_the_process_cannot_make_is_said_each_time() -> None:
    process = EngineProcess("parrot", WORDS)
    for _ in range(2):
        with pytest.raises(ConfigError, match="no speech engine 'parrot': choose moonshine or whisper"):
            process.listen()
    process.close()


def test_a_general_model_is_refused_by_the_embedded_engine() -> None:
    with pytest.raises(ConfigError, match="names no words"):
        make_engine("moonshine", None)


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: None if "moonshine" in name else found(name, *more)
    )
    with pytest.raises(ConfigError, match=r"outrider\[voice\]"):
        make_engine("moonshine", WORDS)
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    with pytest.raises(ConfigError, match=r"outrider\[whisper\]") as raised:
        make_engine("whisper", WORDS)
    assert str(raised.value) == MISSING


def test_whisper_without_a_model_on_this_machine_downloads_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = types.ModuleType("faster_whisper")
    package.WhisperModel = lambda *given, **named: pytest.fail("it was made")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "faster_whisper", package)
    monkeypatch.setenv(MODEL_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=MODEL_VARIABLE):
        make_engine("whisper", WORDS)
