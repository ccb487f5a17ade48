# SPDX-License-Identifier: Apache-2.0
"""Shows a run as it happens, in the terminal; in plain lines if the output is no terminal."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from outrider.core.files.terminal import LINE_PERIOD_S, make_console
from outrider.core.values import LinkState
from outrider.runtime.mission.robot_side import StepState, StepUpdate

REFRESH_HZ = 8
_LINK_STYLES = {LinkState.CONNECTED: "green", LinkState.LOCAL: "green", LinkState.LOST: "red"}


@dataclass(frozen=True)
class LiveState:
    """The content of the view. `distance_m` is None if the distance to the target is not known.

    `network` is the name of the emulated network, if any.
    """

    instruction: str
    time_s: float
    update: StepUpdate
    link_state: str
    travelled_m: float = 0.0
    distance_m: float | None = None
    network: str = ""


class LinkWatch:
    """Reports changes of the link, and counts how long it was lost since the last step's line.

    That line appears only once the link is up again.
    """

    def __init__(self) -> None:
        self.lost_s = 0.0
        self._state, self._time_s = "", 0.0

    def look(self, state: str, time_s: float) -> str:
        """Returns the loss or the return of the link in words; empty for no change and for any other one."""
        before, passed_s = self._state, time_s - self._time_s
        self._state, self._time_s = state, time_s
        if before == LinkState.LOST.value:
            self.lost_s += passed_s
        is_news = before and state != before and LinkState.LOST.value in (before, state)
        return (
            f"{state}, after {self.lost_s:.1f} s without"
            if is_news and self.lost_s
            else state * bool(is_news)
        )

    def begin_step(self) -> None:
        """Restart the count of the time without a link."""
        self.lost_s = 0.0


class LiveView:
    """Shows a run while its context is open. `show` may be called at any rate."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or make_console()
        self._live: Live | None = None
        self._last_line = ""
        self._rates = (0.0, 0.0)
        self._link = LinkWatch()
        self._printed_s = time.monotonic()

    def __enter__(self) -> LiveView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop redrawing. The last view stays on the screen; further lines may follow."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, line: str) -> None:
        """Print a line above the view."""
        self._printed_s = time.monotonic()
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def show(self, state: LiveState) -> None:
        """Redraw the view.

        Without a terminal, print a line for each finished text and each loss or return of the link, and one
        after LINE_PERIOD_S without any.
        """
        change = self._link.look(state.link_state, state.time_s)
        if state.update.state is StepState.FINISHED:
            self._rates = (state.update.tokens_per_s, state.update.tokens_per_round)
        if self._console.is_terminal:
            self._redraw(state)
            return
        if change:
            self.say(f"{state.time_s:6.1f} s  link {change}")
        if state.update.state is StepState.FINISHED:
            self._print_once(state)
        if time.monotonic() - self._printed_s >= LINE_PERIOD_S:
            words = f"step {state.update.step:3d}  goes on" if state.update.step else "no step yet"
            self.say(f"{state.time_s:6.1f} s  {words}  [{self._figures(state)}]")

    def _redraw(self, state: LiveState) -> None:
        if self._live is None:
            self._live = Live(console=self._console, refresh_per_second=REFRESH_HZ, transient=False)
            self._live.start()
        self._live.update(self._panel(state))

    def _print_once(self, state: LiveState) -> None:
        text = state.update.text.replace("\n", " | ")
        line = f"step {state.update.step:3d}  {text}"
        if line != self._last_line:
            self._last_line = line
            self.say(f"{state.time_s:6.1f} s  {line}  [{self._figures(state)}]")
            self._link.begin_step()

    def _figures(self, state: LiveState) -> str:
        tokens_per_s, tokens_per_round = self._rates
        parts = [self._link_words(state)]
        if tokens_per_s:  # a command that needs no model has no rates
            parts = [f"{tokens_per_s:.0f} tokens/s", f"{tokens_per_round:.2f} tokens/round", *parts]
        if state.distance_m is not None:
            parts.insert(0, f"{state.distance_m:.1f} m to go")
        return ", ".join(parts)

    def _link_words(self, state: LiveState) -> str:
        over = f" over {state.network}" if state.network else ""
        lost = f", lost for {self._link.lost_s:.1f} s" if self._link.lost_s >= 0.05 else ""
        return f"{state.link_state}{over}{lost}"

    def _panel(self, state: LiveState) -> Panel:
        update = state.update
        figures = Table.grid(padding=(0, 3))
        distance = "-" if state.distance_m is None else f"{state.distance_m:.2f} m"
        rows = (
            ("step", str(update.step), "time", f"{state.time_s:.1f} s"),
            ("distance to target", distance, "travelled", f"{state.travelled_m:.1f} m"),
            ("tokens/s", f"{self._rates[0]:.1f}", "tokens per round", f"{self._rates[1]:.2f}"),
            ("decision latency", f"{update.latency_s * 1000:.0f} ms", "link", ""),
        )
        for left, left_value, right, right_value in rows:
            value = Text(right_value)
            if right == "link":
                value = Text(
                    self._link_words(state), style=_LINK_STYLES.get(LinkState(state.link_state), "yellow")
                )
            figures.add_row(Text(left, style="dim"), left_value, Text(right, style="dim"), value)
        action = Text(f"action: {update.action or '...'}", style="bold cyan")
        return Panel(
            Group(action, Text(update.text or "..."), Text(), figures), title=Text(state.instruction)
        )
