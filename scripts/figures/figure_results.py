# SPDX-License-Identifier: Apache-2.0
"""The results under benchmarks/results/, and single values of them by name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from outrider.evaluation.common.intervals import wilson_interval

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks" / "results"
INDEX = ROOT / "benchmarks" / "results.yaml"


class Results(Mapping[str, Any]):
    """Reads each result once; a name is that of its file without `.json`."""

    def __init__(self, folder: Path = FOLDER, index: Path = INDEX) -> None:
        self._folder, self._index = folder, index
        self._read: dict[str, Any] = {}

    @cached_property
    def index(self) -> dict[str, dict[str, str]]:
        """The command that writes each result, and on what clock it was measured."""
        return dict(yaml.safe_load(self._index.read_text()))

    def __getitem__(self, name: str) -> Any:
        if name not in self.index:
            raise KeyError(f"{name} is no result of {self._index.name}: one of {', '.join(self.index)}")
        if name not in self._read:
            self._read[name] = json.loads(self.path(name).read_text())
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.index)

    def __len__(self) -> int:
        return len(self.index)

    def path(self, name: str) -> Path:
        """Returns the file of a result."""
        return self._folder / f"{name}.json"

    def command(self, name: str) -> str:
        """Returns the command that writes a result, without --json."""
        return self.index[name]["command"]

    def digest(self, *names: str) -> str:
        """Returns the SHA-256 of the results' files, so that a picture can say what it was drawn from."""
        total = hashlib.sha256()
        for name in names:
            total.update(self.path(name).read_bytes())
        return total.hexdigest()


def value_text(results: Results, result: str, path: str, form: str) -> str:
    """Returns one value of a result as text.

    `path`: keys with dots between, or `command`. `form`: a format specification, `ms` for seconds shown in
    milliseconds, or `pct` for a share in per cent. Raises KeyError for what is not there.
    """
    if path == "command":
        return f"`{results.command(result)}`"
    value = results[result]
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return formatted(value, form)


def formatted(value: float, form: str) -> str:
    """Returns a number in a form of `value_text`."""
    if form == "ms":
        return f"{value * 1e3:.0f}"
    return f"{value * 1e2:.0f} %" if form == "pct" else f"{value:{form}}"


def markdown_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Returns a table, as a block with an empty line before and after it."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n\n"


def share_text(successes: int, trials: int) -> str:
    """Returns a share with its number of trials and its interval."""
    low, high = wilson_interval(successes, trials)
    return f"{successes / trials:.2f} of {trials} ({low:.2f} to {high:.2f})"


def span(interval: list[float] | tuple[float, float], form: str = ".2f") -> str:
    """Returns an interval as text."""
    low, high = interval
    return f"{formatted(low, form)} to {formatted(high, form)}"
