# SPDX-License-Identifier: Apache-2.0
"""Generates random spoken commands: sentence, speaker, and noise."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from outrider.core.hearing import SAMPLE_RATE_HZ
from outrider.core.language.grammar import COMMANDS, Vocabulary
from outrider.core.language.sentences.stops import says_to_stop
from outrider.core.language.words.things import Thing
from outrider.runtime.mission.words import ASKED, JOINED, TOLD
from outrider.voice.sound import Samples, audible, recordings
from outrider.voice.synthesis import Synthesizer, Voice

STOPS = ("stop", "stop now", "please stop", "stop there", "halt", "freeze")
VOICES = ("en-us", "en-us+f3", "en-us+m3", "en-us+f2", "en-us+m7")
WORDS_A_MINUTE, PITCHES = (130, 200), (30, 70)
FIND_SHARE, COMMAND_SHARE = 0.55, 0.25
BEFORE_S, AFTER_S, LOUDNESS = 0.2, 0.6, 0.3
"""Seconds of silence before and after the speech, and the amplitude that its peak is scaled to."""


@dataclass(frozen=True)
class Spoken:
    """A sentence spoken by one voice; `ends_s`: when the last word ends."""

    sentence: str
    voice: Voice
    samples: Samples
    ends_s: float


def spoken_commands(count: int, seed: int, vocabulary: Vocabulary) -> Iterator[Spoken]:
    """Yields spoken sentences that order no stop."""
    rng = random.Random(seed)
    synthesizer = Synthesizer()
    for _ in range(count):
        yield _spoken(command_sentence(rng, vocabulary), rng, synthesizer)


def spoken_stops(count: int, seed: int) -> Iterator[Spoken]:
    """Yields spoken orders to stop, taking the STOPS in turn."""
    rng = random.Random(f"stops {seed}")
    synthesizer = Synthesizer()
    for number in range(count):
        yield _spoken(STOPS[number % len(STOPS)], rng, synthesizer)


def with_noise(spoken: Spoken, snr_db: float | None, seed: int) -> Samples:
    """Returns the samples with white noise `snr_db` below the speech; None: almost no noise."""
    samples = spoken.samples
    power = float(np.mean(samples[audible(samples)] ** 2))
    deviation = 1e-4 if snr_db is None else (power / 10 ** (snr_db / 10)) ** 0.5
    return samples + np.random.default_rng(seed).normal(0.0, deviation, len(samples))


def command_sentence(rng: random.Random, vocabulary: Vocabulary) -> str:
    """Returns a sentence that orders no stop."""
    share = rng.random()
    if share < FIND_SHARE:
        shape = rng.choice(vocabulary.named_shapes)
        thing = Thing(**{slot: rng.choice(vocabulary.words(slot)) for slot in shape})
        return rng.choice(vocabulary.phrasings(shape)).format(thing.phrase)
    sentences = COMMANDS if share < FIND_SHARE + COMMAND_SHARE else (*TOLD, *JOINED, *ASKED)
    return rng.choice([sentence for sentence in sentences if not says_to_stop(sentence)])


def recorded(voice: Path) -> Iterator[Spoken]:
    """Yields the recordings of a voice, with the loudness and the silences of synthetic speech."""
    for recording in recordings(voice):
        yield _placed(recording.text, Voice(voice.name), recording.samples)


def _spoken(sentence: str, rng: random.Random, synthesizer: Synthesizer) -> Spoken:
    voice = Voice(rng.choice(VOICES), rng.randint(*WORDS_A_MINUTE), rng.randint(*PITCHES))
    return _placed(sentence, voice, synthesizer.speak(sentence, voice))


def _placed(sentence: str, voice: Voice, samples: Samples) -> Spoken:
    samples = samples * (LOUDNESS / max(float(np.abs(samples).max(initial=0.0)), 1e-9))
    audible_samples = audible(samples)
    silences = [np.zeros(round(seconds * SAMPLE_RATE_HZ)) for seconds in (BEFORE_S, AFTER_S)]
    ends_s = BEFORE_S + (int(audible_samples[-1]) + 1 if len(audible_samples) else 0) / SAMPLE_RATE_HZ
    return Spoken(sentence, voice, np.concatenate([silences[0], samples, silences[1]]), ends_s)
