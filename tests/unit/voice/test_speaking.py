"""Answers spoken by local programs: the input they get, and the output they may return."""

from __future__ import annotations

import io
import json
import shutil
import sys
import wave
from collections.abc import Callable
from pathlib import Path

import pytest

from outrider.core.errors import ConfigError, LinkError, OutriderError
from outrider.core.hearing import SAMPLE_RATE_HZ
from outrider.voice.speaking import LONGEST_S, SpeakingProgram

Install = Callable[..., Path]
NOTED = "import json, pathlib, sys; said = sys.stdin.buffer.read().decode(); "
NOTED += "pathlib.Path({noted!r}).write_text(json.dumps([sys.argv[1:], said])); "


def wav(seconds: float = 0.5, rate_hz: int = 22050, channels: int = 1, level: int = 1000) -> bytes:
    """Returns a WAV file whose header claims an endless length, like one written to a pipe."""
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(level.to_bytes(2, "little") * int(seconds * rate_hz) * channels)
    content = made.getvalue()
    return content[:40] + b"\x00\xf0\xff\x7f" + content[44:]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Returns a function that makes programs, the only ones found, that record their arguments and input."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install_(name: str, output: bytes = b"", then: str = "pass") -> Path:
        noted, sound, program = tmp_path / "noted.json", tmp_path / "sound.wav", folder / name
        sound.write_bytes(output)
        script = NOTED.format(noted=str(noted)) + then
        script += f"; sys.stdout.buffer.write(pathlib.Path({str(sound)!r}).read_bytes())"
        program.write_text(f"#!{sys.executable}\n{script}\n")
        program.chmod(0o755)
        return noted

    return install_


def length_s(content: bytes) -> float:
    with wave.open(io.BytesIO(content)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, SAMPLE_RATE_HZ)
        assert len(file.readframes(10**9)) == 2 * file.getnframes(), "the length that it says"
        return file.getnframes() / SAMPLE_RATE_HZ


@pytest.mark.parametrize(
    "text",
    [
        "they hang by the door",
        "$(touch x); `ls` | rm -rf ~",
        "--stdout -w /tmp/x\n\n-f /etc/passwd",
        "Schlüssel, 钥匙 \ud800",
    ],
)
def test_a_text_reaches_a_program_by_its_input_alone(install: Install, text: str) -> None:
    noted = install("espeak-ng", wav())
    assert length_s(SpeakingProgram().speak(text, "de")) == pytest.approx(0.5, abs=0.001)
    arguments, said = json.loads(noted.read_text())
    assert arguments == ["--stdin", "--stdout", "-b", "1", "-v", "de"]
    assert said == " ".join(text.split()).replace("\ud800", "?") + "\n"


def test_a_voice_of_piper_speaks_by_piper(install: Install, tmp_path: Path) -> None:
    voice = tmp_path / "-voice.onnx"
    voice.touch()
    noted = install("piper", wav(rate_hz=16000))
    assert length_s(SpeakingProgram(str(voice)).speak("hello", "en")) == 0.5
    assert json.loads(noted.read_text()) == [["--model", str(voice), "--output_file", "-"], "hello\n"]


@pytest.mark.parametrize("name", ["no such.onnx", "folder.onnx", "voice.json"])
def test_what_is_no_voice_of_piper_is_refused_at_the_start(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.onnx").mkdir()
    (tmp_path / "voice.json").touch()
    with pytest.raises(ConfigError, match="no voice of Piper"):
        SpeakingProgram(str(tmp_path / name))


def test_without_a_program_it_is_said_what_to_install(install: Install, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"install espeak-ng .*--voice and a voice of Piper"):
        SpeakingProgram().speak("hello", "en")
    voice = tmp_path / "voice.onnx"
    voice.touch()
    with pytest.raises(ConfigError, match="pip install piper-tts"):
        SpeakingProgram(str(voice)).speak("hello", "en")


@pytest.mark.parametrize(
    ("output", "then", "reason"),
    [
        (b"", "print('warning\\nno voice xx', file=sys.stderr); sys.exit(1)", "'en': no voice xx"),
        (b"", "pass", "gave no sound"),
        (b"an error", "pass", "gave no sound"),
        (wav(level=0), "pass", "gave no sound"),
        (wav(seconds=0.0), "pass", "gave no sound"),
        (wav(channels=2), "pass", "2 channels"),
        (wav(rate_hz=1000), "pass", "1000 Hz"),
    ],
)
def test_a_program_that_fails_is_named_with_the_reason(
    install: Install, output: bytes, then: str, reason: str
) -> None:
    install("espeak-ng", output, then)
    with pytest.raises(OutriderError, match=f"espeak-ng .*{reason}"):
        SpeakingProgram().speak("hello", "en")


def test_a_program_that_says_that_nothing_follows_is_heard_all_the_same(install: Install) -> None:
    content = wav(seconds=0.5)
    install("espeak-ng", content[:4] + bytes(4) + content[8:40] + bytes(4) + content[44:])
    assert length_s(SpeakingProgram().speak("hello", "en")) == pytest.approx(0.5, abs=0.001)


def test_a_program_that_hangs_is_ended_and_one_that_does_not_end_its_speech_is_cut_off(
    install: Install,
) -> None:
    install("espeak-ng", wav(seconds=LONGEST_S + 2.0))
    assert length_s(SpeakingProgram().speak("hello", "en")) == pytest.approx(LONGEST_S, abs=0.001)
    install("espeak-ng", wav(), "import time; time.sleep(60)")
    with pytest.raises(LinkError, match=r"has not spoken within 0\.2 s"):
        SpeakingProgram(wait_s=0.2).speak("hello", "en")


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="eSpeak NG is not installed")
@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_espeak_ng_itself_speaks(language: str) -> None:
    short, longer = (SpeakingProgram().speak(text, language) for text in ("one", "one two three four five"))
    assert 0.2 < length_s(short) < length_s(longer) < 5.0
    with pytest.raises(ConfigError, match="does not speak 'xx'"):
        SpeakingProgram().speak("one", "xx")
