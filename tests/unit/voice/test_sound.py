"""WAV files: every accepted form, and what is refused."""

from __future__ import annotations

import struct
import wave
from pathlib import Path

import numpy as np
import pytest

from outrider.core.errors import ConfigError
from outrider.core.hearing import SAMPLE_RATE_HZ
from outrider.voice.sound import LONGEST_S, from_bytes, read_wav, to_bytes, trimmed, without_noise

TONE_HZ = 440.0


def written(path: Path, rate: int, channels: int = 1, width: int = 2, seconds: float = 0.5) -> Path:
    """Writes a tone of half the full amplitude in every channel. Returns the path."""
    tone = 0.5 * np.sin(2 * np.pi * TONE_HZ * np.arange(round(rate * seconds)) / rate)
    samples = (
        np.rint(tone * 32767).astype("<i2") if width == 2 else np.rint(tone * 127 + 128).astype(np.uint8)
    )
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(np.repeat(samples, channels).tobytes())
    return path


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100, 48000])
@pytest.mark.parametrize(("channels", "width"), [(1, 2), (2, 2), (1, 1)])
def test_a_tone_keeps_its_pitch_and_height_at_any_rate(
    tmp_path: Path, rate: int, channels: int, width: int
) -> None:
    samples = from_bytes(read_wav(written(tmp_path / "tone.wav", rate, channels, width)))
    assert len(samples) == SAMPLE_RATE_HZ // 2
    spectrum = np.abs(np.fft.rfft(samples))
    assert spectrum.argmax() * SAMPLE_RATE_HZ / len(samples) == pytest.approx(TONE_HZ)
    assert np.abs(samples).max() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("content", [b"", b"RIFF", b"no sound at all" * 10])
def test_what_is_no_wav_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "command.wav"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="is no WAV file"):
        read_wav(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.wav", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            read_wav(path)


def test_a_file_that_lasts_too_long_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "long.wav", 4000, seconds=LONGEST_S + 1)
    with pytest.raises(ConfigError, match=r"lasts 61 s: at most 60 s"):
        read_wav(path)


@pytest.mark.parametrize("told_bytes", [0xFFFFFFFF, 0x7FFFF000, 0x80000000], ids=["ffmpeg", "sox", "arecord"])
def test_a_file_that_was_written_to_a_pipe_is_as_long_as_what_it_holds(
    tmp_path: Path, told_bytes: int
) -> None:
    whole = written(tmp_path / "whole.wav", 16000)
    path = tmp_path / "piped.wav"
    path.write_bytes(whole.read_bytes()[:40] + struct.pack("<I", told_bytes) + whole.read_bytes()[44:])
    assert read_wav(path) == read_wav(whole)
    path.write_bytes(path.read_bytes() + bytes(32000 * int(LONGEST_S)))
    with pytest.raises(ConfigError, match="at most 60 s are taken"):
        read_wav(path)


@pytest.mark.parametrize("told_whole", [0, 36, 0xFFFFFFFF], ids=["nothing", "the header", "all"])
@pytest.mark.parametrize("told_bytes", [0, 0xFFFFFFFF], ids=["nothing", "all"])
@pytest.mark.parametrize(
    "between", [b"", b"LIST" + struct.pack("<I", 3) + b"oddX"], ids=["plain", "with notes"]
)
def test_a_header_that_was_never_mended_hides_no_samples(
    tmp_path: Path, told_whole: int, told_bytes: int, between: bytes
) -> None:
    whole = written(tmp_path / "whole.wav", 16000)
    content = whole.read_bytes()
    path = tmp_path / "streamed.wav"
    sizes = struct.pack("<I", told_whole), struct.pack("<I", told_bytes)
    path.write_bytes(b"RIFF" + sizes[0] + content[8:36] + between + b"data" + sizes[1] + content[44:])
    assert read_wav(path) == read_wav(whole)


def test_a_whole_file_of_no_samples_has_none_whatever_notes_follow(tmp_path: Path) -> None:
    notes = b"LIST" + struct.pack("<I", 4) + b"INFO"
    content = written(tmp_path / "whole.wav", 16000).read_bytes()
    path = tmp_path / "empty.wav"
    path.write_bytes(b"RIFF" + struct.pack("<I", 36 + len(notes)) + content[8:40] + bytes(4) + notes)
    assert read_wav(path) == b""


def test_the_extensible_form_is_read_where_it_holds_whole_numbers(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.wav", 16000)
    content = whole.read_bytes()
    path = tmp_path / "extensible.wav"
    kind = bytes.fromhex("0100000000001000800000aa00389b71")
    form = struct.pack("<IH", 40, 0xFFFE) + content[22:36] + struct.pack("<HHI", 22, 16, 4)
    path.write_bytes(content[:16] + form + kind + content[36:])
    assert read_wav(path) == read_wav(whole)
    path.write_bytes(content[:16] + form + b"\x03" + kind[1:] + content[36:])
    with pytest.raises(ConfigError, match="no plain whole numbers"):
        read_wav(path)


def test_other_forms_of_wav_are_refused_with_the_form_to_save_them_in(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.wav", 16000).read_bytes()
    path = tmp_path / "other.wav"
    floats = whole[:20] + struct.pack("<H", 3) + whole[22:]
    longer_than_the_file = whole[:12] + b"junk" + struct.pack("<I", 0xFFFFFFF0) + whole[12:]
    for content in (floats, longer_than_the_file):
        path.write_bytes(content)
        with pytest.raises(
            ConfigError, match=r"is no WAV file that can be read .*: save it with 16 bits, mono"
        ):
            read_wav(path)


@pytest.mark.parametrize("count", range(8))
def test_a_file_of_a_few_samples_is_read_at_any_rate(tmp_path: Path, count: int) -> None:
    samples = from_bytes(read_wav(written(tmp_path / "short.wav", 192_000, seconds=count / 192_000)))
    assert len(samples) == min(count, 1)


def test_samples_of_another_width_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 4, 16000, 0, "NONE", ""))
        file.writeframes(bytes(400))
    with pytest.raises(ConfigError, match="32 bits at 16000 Hz: save it with 16 bits"):
        read_wav(path)


def test_quiet_before_and_after_what_is_said_is_left_out() -> None:
    noise = np.random.default_rng(0).normal(0.0, 0.001, 3 * SAMPLE_RATE_HZ)
    noise[SAMPLE_RATE_HZ : 2 * SAMPLE_RATE_HZ] += 0.3 * np.sin(np.arange(SAMPLE_RATE_HZ))
    kept = len(trimmed(to_bytes(noise))) / 2 / SAMPLE_RATE_HZ
    assert 1.2 <= kept <= 1.3


def test_of_silence_nothing_is_left() -> None:
    assert trimmed(bytes(32000)) == trimmed(b"") == b""


def syllables(seconds: float = 2.0) -> np.ndarray:
    """Returns a tone of 300 Hz that comes and goes, as syllables do."""
    times_s = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    return 0.3 * np.sin(2 * np.pi * 300 * times_s) * (np.sin(2 * np.pi * 2 * times_s) > 0.3)


def test_steady_noise_is_taken_out_and_what_is_said_stays() -> None:
    said = syllables()
    noise = np.random.default_rng(5).normal(0.0, 0.03, len(said))
    left = without_noise(said + noise) - said
    assert len(left) == len(said)
    assert np.mean(left**2) < 0.4 * np.mean(noise**2)
    quiet = said + 1e-4 * noise
    assert np.abs(without_noise(quiet) - quiet).max() < 0.02


@pytest.mark.parametrize("count", [0, 1, 100, 2047, 2048, 5000])
def test_silence_stays_silent_at_any_length(count: int) -> None:
    assert np.array_equal(without_noise(np.zeros(count)), np.zeros(count))


@pytest.mark.filterwarnings("error")
def test_of_a_tone_that_fills_few_frequencies_nothing_is_warned() -> None:
    for tone in (np.ones(SAMPLE_RATE_HZ), from_bytes(to_bytes(np.tile([0.5, -0.5], 8000)))):
        assert np.isfinite(without_noise(tone)).all()


def test_what_is_too_short_to_tell_noise_in_stays_as_it_is() -> None:
    short = np.random.default_rng(1).normal(0.0, 0.1, 1000)
    assert np.array_equal(without_noise(short), short)
