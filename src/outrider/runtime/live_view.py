"""A run as it happens, in the terminal; plain lines where there is no terminal."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from outrider.core.values import LinkState
from outrider.runtime.goal_run import StepState, StepUpdate

REFRESH_HZ = 8
_LINK_STYLES = {LinkState.CONNECTED: "green", LinkState.LOCAL: "green", LinkState.LOST: "red"}


@dataclass(frozen=True)
class LiveState:
    """What the view shows. `distance_m` is None where nobody knows the distance to the target."""

    instruction: str
    time_s: float
    update: StepUpdate
    link_state: str
    travelled_m: float = 0.0
    distance_m: float | None = None


class LiveView:
    """A context manager; `show` may be called as often as one likes."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live: Live | None = None
        self._last_line = ""
        self._rates = (0.0, 0.0)

    def __enter__(self) -> LiveView:
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=REFRESH_HZ, transient=False)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def say(self, line: str) -> None:
        """A line above the view."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def show(self, state: LiveState) -> None:
        """Redraw, or without a terminal print one line for each finished text."""
        if state.update.state is StepState.FINISHED:
            self._rates = (state.update.tokens_per_s, state.update.tokens_per_round)
        if self._live is not None:
            self._live.update(self._panel(state))
        elif state.update.state is StepState.FINISHED:
            self._print_once(state)

    def _print_once(self, state: LiveState) -> None:
        text = state.update.text.replace("\n", " | ")
        line = f"step {state.update.step:3d}  {text}"
        if line != self._last_line:
            self._last_line = line
            self.say(f"{state.time_s:6.1f} s  {line}  [{self._figures(state)}]")

    def _figures(self, state: LiveState) -> str:
        tokens_per_s, tokens_per_round = self._rates
        parts = [f"{tokens_per_s:.0f} tokens/s", f"{tokens_per_round:.2f} tokens/round", state.link_state]
        if state.distance_m is not None:
            parts.insert(0, f"{state.distance_m:.1f} m to go")
        return ", ".join(parts)

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
                value = Text(state.link_state, style=_LINK_STYLES.get(LinkState(state.link_state), "yellow"))
            figures.add_row(Text(left, style="dim"), left_value, Text(right, style="dim"), value)
        action = Text(f"action: {update.action or '...'}", style="bold cyan")
        return Panel(Group(action, Text(update.text or "..."), Text(), figures), title=state.instruction)
