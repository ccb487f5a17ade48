"""When a stop counts as recognised, by engines that recognise it at a certain byte or in a high tone."""

from __future__ import annotations

import math
import wave
from pathlib import Path

import numpy as np
import pytest
from support.speakers import STOP_SOUND, FakeEngine

from outrider.core.hearing import BYTES_A_SECOND, SAMPLE_RATE_HZ
from outrider.evaluation.voice.recognition import NOISES, RecordedFigures, recorded_figures, stop_recognized_s
from outrider.voice.sound import from_bytes, to_bytes


@pytest.mark.parametrize("at_s", [0.2, 1.0])
def test_a_stop_is_heard_with_the_piece_that_holds_it(at_s: float) -> None:
    before = bytes(round(at_s * BYTES_A_SECOND))
    heard_s = stop_recognized_s(FakeEngine(), before + STOP_SOUND + bytes(BYTES_A_SECOND))
    assert at_s <= heard_s < at_s + 0.2


def test_what_holds_no_stop_is_never_heard_as_one() -> None:
    assert stop_recognized_s(FakeEngine(), bytes(BYTES_A_SECOND)) == math.inf


class ToneEngine:
    """Recognises a stop in a tone above 1 kHz."""

    name = "tone"

    def listen(self) -> ToneEngine:
        return self

    def feed(self, samples: bytes) -> bool:
        power = np.abs(np.fft.rfft(from_bytes(samples)))
        return bool(power.max() > 10.0 and power.argmax() > len(power) / 8)

    def end(self) -> str:
        return ""


@pytest.mark.parametrize("noise", NOISES)
def test_stops_of_a_recorded_voice_are_counted_by_what_its_files_are_named(
    tmp_path: Path, noise: str
) -> None:
    tones = {"please stop.1": 2000, "stop.2": 2000, "halt": 300, "turn left": 300, "go home.7": 2000}
    for name, hz in tones.items():
        times_s = np.arange(SAMPLE_RATE_HZ // 2) / SAMPLE_RATE_HZ
        with wave.open(str(tmp_path / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, SAMPLE_RATE_HZ, 0, "NONE", ""))
            file.writeframes(to_bytes(0.2 * np.sin(2 * np.pi * hz * times_s)))
    figures = recorded_figures(ToneEngine(), tmp_path, noise, 0)
    assert figures == RecordedFigures(
        tmp_path.name, noise, commands=2, false_stops=1, stops=3, stops_in_time=2
    )
