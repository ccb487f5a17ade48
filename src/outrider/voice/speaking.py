# SPDX-License-Identifier: Apache-2.0
"""Speaks answers by a program of this machine: eSpeak NG, or Piper with a voice of the user's."""

from __future__ import annotations

import io
import subprocess
import wave
from pathlib import Path

import numpy as np

from outrider.core.errors import ConfigError, LinkError
from outrider.core.hearing import SAMPLE_RATE_HZ
from outrider.voice.sound import RATES_HZ, from_bytes, resampled, samples_in, to_bytes

WAIT_S = 20.0
"""A program that has not spoken after this many seconds is killed. Piper loads its voice each time."""
LONGEST_S = 20.0
"""Longer speech is cut off here, in seconds."""
MISSING = {
    "espeak-ng": "answers cannot be spoken: install espeak-ng (sudo apt install espeak-ng), or start the "
    "console with --voice and a voice of Piper",
    "piper": "answers cannot be spoken by that voice: install Piper (pip install piper-tts)",
}


class SpeakingProgram:
    """Implements `TtsEngine`: by Piper with the file `voice`, by eSpeak NG if `voice` is empty.

    Raises ConfigError if the file is missing. The program is looked for when it is to speak, and killed if
    it has not spoken after `wait_s` seconds.
    """

    def __init__(self, voice: str = "", wait_s: float = WAIT_S) -> None:
        check_voice(voice)
        self._wait_s = wait_s
        self._voice = str(Path(voice).resolve()) if voice else ""

    def speak(self, text: str, language: str) -> bytes:
        """Return a text as a WAV file: mono, 16 bits, at the rate of `core.hearing`. Blocks.

        A voice of Piper speaks its own language. Raises ConfigError if the program is missing or fails,
        such as for lack of the language, LinkError if it times out or gives no sound.
        """
        command = self._command(language)
        line = " ".join(text.split()).encode(errors="replace") + b"\n"
        try:
            ended = subprocess.run(
                command, input=line, capture_output=True, timeout=self._wait_s, check=False
            )
        except FileNotFoundError:
            raise ConfigError(MISSING[command[0]]) from None
        except OSError as error:
            raise ConfigError(f"{command[0]} cannot be started: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise LinkError(f"{command[0]} has not spoken within {self._wait_s:g} s") from None
        if ended.returncode != 0:
            reason = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise ConfigError(f"{command[0]} does not speak {language!r}: {reason[:200]}")
        return _whole_wav(command[0], ended.stdout)

    def _command(self, language: str) -> list[str]:
        """Return a program and its arguments.

        The text is not among them, so no shell and no option reads it.
        """
        if self._voice:
            return ["piper", "--model", self._voice, "--output_file", "-"]
        return ["espeak-ng", "--stdin", "--stdout", "-b", "1", "-v", language]


def check_voice(voice: str) -> None:
    """Raise ConfigError if a file is not a voice of Piper; an empty name passes."""
    if voice and not (voice.endswith(".onnx") and Path(voice).is_file()):
        raise ConfigError(f"{voice} is no voice of Piper: give the file .onnx of one, beside its .onnx.json")


def _whole_wav(program: str, content: bytes) -> bytes:
    """Return what a program wrote to a pipe with its true length, which was unknown when it began."""
    file = io.BytesIO(content)
    try:
        channels, width, rate, num_bytes = samples_in(file, len(content))
    except ValueError as error:
        raise LinkError(f"{program} gave no sound ({error})") from None
    if (channels, width) != (1, 2) or not RATES_HZ[0] <= rate <= RATES_HZ[1]:
        raise LinkError(
            f"{program} gave {channels} channels of {8 * width} bits at {rate} Hz: 1 of 16 is taken"
        )
    spoken = resampled(from_bytes(file.read(2 * min(num_bytes // 2, int(LONGEST_S * rate)))), rate)
    if not np.any(spoken):
        raise LinkError(f"{program} gave no sound")
    whole = io.BytesIO()
    with wave.open(whole, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(SAMPLE_RATE_HZ)
        written.writeframes(to_bytes(spoken))
    return whole.getvalue()
