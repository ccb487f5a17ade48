# SPDX-License-Identifier: Apache-2.0
"""`outrider eval voice`: the share of spoken commands with the right plan, and of stops that are in time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from outrider.core.errors import ConfigError, InstructionError
from outrider.core.files.terminal import tracked
from outrider.core.hearing import BYTES_A_SECOND, AsrEngine
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.sentences.stops import says_to_stop
from outrider.evaluation.common.intervals import Interval, wilson_interval
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.voice.spoken_commands import (
    Spoken,
    recorded,
    spoken_commands,
    spoken_stops,
    with_noise,
)
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.mission.words import vocabulary_of
from outrider.voice.engines import make_engine
from outrider.voice.hearing import PIECE_BYTES, heard_in
from outrider.voice.sound import to_bytes, voices

STOP_LIMIT_S = 0.5
NOISES: dict[str, float | None] = {"clean": None, "15 dB": 15.0}


@dataclass(frozen=True)
class VoiceFigures:
    """Figures at one level of noise. A false stop is one recognized in a command that orders none."""

    noise: str
    commands: int
    plans_right: int
    plan_interval: Interval
    false_stops: int
    stops: int
    stops_in_time: int
    stop_interval: Interval
    wrong: tuple[tuple[str, str], ...]
    """Pairs of the spoken sentence and the recognized one."""


@dataclass(frozen=True)
class RecordedFigures:
    """Figures of a recorded voice at one level of noise; see `VoiceFigures`."""

    voice: str
    noise: str
    commands: int
    false_stops: int
    stops: int
    stops_in_time: int


def evaluate_voice(
    commands: int,
    stops: int,
    seed: int,
    engine_name: str,
    model: str,
    recordings: Path | None,
    json_file: Path | None,
) -> list[VoiceFigures]:
    """Returns the figures of every level of noise; prints them and writes them as JSON.

    Raises ConfigError where the engine or eSpeak NG is missing, or the model's card names no words.
    """
    vocabulary = vocabulary_of(model)
    if vocabulary is None:
        raise ConfigError("the model's card names no words to say: choose another --model")
    engine = make_engine(engine_name, vocabulary)
    said = list(spoken_commands(commands, seed, vocabulary))
    stopping = list(spoken_stops(stops, seed))
    figures = [_figures(engine, noise, said, stopping, seed, vocabulary) for noise in NOISES]
    places = voices(recordings) if recordings else []
    found = [recorded_figures(engine, voice, noise, seed) for voice in places for noise in NOISES]
    print_results(_table(figures, found, seed))
    parts = {"levels": [asdict(one) for one in figures], "recorded": [asdict(one) for one in found]}
    write_figures(json_file, {"engine": engine_name, "seed": seed, **parts})
    return figures


def _figures(
    engine: AsrEngine,
    noise: str,
    said: Sequence[Spoken],
    stopping: Sequence[Spoken],
    seed: int,
    vocabulary: Vocabulary,
) -> VoiceFigures:
    wrong: list[tuple[str, str]] = []
    false_stops = 0
    for number, spoken in enumerate(tracked(said, f"commands, {noise}")):
        heard = heard_in(engine, to_bytes(with_noise(spoken, NOISES[noise], seed + number)))
        false_stops += heard.stopped
        if _plan(heard.sentence, vocabulary) != _plan(spoken.sentence, vocabulary):
            wrong.append((spoken.sentence, heard.sentence))
    in_time = _in_time(engine, noise, stopping, seed)
    right = len(said) - len(wrong)
    return VoiceFigures(
        noise,
        len(said),
        right,
        wilson_interval(right, len(said)),
        false_stops,
        len(stopping),
        in_time,
        wilson_interval(in_time, len(stopping)),
        tuple(wrong),
    )


def _in_time(engine: AsrEngine, noise: str, stopping: Sequence[Spoken], seed: int) -> int:
    """Returns how many spoken stops are recognized in time."""
    in_time = 0
    for number, spoken in enumerate(tracked(stopping, f"stops, {noise}")):
        samples = to_bytes(with_noise(spoken, NOISES[noise], seed + number))
        in_time += stop_recognized_s(engine, samples) <= spoken.ends_s + STOP_LIMIT_S
    return in_time


def recorded_figures(engine: AsrEngine, voice: Path, noise: str, seed: int) -> RecordedFigures:
    """Returns the figures of the recordings in a voice's folder."""
    said = list(recorded(voice))
    stopping = [one for one in said if says_to_stop(one.sentence)]
    others = [one for one in said if not says_to_stop(one.sentence)]
    heard = [
        stop_recognized_s(engine, to_bytes(with_noise(spoken, NOISES[noise], seed + number)))
        for number, spoken in enumerate(tracked(others, f"{voice.name}, {noise}"))
    ]
    false_stops = sum(one < float("inf") for one in heard)
    in_time = _in_time(engine, noise, stopping, seed)
    return RecordedFigures(voice.name, noise, len(others), false_stops, len(stopping), in_time)


def stop_recognized_s(engine: AsrEngine, samples: bytes) -> float:
    """Returns when a stop is recognized in sound that arrives in real time; infinite if never.

    The engine's processor time counts: it takes a piece once the piece has arrived and the previous one is
    done.
    """
    utterance = engine.listen()
    now_s = 0.0
    for start in range(0, len(samples), PIECE_BYTES):
        piece = samples[start : start + PIECE_BYTES]
        began_s = time.process_time()
        stopped = utterance.feed(piece)
        now_s = max(now_s, (start + len(piece)) / BYTES_A_SECOND) + time.process_time() - began_s
        if stopped:
            return now_s
    return float("inf")


def _plan(sentence: str, vocabulary: Vocabulary) -> str:
    """The plan as text; empty where there is none."""
    try:
        return plan_of(sentence, vocabulary).text() if sentence else ""
    except InstructionError:
        return ""


def _table(figures: Sequence[VoiceFigures], found: Sequence[RecordedFigures], seed: int) -> Table:
    table = results_table(f"synthetic speech, seed {seed}", *LEGENDS["eval voice"])
    for one in figures:
        table.add_row(
            one.noise,
            f"{one.plans_right} of {one.commands} ({_percent(one.plan_interval)})",
            f"{one.stops_in_time} of {one.stops} ({_percent(one.stop_interval)})",
            f"{one.false_stops} of {one.commands}",
        )
    for voice in found:
        in_time, false = f"{voice.stops_in_time} of {voice.stops}", f"{voice.false_stops} of {voice.commands}"
        table.add_row(f"{voice.voice}, {voice.noise}", "-", in_time, false)
    return table


def _percent(interval: Interval) -> str:
    return f"{100 * interval[0]:.0f} to {100 * interval[1]:.0f} %"
