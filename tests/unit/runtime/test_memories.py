"""`outrider memory` from the command line, as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outrider import cli
from outrider.core.errors import MemoryStoreError
from outrider.runtime.memories import default_store, make_filter, this_home


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    store = tmp_path / "memory.db"
    monkeypatch.setenv("OUTRIDER_MEMORY", str(store))
    monkeypatch.setenv("COLUMNS", "160")
    return store


def outrider(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["memory", *arguments])


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


def test_an_encrypted_store_from_the_command_line(own_store: Path, tmp_path: Path) -> None:
    key = str(tmp_path / "memory.key")
    assert outrider("add", "my passport", "--store-key-file", key).exit_code == 0
    assert "my passport" in outrider("list", "--store-key-file", key).output
    assert isinstance(outrider("list").exception, MemoryStoreError)


@pytest.mark.parametrize("arguments", [(), ("1", "--all"), ("--matching", "x", "--all")])
def test_exactly_one_way_to_forget(arguments: tuple[str, ...]) -> None:
    outrider("add", "kept x")
    assert isinstance(outrider("forget", *arguments).exception, MemoryStoreError)
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
