"""Training data of the stop spotter: no voice of the evaluation, and words at their stated positions."""

from __future__ import annotations

import importlib.util
import random
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from outrider.core.errors import ConfigError
from outrider.core.hearing import SAMPLE_RATE_HZ
from outrider.core.language.sentences.stops import says_to_stop
from outrider.core.language.words.phrasebook import phrasebook
from outrider.evaluation.voice.spoken_commands import VOICES
from outrider.runtime.datasets.sound_conditions import NOISES, in_conditions
from outrider.runtime.datasets.stop_sentences import UNSURE, other_text, stop_sentence
from outrider.runtime.datasets.stop_sounds import (
    CHOOSING_SPEAKERS,
    SPEAKERS,
    read_stop_shards,
    stop_shards,
    write_stop_shards,
)
from outrider.simulation.homes.vocabulary import vocabulary
from outrider.voice.moonshine_encoder import WIDTH
from outrider.voice.sound import to_bytes, voices


def test_no_speaker_of_the_evaluation_is_trained_on_and_none_chooses_that_is() -> None:
    measured = {voice.partition("+")[2] for voice in VOICES}
    assert measured.isdisjoint({*SPEAKERS, *CHOOSING_SPEAKERS})
    assert set(SPEAKERS).isdisjoint(CHOOSING_SPEAKERS)


@pytest.mark.lengthy
def test_stop_sentences_hold_their_word_at_its_position_and_other_texts_hold_none() -> None:
    rng, known = random.Random(1), vocabulary()
    for _ in range(80):
        sentence, position = stop_sentence(rng, "halt", known)
        assert sentence[position:].split()[0] == "halt"
        text = other_text(rng, known)
        assert text and not says_to_stop(text) and not UNSURE.search(text)


@pytest.mark.parametrize("clean", [np.zeros(8000), np.sin(np.arange(8000) / 5.0) * 0.5], ids=["none", "tone"])
def test_conditions_are_those_of_their_seed_and_within_what_a_microphone_gives(clean: np.ndarray) -> None:
    babble = [np.sin(np.arange(3000) / 9.0)]
    for seed in range(8 * len(NOISES)):
        heard, snr_db = in_conditions(clean, babble, np.random.default_rng(seed))
        again, _ = in_conditions(clean, babble, np.random.default_rng(seed))
        assert np.array_equal(heard, again) and len(heard) == len(clean)
        assert np.isfinite(heard).all() and np.abs(heard).max() <= 1.0 and snr_db > 0.0


needs_encoder = pytest.mark.skipif(
    importlib.util.find_spec("moonshine_voice") is None, reason="the extra voice is not installed"
)


@pytest.mark.lengthy
@needs_encoder
def test_a_shard_holds_windows_with_words_and_without_and_is_written_once(tmp_path: Path) -> None:
    pytest.importorskip("espeakng_loader", reason="the extra speech is not installed")
    made = stop_shards(tmp_path / "new", "choosing", 1, 5, CHOOSING_SPEAKERS)
    shards = [replace(shard, num_clips=8) for shard in made]
    (path,) = write_stop_shards(shards, 1)
    content = path.read_bytes()
    assert list(write_stop_shards(shards, 1)) == [path] and path.read_bytes() == content
    examples = read_stop_shards(shards)
    assert examples.states.shape[0] == len(examples) and examples.states.shape[2] == WIDTH
    assert 0 < (examples.words >= 0).sum() < len(examples)


@needs_encoder
def test_recordings_that_end_with_a_stop_word_count_and_those_with_one_elsewhere_are_omitted(
    tmp_path: Path,
) -> None:
    voice = tmp_path / "anna"
    voice.mkdir()
    tone = np.sin(np.arange(SAMPLE_RATE_HZ) / 5.0) * 0.5
    for name in ("please halt.1.wav", "turn left.wav", "stop now.wav"):
        with wave.open(str(voice / name), "wb") as file:
            file.setparams((1, 2, SAMPLE_RATE_HZ, 0, "NONE", ""))
            file.writeframes(to_bytes(tone))
    shards = stop_shards(tmp_path / "new", "training", 0, 5, SPEAKERS, tmp_path)
    (path,) = write_stop_shards(shards, 1)
    words = read_stop_shards(shards).words
    assert path.stem.endswith("anna")
    assert set(words.tolist()) == {-1, phrasebook("en").spoken("spotted_stops").index("halt")}


@needs_encoder
def test_a_voice_without_a_recording_to_train_on_is_refused(tmp_path: Path) -> None:
    (tmp_path / "anna").mkdir()
    (tmp_path / "anna" / "please stop.WAV").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"anna holds nothing to train on: WAV files"):
        list(write_stop_shards(stop_shards(tmp_path / "new", "training", 0, 5, SPEAKERS, tmp_path), 1))


@pytest.mark.parametrize("kept", [0, 100, 700])
def test_a_shard_that_is_cut_off_is_named(tmp_path: Path, kept: int) -> None:
    (shard,) = stop_shards(tmp_path, "training", 1, 5, SPEAKERS)
    columns = {"states": np.zeros((1, 2, WIDTH), np.float16), "words": np.zeros(1, np.int64)}
    np.savez(shard.path, **columns, snr_db=np.zeros(1, np.float32))
    assert len(read_stop_shards([shard])) == 1
    shard.path.write_bytes(shard.path.read_bytes()[:kept])
    with pytest.raises(ConfigError, match=r"training-5-000\.npz is no readable shard .*: delete it, and run"):
        read_stop_shards([shard])


def test_a_folder_without_voices_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(ConfigError, match=r"no folders of voices"):
            voices(folder)
