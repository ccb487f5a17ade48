"""`outrider memory` from the command line, as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.memories import another_reader
from typer.testing import CliRunner

from outrider import cli
from outrider.core.errors import ConfigError, MemoryStoreError, NotErasedError, StoreInputError
from outrider.runtime.wiring.memory_stores import default_store, make_filter, this_home


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    store = tmp_path / "memory.db"
    monkeypatch.setenv("OUTRIDER_MEMORY", str(store))
    monkeypatch.setenv("COLUMNS", "160")
    return store


def outrider(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["memory", *arguments])


@pytest.mark.lengthy
def test_a_long_note_shows_what_was_matched_of_it() -> None:
    outrider("add", "We walked in the park and read the news. " * 20 + "The pump hangs by the stairs.")
    outrider("add", "the bins go out on Monday")
    found = outrider("search", "where is the pump?", "--limit", "1").output
    assert "matched" in found and found.count("pump") == 2
    assert "matched" not in outrider("search", "when do the bins go out?", "--limit", "1").output


@pytest.mark.lengthy
def test_forgetting_during_a_read_reports_that_bytes_remain(own_store: Path) -> None:
    outrider("add", "my keys hang by the door")
    with another_reader(own_store):
        result = outrider("forget", "--matching", "keys")
        assert isinstance(result.exception, NotErasedError)
        assert "another process reads" in str(result.exception) and "end it" in str(result.exception)
    assert "nothing is remembered" in outrider("list").output
    assert not any(b"by the door" in file.read_bytes() for file in own_store.parent.iterdir())


@pytest.mark.lengthy
def test_a_memory_from_telling_to_forgetting(own_store: Path) -> None:
    assert "private" in outrider("add", "my keys hang by the door").output
    told = outrider("add", "the bins go out on Monday", "--shareable", "--at", "1.5", "-2", "--home", "flat")
    assert told.exit_code == 0 and "shareable" in told.output
    listed = outrider("list").output
    assert "my keys hang by the door" in listed and "1.5, -2.0" in listed
    assert "bins" not in outrider("list", "--private", "--since", "1h").output
    first = outrider("search", "where are my keys?", "--limit", "1").output
    assert "keys" in first and "bins" not in first
    near = outrider("search", "what?", "--near", "1", "-2", "--home", "flat", "--radius", "1").output
    assert "bins" in near and "keys" not in near
    lines = [json.loads(line) for line in outrider("export").output.splitlines()]
    assert [(line["text"], line.get("home")) for line in lines] == [
        ("my keys hang by the door", None),
        ("the bins go out on Monday", "flat"),
    ]
    assert "forgot 1 record" in outrider("forget", "--matching", "bins").output
    assert "forgot 1 record" in outrider("forget", "1").output
    assert "nothing is remembered" in outrider("list").output
    assert own_store.exists()


@pytest.mark.lengthy
def test_an_encrypted_store_from_the_command_line(own_store: Path, tmp_path: Path) -> None:
    key = str(tmp_path / "memory.key")
    assert outrider("add", "my passport", "--store-key-file", key).exit_code == 0
    assert "my passport" in outrider("list", "--store-key-file", key).output
    assert isinstance(outrider("list").exception, MemoryStoreError)


@pytest.mark.parametrize("arguments", [(), ("1", "--all"), ("--matching", "x", "--all")])
def test_exactly_one_way_to_forget(arguments: tuple[str, ...]) -> None:
    outrider("add", "kept x")
    assert isinstance(outrider("forget", *arguments).exception, ConfigError)
    assert "kept x" in outrider("list").output


def test_a_bad_span_of_time_is_refused() -> None:
    for span in ("7", "7x", "-1d", "d"):
        with pytest.raises(MemoryStoreError, match="no span of time"):
            make_filter(since=span)


def test_places_and_names_by_default(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_store() == own_store
    monkeypatch.delenv("OUTRIDER_MEMORY")
    assert default_store() == Path.home() / ".outrider" / "memory.db"
    assert this_home("flat") == "flat" and this_home("") == this_home("") != ""


@pytest.mark.parametrize(
    "words", ["list", "search keys", "forget 1", "export", "ask"], ids=lambda words: words.split()[0]
)
@pytest.mark.parametrize("option", ["--store", "--store-key-file"])
def test_what_only_looks_makes_no_store_and_no_key(words: str, option: str, tmp_path: Path) -> None:
    missing = tmp_path / "mistyped"
    command = ["ask", "where are my keys?"] if words == "ask" else ["memory", *words.split()]
    result = CliRunner().invoke(cli.app, [*command, option, str(missing)])
    assert isinstance(result.exception, StoreInputError) and str(missing) in str(result.exception)
    assert not missing.exists()


@pytest.mark.parametrize("words", ["list", "search keys", "forget keys"])
@pytest.mark.parametrize("kind", ["", "qdrant:"])
def test_what_only_looks_makes_no_corpus(words: str, kind: str, tmp_path: Path) -> None:
    missing = tmp_path / "mistyped.db"
    result = CliRunner().invoke(cli.app, ["corpus", *words.split(), "--corpus", f"{kind}{missing}"])
    assert isinstance(result.exception, StoreInputError) and not missing.exists()


@pytest.mark.lengthy
def test_an_empty_corpus_says_so(tmp_path: Path) -> None:
    text, corpus = tmp_path / "empty.md", str(tmp_path / "corpus.db")
    text.write_text("")
    assert CliRunner().invoke(cli.app, ["corpus", "fill", str(text), "--corpus", corpus]).exit_code == 0
    for words, told in (("list", "empty"), ("search keys", "no passage fits")):
        assert told in CliRunner().invoke(cli.app, ["corpus", *words.split(), "--corpus", corpus]).output


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (2, 1, "forgot 0 records"),
        (2**63 - 1, 1, "forgot 0 records"),
        (2**63, 2, "too large"),
        (10**22, 2, "too large"),
    ],
)
def test_a_number_that_no_record_has_forgets_nothing(number: int, status: int, said: str) -> None:
    outrider("add", "kept x")
    result = outrider("forget", str(number))
    assert result.exit_code == status and said in result.output
    assert "kept x" in outrider("list").output


@pytest.mark.parametrize(
    ("words", "wanted"),
    [(["search", " "], "what to look for"), (["forget", "--matching", " "], "what to forget")],
)
def test_words_that_are_empty_are_asked_for_by_what_they_are_for(words: list[str], wanted: str) -> None:
    outrider("add", "kept x")
    assert wanted in str(outrider(*words).exception)


@pytest.mark.lengthy
@pytest.mark.parametrize(("word", "wanted"), [("search", "what to look for"), ("forget", "what to forget")])
def test_a_corpus_asks_for_words_by_what_they_are_for(word: str, wanted: str, tmp_path: Path) -> None:
    text, corpus = tmp_path / "text.md", str(tmp_path / "corpus.db")
    text.write_text("keys are cut at the kiosk")
    CliRunner().invoke(cli.app, ["corpus", "fill", str(text), "--corpus", corpus])
    assert wanted in str(CliRunner().invoke(cli.app, ["corpus", word, "", "--corpus", corpus]).exception)


def test_a_place_to_search_near_must_be_finite() -> None:
    with pytest.raises(StoreInputError, match="finite"):
        make_filter(near=(float("nan"), 0.0))


def test_a_record_with_brackets_is_listed_and_found_unchanged() -> None:
    told = "[/b] my [spare] keys :smile: hang by the door"
    outrider("add", told)
    for shown in (outrider("list"), outrider("search", "where are my keys?")):
        assert shown.exit_code == 0 and told in shown.output
