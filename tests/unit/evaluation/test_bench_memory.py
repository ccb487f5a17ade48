"""The memory benchmark: killed writers lose nothing, and household questions find their records."""

from __future__ import annotations

import json
import multiprocessing
import re
import statistics
from pathlib import Path

import pytest
import yaml

from outrider.core.errors import MemoryStoreError
from outrider.evaluation.robot.bench_memory import (
    FillerEmbedder,
    _check_kept,
    bench_memory,
    kill_writers,
    measure_recall,
)
from outrider.memory.store.store import MemoryStore
from outrider.runtime.common.paths import benchmark_file


@pytest.mark.lengthy
def test_a_process_killed_while_it_writes_loses_nothing_it_had_confirmed(tmp_path: Path) -> None:
    figures = kill_writers(tmp_path / "m.db", kills=5, seed=1)
    assert figures["acknowledged_records"] >= 5 and figures["lost_records"] == 0


def test_an_interrupt_leaves_no_writer_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)  # it waits between the last confirmation and the kill
    with pytest.raises(KeyboardInterrupt):
        kill_writers(tmp_path / "m.db", kills=1, seed=1)
    assert not multiprocessing.active_children()


def test_a_lost_record_is_noticed(tmp_path: Path) -> None:
    with MemoryStore(tmp_path / "m.db", FillerEmbedder(0)) as memory:
        kept = memory.add("kept").id
    with pytest.raises(MemoryStoreError, match="1 acknowledged"):
        _check_kept(tmp_path / "m.db", None, {kept, kept + 1})


@pytest.mark.lengthy
def test_nine_of_ten_household_questions_find_their_record_among_three(tmp_path: Path) -> None:
    figures = measure_recall(tmp_path / "m.db")
    assert figures["household_records"] >= 100 and figures["questions"] >= 100
    assert figures["questions_recall_at_3"] >= 0.9


def test_more_than_half_of_the_words_of_the_questions_are_not_in_what_was_told() -> None:
    entries = [e for e in yaml.safe_load(benchmark_file("household.yaml").read_text()) if "asks" in e]
    shares = []
    for entry in entries:
        told, asked = (set(re.findall(r"[a-z0-9]+", entry[key].lower())) for key in ("told", "asks"))
        shares.append(len(asked - told) / len(asked))
    assert statistics.mean(shares) > 0.5


@pytest.mark.lengthy
def test_figures_are_written(tmp_path: Path) -> None:
    figures = bench_memory(300, 1, 0, True, tmp_path / "f.json", queries=5)
    assert json.loads((tmp_path / "f.json").read_text()) == figures
    assert figures["records"] == 300 and figures["recall_ms"] > 0.0 and figures["encrypted"]
