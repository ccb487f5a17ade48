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
    spoken = list(spoken_commands(commands, seed, vocabulary))
    stops_spoken = list(spoken_stops(stops, seed))
    figures = [_figures(engine, noise, spoken, stops_spoken, seed, vocabulary) for noise in NOISES]
    voice_folders = voices(recordings) if recordings else []
    recorded_rows = [
        recorded_figures(engine, voice, noise, seed) for voice in voice_folders for noise in NOISES
    ]
    print_results(_table(figures, recorded_rows, seed))
    parts = {"levels": [asdict(row) for row in figures], "recorded": [asdict(row) for row in recorded_rows]}
    write_figures(json_file, {"engine": engine_name, "seed": seed, **parts})
    return figures


def _figures(
    engine: AsrEngine,
    noise: str,
    commands: Sequence[Spoken],
    stops: Sequence[Spoken],
    seed: int,
    vocabulary: Vocabulary,
) -> VoiceFigures:
    wrong: list[tuple[str, str]] = []
    false_stops = 0
    for number, spoken in enumerate(tracked(commands, f"commands, {noise}")):
        recognized = heard_in(engine, to_bytes(with_noise(spoken, NOISES[noise], seed + number)))
        false_stops += recognized.stopped
        if _plan(recognized.sentence, vocabulary) != _plan(spoken.sentence, vocabulary):
            wrong.append((spoken.sentence, recognized.sentence))
    in_time = _in_time(engine, noise, stops, seed)
    right = len(commands) - len(wrong)
    return VoiceFigures(
        noise,
        len(commands),
        right,
        wilson_interval(right, len(commands)),
        false_stops,
        len(stops),
        in_time,
        wilson_interval(in_time, len(stops)),
        tuple(wrong),
    )


def _in_time(engine: AsrEngine, noise: str, stops: Sequence[Spoken], seed: int) -> int:
    """Returns how many spoken stops are recognized in time."""
    in_time = 0
    for number, spoken in enumerate(tracked(stops, f"stops, {noise}")):
        samples = to_bytes(with_noise(spoken, NOISES[noise], seed + number))
        in_time += stop_recognized_s(engine, samples) <= spoken.ends_s + STOP_LIMIT_S
    return in_time


def recorded_figures(engine: AsrEngine, voice: Path, noise: str, seed: int) -> RecordedFigures:
    """Returns the figures of the recordings in a voice's folder."""
    recordings = list(recorded(voice))
    stops = [recording for recording in recordings if says_to_stop(recording.sentence)]
    commands = [recording for recording in recordings if not says_to_stop(recording.sentence)]
    recognized_s = [
        stop_recognized_s(engine, to_bytes(with_noise(spoken, NOISES[noise], seed + number)))
        for number, spoken in enumerate(tracked(commands, f"{voice.name}, {noise}"))
    ]
    false_stops = sum(stop_s < float("inf") for stop_s in recognized_s)
    in_time = _in_time(engine, noise, stops, seed)
    return RecordedFigures(voice.name, noise, len(commands), false_stops, len(stops), in_time)


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


def _table(figures: Sequence[VoiceFigures], recorded_rows: Sequence[RecordedFigures], seed: int) -> Table:
    table = results_table(f"synthetic speech, seed {seed}", *LEGENDS["eval voice"])
    for row in figures:
        table.add_row(
            row.noise,
            f"{row.plans_right} of {row.commands} ({_percent(row.plan_interval)})",
            f"{row.stops_in_time} of {row.stops} ({_percent(row.stop_interval)})",
            f"{row.false_stops} of {row.commands}",
        )
    for voice in recorded_rows:
        in_time, false_stops = (
            f"{voice.stops_in_time} of {voice.stops}",
            f"{voice.false_stops} of {voice.commands}",
        )
        table.add_row(f"{voice.voice}, {voice.noise}", "-", in_time, false_stops)
    return table


def _percent(interval: Interval) -> str:
    return f"{100 * interval[0]:.0f} to {100 * interval[1]:.0f} %"
