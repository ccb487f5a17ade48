# SPDX-License-Identifier: Apache-2.0
"""Synthetic speech with and without stop words: training data for the spotter of stops.

`outrider eval voice` uses other voices, which are in no shard.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import cause_of
from outrider.core.files.writing import make_folder, replace_file
from outrider.core.hearing import SAMPLE_RATE_HZ
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.words.phrasebook import phrasebook
from outrider.core.processes import work_through
from outrider.runtime.datasets.sound_conditions import in_conditions
from outrider.runtime.datasets.stop_sentences import other_text, stop_sentence
from outrider.simulation.homes.vocabulary import vocabulary
from outrider.training.stops import StopExamples
from outrider.voice.moonshine_encoder import MoonshineEncoder
from outrider.voice.sound import Recording, Samples, audible, recordings, voices
from outrider.voice.stop_spotter import WINDOW
from outrider.voice.synthesis import Synthesizer, Voice

ACCENTS = (
    *("en-us", "en-us", "en-us", "en-us-nyc", "en", "en-gb-x-rp"),
    *("en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-029"),
)
_VARIANTS = """
    f1 f5 m1 m4 m5 m6 Alex Alicia Andrea Annie AnxiousAndy Denis Diogo Gene Gene2 Henrique Hugo Jacky
    Lee Marco Mario Michael Mike Nguyen Reed RicishayMax RicishayMax2 RicishayMax3 Storm Tweaky UniRobot
    adam anika announcer antonio aunty belinda benjamin boris caleb croak david ed edward edward2 fast
    grandma grandpa gustave ian iven iven2 iven3 iven4 john kaukovalta klatt klatt2 klatt4 klatt5 klatt6
    marcelo max michel miguel mike2 norbert pablo pedro quincy rob robert robosoft robosoft3 robosoft5
    sandro shelby steph steph3 travis victor whisper whisperf zac
"""
SPEAKERS = tuple(_VARIANTS.split())
"""Variants of eSpeak NG. Each speaks with every accent."""
CHOOSING_SPEAKERS = ("f4", "m2", "m8", "klatt3", "Andy", "linda", "paul", "steph2")
"""Speakers of the shards that choose the threshold. They are not trained on."""
WORDS_A_MINUTE, PITCHES = (105, 250), (10, 90)
CLIPS_A_SHARD = 250
STOP_SHARE, SILENT_SHARE = 0.35, 0.02
SIZED_SHARE, SIZES = 0.6, (0.87, 1.15)
"""Share of the clips played faster or slower, like a smaller or larger person, and the factor's range."""
AFTER_WORD_S = (0.06, 0.32)
"""The range of the time, in s, from the end of a stop word to the end of a window labelled with it."""
BEGUN = 0.35
"""Share of a word. A window that ends before this share of it is labelled as one without the word."""
_BEFORE_S, _GAP_S, _AFTER_S, _MIN_S, _WORD_S = (0.1, 1.5), (0.02, 0.5), 1.0, 0.25, 0.75
_JOINED_SHARE, _OTHERS = 0.35, 30
_SILENCE = np.zeros(WINDOW)


@dataclass(frozen=True)
class StopShard:
    """A file of examples, determined by its seed, its number, and its speakers or recordings.

    Its speakers say `num_clips` texts.
    """

    path: Path
    seed: int
    number: int
    speakers: tuple[str, ...]
    recorded: Path | None = None
    num_clips: int = CLIPS_A_SHARD


@dataclass(frozen=True)
class _Clip:
    """Speech, the number of the stop word in it (-1 for none), and the word's first and last sample."""

    samples: Samples
    word: int = -1
    start: int = 0
    end: int = 0


def stop_shards(
    folder: Path, name: str, count: int, seed: int, speakers: tuple[str, ...], recorded: Path | None = None
) -> list[StopShard]:
    """Returns the shards of this name in a folder: `count` of eSpeak NG, and one of each recorded voice."""
    made = [StopShard(folder / f"{name}-{seed}-{n:03d}.npz", seed, n, speakers) for n in range(count)]
    places = voices(recorded) if recorded else []
    return made + [
        StopShard(folder / f"{name}-{seed}-{place.name}.npz", seed, 0, (), place) for place in places
    ]


def write_stop_shards(shards: Sequence[StopShard], processes: int) -> Iterator[Path]:
    """Write the missing shards, and yield each path when it is done. Raises ConfigError."""
    make_folder(shards[0].path.parent)
    yield from work_through(write_stop_shard, shards, processes)


def read_stop_shards(shards: Sequence[StopShard]) -> StopExamples:
    """Returns the examples of written shards. Raises ConfigError if one is damaged."""
    read = [_read_stop_shard(shard.path) for shard in shards]
    return StopExamples(*(np.concatenate(column) for column in zip(*read, strict=True)))


def _read_stop_shard(path: Path) -> list[Any]:
    try:
        with np.load(path, allow_pickle=False) as read:
            return [read[field.name] for field in fields(StopExamples)]
    except Exception as error:  # damage can give a shape, a flag or a type that numpy does not read
        raise ConfigError(
            f"{path} is no readable shard ({cause_of(error)}): delete it, and run the command again"
        ) from error


def write_stop_shard(shard: StopShard) -> Path:
    """Write a shard, unless it exists.

    Raises ConfigError if it cannot be written, or if recordings hold nothing to train on.
    """
    if shard.path.exists():
        return shard.path
    rng, noise = random.Random(shard.path.stem), np.random.default_rng(list(shard.path.stem.encode()))
    encoder = MoonshineEncoder()
    other_voices: list[Samples] = []
    rows: list[Any] = []
    for clip in _recorded(shard.recorded) if shard.recorded else _spoken(shard, rng):
        rows += _examples(clip, other_voices, rng, noise, encoder)
        if clip.word < 0 and len(audible(clip.samples)):
            other_voices = [*other_voices[1 - _OTHERS :], clip.samples]
    if not rows:
        raise ConfigError(
            f"{shard.recorded} holds nothing to train on: WAV files in which somebody speaks, named by "
            "what is said, as `please stop.wav`; a word that stops is to be the last"
        )
    examples = StopExamples(*(np.stack(column) for column in zip(*rows, strict=True)))
    content = io.BytesIO()
    np.savez(content, **vars(examples))
    replace_file(shard.path, content.getvalue())
    return shard.path


def _recorded(folder: Path) -> Iterator[_Clip]:
    """Yields the clips of a recorded voice: without a stop word, or ending with one."""
    words = phrasebook("en").spoken("spotted_stops")
    for recording in recordings(folder):
        clip = _recorded_clip(recording, words)
        if clip:
            yield clip


def _recorded_clip(recording: Recording, words: Sequence[str]) -> _Clip | None:
    spoken_words = recording.text.lower().split()
    if not any(word in recording.text.lower() for word in words):
        return _Clip(recording.samples)
    if spoken_words[-1] not in words:
        return None
    audio = audible(recording.samples)
    start, end = int(audio[0]), int(audio[-1])
    if len(spoken_words) > 1:
        start = max(start, end - round(_WORD_S * SAMPLE_RATE_HZ))
    return _Clip(recording.samples, words.index(spoken_words[-1]), start, end)


def _spoken(shard: StopShard, rng: random.Random) -> Iterator[_Clip]:
    synthesizer, known = Synthesizer(), vocabulary()
    for _ in range(shard.num_clips):
        name = f"{rng.choice(ACCENTS)}+{rng.choice(shard.speakers)}"
        voice = Voice(name, rng.randint(*WORDS_A_MINUTE), rng.randint(*PITCHES))
        yield _clip(voice, rng, synthesizer, known)


def _clip(voice: Voice, rng: random.Random, synthesizer: Synthesizer, known: Vocabulary) -> _Clip:
    share = rng.random()
    if share < SILENT_SHARE:
        return _Clip(np.zeros(WINDOW))
    if share > SILENT_SHARE + STOP_SHARE:
        return _Clip(synthesizer.speak(other_text(rng, known), voice))
    words = phrasebook("en").spoken("spotted_stops")
    word = rng.randrange(len(words))
    text, position = stop_sentence(rng, words[word], known)
    samples, starts_s = synthesizer.speak_words(text, voice)
    begins_s = starts_s[position]
    ends_s = min(
        (start_s for start_s in starts_s.values() if start_s > begins_s),
        default=len(samples) / SAMPLE_RATE_HZ,
    )
    start, end = round(begins_s * SAMPLE_RATE_HZ), round(ends_s * SAMPLE_RATE_HZ)
    audio = audible(samples)
    return _Clip(samples, word, start, int(audio[audio < end].max(initial=start)))


def _examples(
    clip: _Clip,
    other_voices: Sequence[Samples],
    rng: random.Random,
    noise: np.random.Generator,
    encoder: MoonshineEncoder,
) -> list[tuple[Any, ...]]:
    """Returns rows of StopExamples: windows of a clip in random conditions, often among other speech."""
    clip = _sized(clip, rng.uniform(*SIZES)) if rng.random() < SIZED_SHARE else clip
    spoken = clip.samples[: clip.end + 1] if clip.word >= 0 and rng.random() < _JOINED_SHARE else clip.samples
    before = [_silence(_BEFORE_S, rng)]
    if other_voices and rng.random() < _JOINED_SHARE:
        before += [_as_loud(rng.choice(other_voices), spoken), _silence(_GAP_S, rng)]
    after = (
        [_as_loud(rng.choice(other_voices), spoken)]
        if other_voices and len(spoken) < len(clip.samples)
        else []
    )
    quiet = np.zeros(round(_AFTER_S * SAMPLE_RATE_HZ))
    audio, snr_db = in_conditions(
        np.concatenate([*before, spoken, _silence(_GAP_S, rng), *after, quiet]), other_voices, noise
    )
    audio, lead = np.concatenate([_SILENCE, audio]), WINDOW + sum(map(len, before))
    ends = [(end, word) for end, word in _window_ends(clip, lead, rng) if end <= len(audio)]
    windows = [(encoder.encode(audio[end - WINDOW : end])[0], word) for end, word in ends]
    return [(states.astype(np.float16), np.int64(word), np.float32(snr_db)) for states, word in windows]


def _window_ends(clip: _Clip, lead: int, rng: random.Random) -> list[tuple[int, int]]:
    """Returns the ends of windows and the word just said in each, for a clip after `lead` samples."""
    earliest = WINDOW + round(_MIN_S * SAMPLE_RATE_HZ)
    if clip.word < 0:
        latest = max(lead + len(clip.samples), earliest)
        return [(rng.randint(earliest, latest), -1) for _ in range(2)]
    after = (round(rng.uniform(*AFTER_WORD_S) * SAMPLE_RATE_HZ) for _ in range(2))
    ends = [(lead + clip.end + offset, clip.word) for offset in after]
    latest = lead + clip.start + round(BEGUN * (clip.end - clip.start))
    return ends + ([(rng.randint(earliest, latest), -1)] if latest > earliest else [])


def _sized(clip: _Clip, faster: float) -> _Clip:
    """Returns a clip played faster, with higher pitch and formants."""
    places = np.arange(int(len(clip.samples) / faster)) * faster
    samples = np.interp(places, np.arange(len(clip.samples)), clip.samples)
    return _Clip(samples, clip.word, int(clip.start / faster), int(clip.end / faster))


def _silence(ends_s: tuple[float, float], rng: random.Random) -> Samples:
    return np.zeros(round(rng.uniform(*ends_s) * SAMPLE_RATE_HZ))


def _as_loud(other: Samples, said: Samples) -> Samples:
    loudness = float(np.abs(said).max(initial=0.0)) or 0.5
    return other * (loudness / max(float(np.abs(other).max(initial=0.0)), 1e-9))
