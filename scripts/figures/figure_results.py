# SPDX-License-Identifier: Apache-2.0
"""The results under benchmarks/results/, and single values of them by name."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from figure_settings import SETTINGS

from outrider.evaluation.common.intervals import wilson_interval

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks" / "results"
INDEX = ROOT / "benchmarks" / "results.yaml"


class Results(Mapping[str, Any]):
    """The results by name, each read once. A name is that of the file without `.json`."""

    def __init__(self, folder: Path = FOLDER, index: Path = INDEX) -> None:
        self._folder, self._index = folder, index
        self._read: dict[str, Any] = {}

    @cached_property
    def index(self) -> dict[str, dict[str, str]]:
        """The entries of results.yaml: each result's command and clock."""
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
        file = self.index[name].get("file")
        return ROOT / file if file else self._folder / f"{name}.json"

    def command(self, name: str) -> str:
        """Returns the command that writes a result, without --json."""
        return self.index[name]["command"]

    def digest(self, *names: str) -> str:
        """Returns the SHA-256 of the results' files, so that a picture can name its source."""
        total = hashlib.sha256()
        for name in names:
            total.update(self.path(name).read_bytes())
        return total.hexdigest()


def value_text(results: Results, result: str, path: str, form: str) -> str:
    """Returns one value of a result, or a setting of `SETTINGS`, as text.

    `path`: keys joined by dots, or `command`. `form`: a format specification, or a name in FORMS. Raises
    KeyError for a key that does not exist.
    """
    if result in SETTINGS:
        return formatted(SETTINGS[result](path), form)
    if path == "command":
        return f"`{results.command(result)}`"
    value = results[result]
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return formatted(value, form)


FORMS: dict[str, Callable[[Any], str]] = {
    "ms": lambda seconds: f"{seconds * 1e3:.0f}",
    "ms1": lambda seconds: f"{seconds * 1e3:.1f}",
    "minutes": lambda seconds: f"{seconds / 60:g}",
    "days": lambda seconds: f"{seconds / 86_400:g}",
    "deg": lambda radians: f"{math.degrees(radians):g}",
    "pct": lambda share: f"{share * 1e2:.0f} %",
    "millions": lambda number: f"{number / 1e6:.1f} M",
    "MB": lambda num_bytes: f"{num_bytes / 1e6:g} MB",
    "GB": lambda num_bytes: f"{num_bytes / 1e9:.1f} GB",
    "count": lambda items: str(len(items)),
}
"""Named forms, in addition to Python's format specifications. Argument names give the expected unit."""


def formatted(value: Any, form: str) -> str:
    """Returns a value in a form of `value_text`."""
    return FORMS[form](value) if form in FORMS else f"{value:{form}}"


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
