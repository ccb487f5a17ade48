# SPDX-License-Identifier: Apache-2.0
"""Opens the robot's memory, and implements `outrider memory`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from outrider.core.errors import ConfigError, StoreInputError
from outrider.core.files.given_file import in_home
from outrider.core.files.private_files import home_folder, tighten
from outrider.core.files.terminal import make_console, print_rows
from outrider.core.files.writing import replacing
from outrider.core.values import Place, Recalled, Record, Visibility
from outrider.memory.embedding import MiniLmEmbedder
from outrider.memory.store.ageing import is_possible
from outrider.memory.store.eviction import StoreLimits
from outrider.memory.store.records import ANY, RecordFilter, check_place
from outrider.memory.store.schema import SIDE_FILES
from outrider.memory.store.store import MemoryStore

STORE_VARIABLE = "OUTRIDER_MEMORY"
_SPAN_S = {"m": 60.0, "h": 3600.0, "d": 86_400.0}


def default_store(namespace: str = "") -> Path:
    """Returns `$OUTRIDER_MEMORY`, else a file in the home folder, for the nodes and the command line.

    A robot in a namespace has its own store, in a folder with the namespace's name next to this file.
    """
    store = Path(os.environ.get(STORE_VARIABLE) or home_folder() / "memory.db")
    return store.parent / namespace.strip("/") / store.name


def open_memory(
    store: str | Path = "", key_file: str | Path = "", limits: StoreLimits | None = None
) -> MemoryStore:
    """Opens the store at a path, by default `default_store`. Only the memory node sets limits.

    Raises MemoryStoreError.
    """
    path = Path(store) if str(store) else default_store()
    key = in_home(key_file) if str(key_file) else None
    return MemoryStore(in_home(path), _embedder(), limits=limits, key_file=key)


@lru_cache(maxsize=1)
def _embedder() -> MiniLmEmbedder:
    """Returns the embedder of all stores of a process, which loads its files once."""
    return MiniLmEmbedder()


@contextlib.contextmanager
def temporary_memory() -> Iterator[MemoryStore]:
    """Yields an empty store for a simulated robot; it is deleted at the end. Raises MemoryStoreError."""
    with (
        tempfile.TemporaryDirectory(prefix="outrider-") as folder,
        open_memory(Path(folder) / "memory.db") as memory,
    ):
        yield memory


def open_known_memory(store: str = "", key_file: str = "") -> MemoryStore:
    """Opens a memory. Raises StoreInputError if a given store or key file does not exist."""
    for file in filter(None, (store, key_file)):
        if not in_home(file).exists():
            raise StoreInputError(f"there is no {file}: `outrider memory add` makes a store and its key")
    return open_memory(store, key_file)


def this_home(name: str) -> str:
    """Returns the home whose coordinates odometry uses: `name`, else one valid until the next boot."""
    if name:
        return name
    try:
        return f"boot {Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"
    except OSError:
        return f"run {uuid.uuid4()}"


def make_filter(
    private: bool | None = None,
    since: str = "",
    near: tuple[float, float] | None = None,
    home: str = "",
    radius_m: float = 3.0,
) -> RecordFilter:
    """Returns a filter from a command's options; `since` is a span such as 30m, 12h or 7d."""
    visibility = None
    if private is not None:
        visibility = Visibility.PRIVATE if private else Visibility.SHAREABLE
    since_s = time.time() - _span_s(since) if since else None
    place = Place(*near, home) if near is not None else None
    check_place(place)
    return RecordFilter(visibility=visibility, since_s=since_s, near=place, radius_m=radius_m)


def _span_s(span: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhd])", span)
    if found is None:
        raise StoreInputError(f"since={span!r} is no span of time: give for example 30m, 12h or 7d")
    return float(found[1]) * _SPAN_S[found[2]]


def add_memory(
    memory: MemoryStore, text: str, shareable: bool, at: tuple[float, float] | None, home: str
) -> str:
    """Remember a person's statement. Returns the sentence that confirms it."""
    visibility = Visibility.SHAREABLE if shareable else Visibility.PRIVATE
    place = Place(*at, home) if at is not None else None
    record = memory.add(text, visibility=visibility, place=place)
    return f"remembered as {record.id} ({record.visibility.value}): {record.text}"


def print_records(records: list[Record], found: list[Recalled] | None = None) -> None:
    """Print a table of records; if found by a query, with their similarity and the matching passage."""
    rows = []
    shows_parts = any(recalled.is_part for recalled in found or [])
    answer = ["likeness", *(["matched"] if shows_parts else [])] if found else []
    for index, record in enumerate(records):
        place = record.place
        row = [
            str(record.id),
            record.text,
            record.kind.value,
            record.visibility.value,
            _stamp_words(record.updated_s),
            f"{place.x:.1f}, {place.y:.1f}" if place else "",
        ]
        if found:
            row += [f"{found[index].similarity:.2f}", *([found[index].passage] if shows_parts else [])]
        rows.append(row)
    if rows:
        headings = ("id", "text", "kind", "visibility", "when", "place", *answer)
        print_rows(make_console(), headings, rows)
    else:
        make_console().print("nothing is remembered that fits")


def _stamp_words(stamp_s: float) -> str:
    """Returns a date and time, with a question mark if the clock must have been wrong."""
    words = f"{datetime.fromtimestamp(stamp_s):%Y-%m-%d %H:%M}"
    return words if is_possible(stamp_s, time.time()) else f"{words} ?"


def search_memory(memory: MemoryStore, query: str, limit: int, only: RecordFilter = ANY) -> None:
    """Print the best answers to a query."""
    found = memory.recall(query, limit, only)
    print_records([recalled.record for recalled in found], found)


def forget_memory(
    memory: MemoryStore, ids: Sequence[int] = (), words: Sequence[str] = (), everything: bool = False
) -> tuple[int, str]:
    """Forget records in one of three ways. Returns their number, and a sentence about it.

    `words` are texts; a record matches if it holds all words of one of them. Empty texts are ignored.
    Raises StoreInputError unless exactly one way is given.
    """
    words = list(filter(None, words))
    if sum((bool(ids), bool(words), everything)) != 1:
        raise StoreInputError("give either ids, or words that match, or say that all is to be forgotten")
    if everything:
        forgotten = memory.forget_all()
    else:
        forgotten = memory.forget(ids) if ids else memory.forget_matching(*words)
    return forgotten, f"forgot {forgotten} {'record' if forgotten == 1 else 'records'}"


def export_memory(memory: MemoryStore, file: Path | None = None, key_file: str = "") -> None:
    """Write every record as a line of JSON, to standard output without a file.

    A file is private, even one that the shell has made for standard output. An existing file stays as it
    was if not every record can be written. Raises ConfigError, also if the file is that of the memory or
    its key.
    """
    if file is not None:
        store_files = [memory.path.with_name(memory.path.name + suffix) for suffix in ("", *SIDE_FILES)]
        if any(
            source.exists() and file.exists() and source.samefile(file)
            for source in (*store_files, *_given(key_file))
        ):
            raise ConfigError(f"{file} holds the memory or its key: choose another file to export to")
        with replacing(file) as written:
            written.writelines(line.encode() for line in _lines(memory))
        return
    with contextlib.suppress(OSError):  # a captured output has no descriptor
        tighten(sys.stdout.fileno(), "standard output")
    sys.stdout.writelines(_lines(memory))


def _given(file: str) -> list[Path]:
    return [in_home(file)] if file else []


def _lines(memory: MemoryStore) -> Iterator[str]:
    for plain in memory.export():
        yield json.dumps(plain, ensure_ascii=False) + "\n"
