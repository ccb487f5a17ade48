# SPDX-License-Identifier: Apache-2.0
"""What a person sees of long work: progress on a terminal, or else a line every 10 s."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, ClassVar, TypeVar

if TYPE_CHECKING:  # imported late, because it is slow and nodes do not need it
    from rich.console import Console

LINE_PERIOD_S = 10.0
PIPED_WIDTH = 240
READABLE_WIDTH = 16
"""The least width in letters of a table cell that can be read."""
_T = TypeVar("_T")


def make_console(stderr: bool = False) -> Console:
    """Return a console for tables and lines that prints texts unchanged; brackets in them are not markup.

    If its output is piped, it is wide enough that nothing is cut. $COLUMNS sets another width.
    """
    from rich.console import Console

    class Told(Console):
        def on_broken_pipe(self) -> None:
            leave_closed_pipe(self.file)

    console = Told(stderr=stderr, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPED_WIDTH
    return console


def say(line: str) -> None:
    """Print a line at once, unchanged and without wrapping."""
    make_console().print(line, highlight=False, soft_wrap=True)


def leave_closed_pipe(stream: IO[str]) -> None:
    """Handle a reader of a stream that has gone: interrupt this process, so that it ends in order.

    It still writes its files. What it prints to the stream from now on is discarded.
    """
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
    signal.raise_signal(signal.SIGINT)


def print_rows(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table in which nothing is cut.

    If a terminal is too narrow for a readable table, print each row by itself, with a line for each cell
    that is not empty.
    """
    from rich.cells import cell_len
    from rich.table import Table

    widths = [min(max(map(cell_len, cells)), READABLE_WIDTH) for cells in zip(headings, *rows, strict=True)]
    if sum(widths) + 3 * len(widths) + 1 <= console.width:
        table = Table()
        for heading, width in zip(headings, widths, strict=True):
            table.add_column(heading, overflow="fold", min_width=width)
        for row in rows:
            table.add_row(*row)
        console.print(table)
        return
    for row in rows:
        lines = Table("", "", box=None, show_header=False, pad_edge=False)
        for column in lines.columns:
            column.overflow = "fold"
        for heading, cell in zip(headings, row, strict=True):
            if cell:
                lines.add_row(heading, cell)
        console.print(lines)
        console.print()


def printable(text: str) -> str:
    """Return a text from outside without characters that would control a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Say on stderr that something is being loaded, and repeat it from time to time while that lasts."""
    print(f"loading {what}", file=sys.stderr, flush=True)
    with Pulse(f"loading {what}", with_bar=False):
        yield


def tracked(
    items: Iterable[_T], what: str, total: int | None = None, line_period_s: float = LINE_PERIOD_S
) -> Iterator[_T]:
    """Yield the items and show their progress on stderr. `total` is needed if they have no length.

    `line_period_s`: seconds from line to line without a terminal.
    """
    if total is None:
        total = len(items) if isinstance(items, Sized) else None
    with Pulse(what, total, line_period_s=line_period_s) as pulse:
        for item in items:
            yield item
            pulse.advance()


class Pulse:
    """Shows on stderr that work continues and how far it is: as a bar, or as a line from time to time.

    Of nested ones only the innermost is shown. Without `with_bar` it prints lines on a terminal too.
    """

    _open: ClassVar[list[Pulse]] = []

    def __init__(
        self,
        what: str,
        total: int | None = None,
        with_bar: bool = True,
        line_period_s: float = LINE_PERIOD_S,
    ) -> None:
        """`total`: the number of `advance` calls, if known. `line_period_s`: seconds from line to line."""
        self._what, self._total, self._done, self._with_bar = what, total, 0, with_bar
        self._line_period_s = line_period_s
        self._ended = threading.Event()
        self._began_s = 0.0
        self._console = make_console(stderr=True)

    def __enter__(self) -> Pulse:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._began_s = time.monotonic()
        self._progress: Progress | None = None
        self._open.append(self)
        if self._console.is_terminal and self._with_bar:
            columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
            self._progress = Progress(*columns, TimeRemainingColumn(), console=self._console)
            self._progress.start()
            self._task = self._progress.add_task(self._what, total=self._total)
        else:
            threading.Thread(target=self._print_lines, name="pulse", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._open.remove(self)
        if self._progress is not None:
            self._progress.stop()

    def advance(self) -> None:
        """Count one more step as done."""
        self._done += 1
        if self._progress is not None:
            self._progress.update(self._task, completed=self._done)

    def _print_lines(self) -> None:
        while not self._ended.wait(self._line_period_s):
            if self._open[-1:] != [self]:
                continue
            elapsed_s = time.monotonic() - self._began_s
            of_all = f" of {self._total}" if self._total else ""
            done = f"{self._done}{of_all} " if self._total or self._done else ""
            print(f"{self._what}: {done}after {elapsed_s:.0f} s", file=sys.stderr, flush=True)
