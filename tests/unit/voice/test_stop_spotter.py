"""The stop spotter: on synthetic speech of voices it was not trained on, and with damaged weights."""

from __future__ import annotations

import importlib.util
import itertools
import random

import numpy as np
import pytest
from safetensors.numpy import load, save

from outrider.core.errors import ConfigError
from outrider.core.hearing import BYTES_A_SECOND, SAMPLE_RATE_HZ
from outrider.core.language.words.phrasebook import phrasebook
from outrider.voice.moonshine_encoder import MoonshineEncoder
from outrider.voice.sound import to_bytes
from outrider.voice.stop_spotter import StopNetwork, StopSpotter
from outrider.voice.synthesis import Synthesizer, Voice

WORDS = phrasebook("en").spoken("spotted_stops")
SPEAKERS = (Voice("en-us+f3", 160, 60), Voice("en-us+m7", 180, 40))
NUM_LARGEST_BYTES = 100_000


@pytest.fixture(scope="module")
def synthesizer() -> Synthesizer:
    pytest.importorskip("espeakng_loader", reason="the extra speech is not installed")
    return Synthesizer()


@pytest.fixture(scope="module")
def encoder() -> MoonshineEncoder:
    if importlib.util.find_spec("moonshine_voice") is None:
        pytest.skip("the extra voice is not installed")
    return MoonshineEncoder()


@pytest.fixture
def spotter(encoder: MoonshineEncoder) -> StopSpotter:
    return StopSpotter(encoder)


def said(synthesizer: Synthesizer, sentence: str, voice: Voice) -> bytes:
    """Returns a sentence between silences, 20 dB above white noise."""
    silence = np.zeros(SAMPLE_RATE_HZ // 2)
    sound = np.concatenate([silence, synthesizer.speak(sentence, voice) * 0.3, silence])
    return to_bytes(sound + np.random.default_rng(1).normal(0.0, 0.01, len(sound)))


@pytest.mark.lengthy
@pytest.mark.parametrize("voice", SPEAKERS, ids=lambda voice: voice.name)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("sentence", ["{}", "please {} now"])
def test_a_word_that_stops_is_heard_once(
    synthesizer: Synthesizer, spotter: StopSpotter, sentence: str, word: str, voice: Voice
) -> None:
    content = said(synthesizer, sentence.format(word), voice)
    pieces = [content[at : at + 1280] for at in range(0, len(content), 1280)]
    assert sum(map(spotter.feed, pieces)) == 1


@pytest.mark.lengthy
@pytest.mark.parametrize("voice", SPEAKERS, ids=lambda voice: voice.name)
@pytest.mark.parametrize(
    "sentence", ["find the red chair", "go to the left box", "turn left a little", "what do you see"]
)
def test_a_sentence_without_one_stops_nothing(
    synthesizer: Synthesizer, spotter: StopSpotter, sentence: str, voice: Voice
) -> None:
    assert not spotter.feed(said(synthesizer, sentence, voice))


@pytest.mark.lengthy
def test_a_stream_in_odd_pieces_is_the_same_stream(synthesizer: Synthesizer, spotter: StopSpotter) -> None:
    content = b"".join(said(synthesizer, word, SPEAKERS[0]) for word in WORDS[:2])
    whole = [spotter.feed(content[at : at + 1]) for at in range(len(content))]
    rng = random.Random(3)
    cuts = sorted({0, len(content), *(rng.randrange(len(content)) for _ in range(300))})
    spotter.start()
    pieces = [(end, spotter.feed(content[start:end])) for start, end in itertools.pairwise(cuts)]
    assert sum(whole) == 2
    assert pieces == [(end, any(whole[start:end])) for start, end in itertools.pairwise(cuts)]


@pytest.mark.lengthy
def test_neither_silence_nor_noise_stops_anything(spotter: StopSpotter) -> None:
    assert not spotter.feed(bytes(2 * BYTES_A_SECOND))
    for deviation in (0.001, 0.03, 0.3):
        noise = np.random.default_rng(2).normal(0.0, deviation, SAMPLE_RATE_HZ)
        assert not spotter.feed(to_bytes(noise))


@pytest.mark.lengthy
def test_a_new_stream_forgets_the_last_one(synthesizer: Synthesizer, spotter: StopSpotter) -> None:
    content = said(synthesizer, "stop", SPEAKERS[0])
    assert spotter.feed(content)
    spotter.start()
    assert not spotter.feed(bytes(BYTES_A_SECOND))
    assert spotter.feed(content)


def shipped() -> dict[str, np.ndarray]:
    content = StopNetwork.shipped(WORDS).to_bytes()
    assert len(content) <= NUM_LARGEST_BYTES
    return load(content)


def test_weights_survive_their_file() -> None:
    network = StopNetwork.from_bytes(StopNetwork.shipped(WORDS).to_bytes(), WORDS)
    assert network.to_bytes() == StopNetwork.shipped(WORDS).to_bytes()


def refused(content: bytes, *words: str) -> None:
    with pytest.raises(ConfigError, match=r"stops\.safetensors.*outrider train stops"):
        StopNetwork.from_bytes(content, words or WORDS)


def test_weights_for_other_words_are_refused() -> None:
    refused(save(shipped()), *WORDS, "whoa")


@pytest.mark.parametrize("name", sorted(vars(StopNetwork.shipped(WORDS))))
def test_damaged_weights_are_refused(name: str) -> None:
    arrays = shipped()
    refused(save({one: array for one, array in arrays.items() if one != name}))
    refused(save({**arrays, name: np.ascontiguousarray(arrays[name][..., None])}))
    refused(save({**arrays, name: np.ascontiguousarray(arrays[name][:0])}))
    refused(save({**arrays, name: np.full_like(arrays[name], np.nan)}))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\xff" * 64])
def test_what_is_no_file_of_weights_is_refused(content: bytes) -> None:
    refused(content)


def test_a_cut_file_is_refused() -> None:
    content = save(shipped())
    refused(content[: len(content) // 2])
    refused(save({**shipped(), "more": np.zeros(1, np.float16)}))
