# SPDX-License-Identifier: Apache-2.0
"""The table that a benchmark prints; `legends` explains its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.core.files.terminal import make_console

Row = TypeVar("Row")


def results_table(title: str, *headings: str, rows: Iterable[Iterable[str]] = ()) -> Table:
    """Return a table: the first column is aligned left, the others right. Long words are wrapped, not cut."""
    table = Table(
        title=title,
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column, heading in enumerate(headings):
        table.add_column(heading, justify="right" if column else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def cells_of(columns: Mapping[str, Callable[[Row], str]], row: Row) -> tuple[str, ...]:
    """Return the cells of a row; `columns` maps each heading to a function that gives the row's text."""
    return tuple(text(row) for text in columns.values())


def print_results(table: Table, *notes: str) -> None:
    """Prints a table, and below it a line for each note."""
    console = make_console()
    console.print(table)
    for note in notes:
        console.print(note, highlight=False, markup=False, soft_wrap=True)


def in_words(name: str) -> str:
    """Return a figure's name in JSON as words: `recall_p99_ms` is "recall p99, ms"."""
    words = name.split("_")
    if words[-1] in ("ms", "s", "mb", "bytes"):
        return f"{' '.join(words[:-1])}, {words[-1]}"
    return " ".join(words)


def interval_text(interval: tuple[float, float] | None, form: str = ".2f") -> str:
    """Return both ends of an interval in a format; a dash for None."""
    return "-" if interval is None else f"{interval[0]:{form}} to {interval[1]:{form}}"


def optional(value: float | None, form: str) -> str:
    """Return a figure in a format; a dash for None."""
    return "-" if value is None else f"{value:{form}}"


def figure_text(value: object) -> str:
    """Return a figure as text; figures that belong together are separated by commas."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(figure_text, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)
