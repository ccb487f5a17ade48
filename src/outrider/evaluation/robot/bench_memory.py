# SPDX-License-Identifier: Apache-2.0
"""`outrider bench memory`: the memory's recall, its speed, and whether its records survive kill -9."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import yaml  # type: ignore[import-untyped]

from outrider.core.errors import MemoryStoreError
from outrider.core.files.terminal import tracked
from outrider.core.processes import interrupts_blocked
from outrider.core.values import Place, RecordKind
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import figure_text, in_words, print_results, results_table
from outrider.memory.embedding import MiniLmEmbedder
from outrider.memory.store.eviction import StoreLimits
from outrider.memory.store.records import ANY, RecordFilter
from outrider.memory.store.store import MemoryStore
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.paths import benchmark_file

QUERIES = 200
HOME = "bench"
SIDE_M = 40.0
HOUSEHOLD = "household.yaml"
BEST_OF = 3


class FillerEmbedder:
    """Gives random unit vectors under the real embedder's name, to fill a large store quickly."""

    name = MiniLmEmbedder.name
    size = MiniLmEmbedder.size

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 17])

    def embed(self, text: str) -> np.ndarray[Any, Any]:
        """Returns a random vector (size,) of length 1, whatever the text."""
        vector = self._rng.standard_normal(self.size).astype(np.float32)
        return vector / np.linalg.norm(vector)


def bench_memory(
    records: int, kills: int, seed: int, encrypted: bool, json_file: Path | None, queries: int = QUERIES
) -> dict[str, Any]:
    """Measure, print a table, write JSON. Raises MemoryStoreError where an acknowledged record is lost."""
    with tempfile.TemporaryDirectory(prefix="outrider-memory-") as name:
        folder = Path(name)
        key_file = folder / "memory.key" if encrypted else None
        figures: dict[str, Any] = {"seed": seed, "encrypted": encrypted}
        figures |= kill_writers(folder / "killed.db", kills, seed, key_file)
        figures |= measure_recall(folder / "household.db", key_file)
        figures |= time_recall(folder / "large.db", records, seed, queries, key_file)
    rows = ((in_words(name), figure_text(value)) for name, value in figures.items() if name != "seed")
    print_results(results_table(f"memory, seed {seed}", *LEGENDS["bench memory"], rows=rows))
    write_figures(json_file, figures)
    return figures


def kill_writers(path: Path, kills: int, seed: int, key_file: Path | None = None) -> dict[str, Any]:
    """Kill -9 a writing process repeatedly on one store, and check that all acknowledged records are kept."""
    rng = np.random.default_rng([seed, 19])
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    acknowledged: set[int] = set()
    for _ in tracked(range(kills), "kills"):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=_write_until_killed, args=(path, key_file, writer), daemon=True)
        num_wanted, pause_s = int(rng.integers(1, 30)), float(rng.uniform(0.0, 0.004))
        try:
            with interrupts_blocked():
                process.start()
            writer.close()
            acknowledged |= _read_ids(reader, num_wanted)
            time.sleep(pause_s)
        finally:  # also at an interrupt: it must not write to a folder that is being removed
            if process.pid is not None:
                process.kill()
                process.join()
        acknowledged |= _read_ids(reader, 1_000_000)
        _check_kept(path, key_file, acknowledged)
    return {"kills": kills, "acknowledged_records": len(acknowledged), "lost_records": 0}


def _write_until_killed(path: Path, key_file: Path | None, acknowledge: Connection) -> None:
    with (
        MemoryStore(path, FillerEmbedder(os.getpid()), key_file=key_file) as memory,
        contextlib.suppress(BrokenPipeError),  # the reading process was interrupted
    ):
        while True:
            acknowledge.send(memory.add(f"a thing of process {os.getpid()}", place=Place(1.0, 2.0)).id)


def _read_ids(reader: Connection, most: int) -> set[int]:
    """Up to `most` ids, waiting for each; fewer where the writer has ended."""
    ids: set[int] = set()
    try:
        while len(ids) < most:
            ids.add(reader.recv())
    except EOFError:
        reader.close()
    except OSError:
        pass
    return ids


def _check_kept(path: Path, key_file: Path | None, acknowledged: set[int]) -> None:
    with MemoryStore(path, FillerEmbedder(0), key_file=key_file) as memory:
        memory.verify()
        lost = acknowledged - {record.id for record in memory.newest(memory.count())}
    if lost:
        raise MemoryStoreError(f"{len(lost)} acknowledged records are lost, the first is {min(lost)}")


def measure_recall(path: Path, key_file: Path | None = None) -> dict[str, Any]:
    """Returns the share of household questions whose own record ranks first, or among the first three."""
    entries: list[dict[str, str]] = yaml.safe_load(benchmark_file(HOUSEHOLD).read_text())
    figures: dict[str, Any] = {"household_records": len(entries)}
    with MemoryStore(path, MiniLmEmbedder(), key_file=key_file) as memory:
        ids = {entry["told"]: memory.add(entry["told"]).id for entry in entries}
        for kind, name in (("asks", "questions"), ("riddle", "riddles")):
            questions = [(entry[kind], ids[entry["told"]]) for entry in entries if kind in entry]
            ids_found = [[hit.record.id for hit in memory.recall(query, BEST_OF)] for query, _ in questions]
            figures[name] = len(questions)
            for best in (1, BEST_OF):
                hits = [
                    wanted in ranked[:best] for ranked, (_, wanted) in zip(ids_found, questions, strict=True)
                ]
                figures[f"{name}_recall_at_{best}"] = statistics.mean(hits)
    return figures


def time_recall(
    path: Path, records: int, seed: int, queries: int, key_file: Path | None = None
) -> dict[str, Any]:
    """Returns milliseconds of a recall, with the query's embedding, from a store with `records` records."""
    entries: list[dict[str, str]] = yaml.safe_load(benchmark_file(HOUSEHOLD).read_text())
    questions = [entry["asks"] for entry in entries if "asks" in entry]
    limits = StoreLimits(max_records=records, max_mb=100_000.0)
    fill(path, [entry["told"] for entry in entries], records, seed, limits, key_file)
    middle = Place(SIDE_M / 2.0, SIDE_M / 2.0, HOME)
    filters = {"": ANY, "_of_today": RecordFilter(since_s=time.time() - 43_200.0)}
    filters["_near"] = RecordFilter(near=middle, radius_m=3.0)
    filters["_told"] = RecordFilter(kind=RecordKind.TOLD)
    figures: dict[str, Any] = {"records": records}
    with MemoryStore(path, MiniLmEmbedder(), limits=limits, key_file=key_file) as memory:
        figures["store_mb"] = round(memory.size_mb(), 1)
        for name, only in filters.items():
            figures |= _timed(memory, (questions * queries)[:queries], name, only)
        figures |= _time_adding(memory, 50)
    return figures


def fill(
    path: Path, texts: list[str], records: int, seed: int, limits: StoreLimits, key_file: Path | None
) -> None:
    """Fill a store with records made of the texts' words, seen and told over one day throughout a home."""
    rng = np.random.default_rng([seed, 23])
    words = sorted({word for text in texts for word in text.split()})
    common = 1.0 / np.arange(1, len(words) + 1)
    chosen = rng.choice(words, (records, 9), p=common / common.sum())
    now_s = time.time()
    with MemoryStore(path, FillerEmbedder(seed), limits=limits, key_file=key_file) as memory, memory.batch():
        for number, row in enumerate(tracked(chosen, "records")):
            x, y = rng.uniform(0.0, SIDE_M, 2)
            kind = RecordKind.TOLD if number % 100 == 0 else RecordKind.SEEN
            time_s = now_s - 86_400.0 * (records - number) / records
            memory.add(" ".join(row), kind=kind, place=Place(float(x), float(y), HOME), time_s=time_s)


def _timed(memory: MemoryStore, questions: list[str], name: str, only: RecordFilter) -> dict[str, Any]:
    memory.recall(questions[0], BEST_OF, only)
    times: list[tuple[float, float]] = []
    for question in questions:
        with _stopwatch(times):
            memory.recall(question, BEST_OF, only)
    wall_ms, processor_ms = zip(*times, strict=True)
    return {
        f"recall{name}_ms": round(statistics.median(wall_ms), 2),
        f"recall{name}_p95_ms": round(statistics.quantiles(wall_ms, n=20)[-1], 2),
        f"recall{name}_processor_ms": round(statistics.median(processor_ms), 2),
    }


def _time_adding(memory: MemoryStore, number: int) -> dict[str, Any]:
    times: list[tuple[float, float]] = []
    for index in range(number):
        with _stopwatch(times):
            memory.add(f"my keys hang by door {index}")
    wall_ms, processor_ms = zip(*times, strict=True)
    return {
        "remember_ms": round(statistics.median(wall_ms), 2),
        "remember_processor_ms": round(statistics.median(processor_ms), 2),
    }


@contextlib.contextmanager
def _stopwatch(times: list[tuple[float, float]]) -> Iterator[None]:
    """Append elapsed milliseconds and those of the processor; the latter do not depend on other load."""
    started_s, started_processor_s = time.perf_counter(), time.process_time()
    yield
    wall_s, processor_s = time.perf_counter() - started_s, time.process_time() - started_processor_s
    times.append((wall_s * 1e3, processor_s * 1e3))
