"""Sentences written before the grammar existed: their intents, and the sentences that must not move."""

import json
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.cli import app
from outrider.core.errors import ConfigError
from outrider.evaluation.voice.sentence_sets import (
    MIN_RIGHT,
    SETS,
    Reading,
    read,
    read_sentences,
    sentences_folder,
)


@cache
def readings(half: str) -> list[Reading]:
    vocabulary, sets = read_sentences(sentences_folder())
    return [read(sentence, vocabulary) for sentence in sets[half]]


@pytest.mark.lengthy
@pytest.mark.parametrize("half", SETS)
def test_intents_are_right(half: str) -> None:
    told = readings(half)
    wrong = [one for one in told if not one.is_right]
    assert len(told) >= 200
    assert 1.0 - len(wrong) / len(told) >= MIN_RIGHT, wrong


@pytest.mark.parametrize("half", SETS)
def test_nothing_moves_that_must_not(half: str) -> None:
    still = [one for one in readings(half) if one.sentence.must_not_move]
    assert len(still) > 100
    assert [one for one in still if one.moves] == []


def test_half_of_the_sentences_are_held_out_and_no_sentence_is_in_both() -> None:
    _, sets = read_sentences(sentences_folder())
    building, held_out = (sets[half] for half in SETS)
    assert len(building) + len(held_out) >= 400 and abs(len(building) - len(held_out)) <= 1
    assert not set(building) & set(held_out)


def folder_of(folder: Path, *held_out: str) -> Path:
    """Makes a folder with one sentence for building and the given held-out lines. Returns it."""
    (folder / "words.yaml").write_text("colour: [red]\nkind: [chair]\n")
    (folder / "building.tsv").write_text("# language\nen\ttrained\thome\tgo home\n")
    (folder / "held_out.tsv").write_text("\n".join(held_out), encoding="utf-8")
    return folder


def evaluated(folder: Path) -> tuple[int, str, dict[str, object]]:
    figures = folder / "figures.json"
    result = CliRunner().invoke(app, ["eval", "sentences", "--folder", str(folder), "--json", str(figures)])
    return result.exit_code, result.output, json.loads(figures.read_text())


def test_the_command_counts_by_set_and_language_and_names_each_wrong_one(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path,
        "en\ttrained\trefuse\tfind the red chairr",
        "en\ttrained\tturn(45)\tturn left",
        "de\tgeneral\tstop\thalt",
        "de\ttrained\tsee; home\twas siehst du, dann geh nach Hause",
    )
    status, output, figures = evaluated(folder)
    sets = figures["sets"]
    assert status == 0 and isinstance(sets, dict) and set(sets) == set(SETS)
    assert list(sets["held_out"]) == ["en", "de", "all"]
    counts = [(one["sentences"], one["right"], one["must_not_move"]) for one in sets["held_out"].values()]
    assert counts == [(2, 1, 1), (2, 2, 1), (4, 3, 2)] and figures["moved"] == 0
    assert '"turn left" is turn(30), not turn(45)' in output and output.count("held_out, ") == 1


def test_the_command_fails_where_what_must_not_move_moves(tmp_path: Path) -> None:
    status, output, figures = evaluated(folder_of(tmp_path, "fr\ttrained\trefuse\trentre"))
    assert status == 1 and figures["moved"] == 1 and '"rentre" is home, not refuse' in output


@pytest.mark.parametrize(
    "line", ["en\ttrained\thome", "xx\ttrained\thome\tgo home", "en\tany\thome\tgo home", "go home"]
)
def test_what_is_no_sentence_with_its_intent_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    folder = folder_of(tmp_path, "en\ttrained\thome\tgo home", line)
    with pytest.raises(ConfigError, match=r"held_out\.tsv:2: want language"):
        read_sentences(folder)


@pytest.mark.lengthy
@pytest.mark.parametrize("words", ["", "- red", "colour: 3", "a: b: c", "colour: ['']", "[" * 9999])
def test_a_folder_without_words_or_sentences_is_named(tmp_path: Path, words: str) -> None:
    folder = folder_of(tmp_path)
    (folder / "words.yaml").write_text(words)
    with pytest.raises(ConfigError, match=r"words\.yaml"):
        read_sentences(folder)
    (folder / "words.yaml").unlink()
    result = CliRunner().invoke(app, ["eval", "sentences", "--folder", str(folder)])
    assert isinstance(result.exception, ConfigError) or result.exit_code == 2


@pytest.mark.parametrize("lines", [(), ("# language",)])
def test_a_file_without_sentences_is_named(tmp_path: Path, lines: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"held_out\.tsv holds no sentences"):
        read_sentences(folder_of(tmp_path, *lines))
