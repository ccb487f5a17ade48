"""Training the stop spotter: it learns, and runs as the spotter does."""

from __future__ import annotations

import numpy as np
import torch

from outrider.training.stops import StopExamples, StopModule, set_threshold, train_stops
from outrider.voice.moonshine_encoder import WIDTH
from outrider.voice.stop_spotter import StopNetwork

WORDS, STATES, LONG = 2, 8, 3


def sounds(count: int, seed: int) -> StopExamples:
    """Returns noise. In two of three examples a word is added: large numbers in some states."""
    rng = np.random.default_rng(seed)
    words = np.arange(count) % (WORDS + 1) - 1
    states = rng.normal(1.0, 2.0, (count, STATES, WIDTH)).astype(np.float16)
    for number, (word, start) in enumerate(zip(words, rng.integers(0, STATES - LONG, count), strict=True)):
        if word >= 0:
            states[number, start : start + LONG, 100 * word : 100 * word + 60] += 6.0
    snr_db = np.where(rng.random(count) < 0.5, 20.0, 5.0).astype(np.float32)
    return StopExamples(states, words, snr_db)


def test_it_learns_words_and_its_threshold_lets_those_in_little_noise_through() -> None:
    *_, module = train_stops(sounds(240, 1), WORDS, 60, 0)
    shares = set_threshold(module, sounds(120, 2))
    assert shares["spotted"] >= 0.9
    assert shares["false"] <= 0.05 and shares["false_in_more_noise"] <= 0.05


def test_the_spotter_scores_as_the_trained_module_does() -> None:
    torch.manual_seed(0)
    module = StopModule(WIDTH, WORDS).eval()
    module.mean.data += 1.0
    module.deviation.data *= 3.0
    states = np.random.default_rng(0).normal(1.0, 3.0, (STATES, WIDTH)).astype(np.float32)
    with torch.no_grad():
        trained = module(torch.from_numpy(states)[None])[0].numpy()
    np.testing.assert_allclose(StopNetwork(**module.arrays()).scores(states), trained, atol=1e-5)


def test_the_same_seed_trains_the_same_network() -> None:
    first, again = ([*train_stops(sounds(60, 1), WORDS, 3, seed)][-1].arrays()["point"] for seed in (4, 4))
    assert np.array_equal(first, again)
