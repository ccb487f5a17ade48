# SPDX-License-Identifier: Apache-2.0
"""`outrider eval sentences`: how the grammar reads sentences that were written down before it existed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

from outrider.core.errors import ConfigError, InstructionError
from outrider.core.files.given_file import cause_of, read_text
from outrider.core.language.grammar import Vocabulary
from outrider.core.language.sentences.planner import plan_of
from outrider.core.language.words.phrasebook import LANGUAGES
from outrider.evaluation.common.intervals import wilson_interval
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import interval_text, print_results, results_table
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import benchmark_file

SETS = ("building", "held_out")
"""The files of a folder of sentences. `held_out` must not be read to change the grammar."""
MODELS = ("trained", "general")
MIN_RIGHT = 0.97
"""The share of right intents to aim for."""
STANDING_INTENTS = ("refuse", "mend(", "stop", "see", "did", "where(", "ask", "remember", "forget(", "wait(")
"""Prefixes of the intents whose steps do not move the robot."""
ALL = "all"


class Sentence(NamedTuple):
    """A sentence with the expected intent; `model` is `trained` (on few words) or `general`."""

    language: str
    model: str
    intent: str
    text: str

    @property
    def must_not_move(self) -> bool:
        """Whether no step of the expected intent moves the robot."""
        return all(step.startswith(STANDING_INTENTS) for step in self.intent.split("; "))


class Reading(NamedTuple):
    """How a sentence was read; `why` is the reason of a refusal, else empty."""

    sentence: Sentence
    intent: str
    moves: bool
    why: str = ""

    @property
    def is_right(self) -> bool:
        """Whether the intent is the expected one; an offer to mend also counts as a refusal."""
        wanted = self.sentence.intent
        return self.intent == wanted or (wanted == "refuse" and self.intent.startswith("mend("))


def sentences_folder() -> Path:
    """The folder of sentences that comes with the package."""
    return benchmark_file("sentences/words.yaml").parent


def read_sentences(folder: Path) -> tuple[Vocabulary, dict[str, list[Sentence]]]:
    """Returns the words of the model that the sentences were written for, and the sentences of each set.

    Raises ConfigError for a file that is missing or holds something else.
    """
    try:
        words = yaml.safe_load(read_text(folder / "words.yaml"))
        vocabulary = Vocabulary({slot: tuple(words_of_slot) for slot, words_of_slot in words.items()})
        return vocabulary, {name: _read_all(folder / f"{name}.tsv") for name in SETS}
    except OSError as error:
        raise ConfigError(f"{error.filename} cannot be read ({cause_of(error)}): restore the file") from error
    except (AttributeError, TypeError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(
            f"{folder / 'words.yaml'} holds no words by slot ({cause_of(error)}): restore the file"
        ) from error


def _read_all(file: Path) -> list[Sentence]:
    try:
        sentences = list(_read(file))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} cannot be read ({cause_of(error)}): restore the file") from error
    if not sentences:
        raise ConfigError(f"{file} holds no sentences: write at least one into it")
    return sentences


def _read(file: Path) -> Iterator[Sentence]:
    for number, line in enumerate(read_text(file).splitlines(), 1):
        columns = line.split("\t")
        if line.startswith("#"):
            continue
        if len(columns) != len(Sentence._fields) or columns[0] not in LANGUAGES or columns[1] not in MODELS:
            raise ConfigError(f"{file}:{number}: want language, model, intent and sentence with tabs between")
        yield Sentence(*columns)


def read(sentence: Sentence, vocabulary: Vocabulary) -> Reading:
    """Returns how the grammar reads a sentence, without carrying it out."""
    try:
        plan = plan_of(sentence.text, None if sentence.model == "general" else vocabulary)
    except InstructionError as error:
        return Reading(sentence, f"mend({error.meant})" if error.meant else "refuse", False, str(error))
    return Reading(sentence, plan.intent, plan.moves)


def evaluate_sentences(folder: Path | None = None, json_file: Path | None = None) -> dict[str, Any]:
    """Read all sentences of a folder, print a table and each misread one, write JSON.

    Raises ConfigError for a folder without them.
    """
    vocabulary, sets = read_sentences(folder or sentences_folder())
    readings = {
        name: [read(sentence, vocabulary) for sentence in sentences] for name, sentences in sets.items()
    }
    figures: dict[str, Any] = {
        "sets": {name: _by_language(set_readings) for name, set_readings in readings.items()},
        "moved": sum(
            reading.moves
            for set_readings in readings.values()
            for reading in set_readings
            if reading.sentence.must_not_move
        ),
        "wrong": [
            _wrong_row(name, reading)
            for name, set_readings in readings.items()
            for reading in set_readings
            if not reading.is_right
        ],
    }
    rows = [
        _cells(name, language, reading)
        for name, counts in figures["sets"].items()
        for language, reading in counts.items()
    ]
    table = results_table("sentences written down before the grammar", *LEGENDS["eval sentences"], rows=rows)
    print_results(table, *map(_line, figures["wrong"]))
    write_figures(json_file, figures)
    return figures


def _by_language(readings: Sequence[Reading]) -> dict[str, dict[str, Any]]:
    languages = [
        language
        for language in LANGUAGES
        if any(reading.sentence.language == language for reading in readings)
    ]
    counts = {
        language: _count([r for r in readings if r.sentence.language == language]) for language in languages
    }
    return {**counts, ALL: _count(readings)}


def _count(readings: Iterable[Reading]) -> dict[str, Any]:
    reading_list = list(readings)
    must_stand = [reading for reading in reading_list if reading.sentence.must_not_move]
    right = sum(reading.is_right for reading in reading_list)
    return {
        "sentences": len(reading_list),
        "right": right,
        "right_interval": wilson_interval(right, len(reading_list)),
        "must_not_move": len(must_stand),
        "moved": sum(reading.moves for reading in must_stand),
    }


def _wrong_row(name: str, reading: Reading) -> dict[str, str]:
    sentence = reading.sentence
    row = {"set": name, **sentence._asdict(), "came_to": reading.intent}
    return {**row, "why": reading.why} if reading.why else row


def _line(wrong: dict[str, str]) -> str:
    why = f": {wrong['why']}" if "why" in wrong else ""
    origin = f"{wrong['set']}, {wrong['language']}, {wrong['model']}"
    return f'{origin}: "{wrong["text"]}" is {wrong["came_to"]}, not {wrong["intent"]}{why}'


def _cells(name: str, language: str, counts: dict[str, Any]) -> tuple[str, ...]:
    sentences, right, interval, still, moved = counts.values()
    return name, language, str(sentences), str(right), interval_text(interval, ".3f"), str(still), str(moved)
