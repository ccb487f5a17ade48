# SPDX-License-Identifier: Apache-2.0
"""Plots of the decoding benchmark: speed-up over the round trip, and one run as a timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.core.errors import ConfigError
from outrider.core.files.writing import writing_to
from outrider.decoding.simulation.timeline import TimelineEvent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "ar": "#7f7f7f",
    "sd": "#1f77b4",
    "dssd": "#17becf",
    "fsd": "#2ca02c",
    "picospec": "#ff7f0e",
    "outrider": "#d62728",
}
_EDGE_Y, _CLOUD_Y, _BAR = 0.0, 1.0, 0.16
_BATCH_COLOUR = "#9ecae1"
_FRAME_COLOURS = {"Hint": "#2ca02c", "Verdict": "#d62728", "Unsettled": "#d62728", "Cancel": "#000000"}
_DRAFT_COLOUR, _VERIFY_COLOUR, _STEP_COLOUR = "#1f77b4", "#8c564b", "#c49c94"
_NOTICEABLE_S = 1e-4


def draw_speedups(
    path: Path, title: str, round_trips_ms: Sequence[float], speedups: Mapping[str, Sequence[float]]
) -> None:
    """Draw one line per strategy. Raises ConfigError without matplotlib."""
    figure, axes = _canvas(8.0, 5.0)
    for strategy, values in speedups.items():
        width = 2.5 if strategy == "outrider" else 1.5
        axes.plot(round_trips_ms, values, label=strategy, color=COLOURS.get(strategy), linewidth=width)
    axes.set_xlabel("round trip (ms)")
    axes.set_ylabel("speed-up over autoregressive decoding")
    axes.set_title(title)
    axes.set_ylim(bottom=0.0)
    axes.grid(alpha=0.3)
    axes.legend()
    _save(figure, path)


def draw_speeds(path: Path, title: str, measured: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Draw one bar per strategy, grouped by the kind of texts.

    A row holds `speedup_vs_ar`, and `speedup_interval` or None. Raises ConfigError without matplotlib.
    """
    figure, axes = _canvas(8.0, 4.5)
    for group, rows in enumerate(measured.values()):
        _draw_group(axes, group, rows)
    axes.axvline(1.0, color="black", linewidth=1.0)
    axes.set_yticks(range(len(measured)), list(measured))
    axes.invert_yaxis()
    axes.set_xlabel("speed over autoregressive decoding (ar = 1), with 95 % intervals")
    axes.set_title(title)
    axes.grid(axis="x", alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    num_strategies = len(next(iter(measured.values())))
    figure.legend(
        handles[:num_strategies],
        labels[:num_strategies],
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=num_strategies,
    )
    _save(figure, path)


def _draw_group(axes: Axes, group: int, rows: Mapping[str, Mapping[str, Any]]) -> None:
    height = 0.8 / len(rows)
    for index, (strategy, row) in enumerate(rows.items()):
        speed = row["speedup_vs_ar"]
        low, high = row["speedup_interval"] or (speed, speed)
        axes.barh(
            group - 0.4 + (index + 0.5) * height,
            speed,
            height,
            color=COLOURS.get(strategy),
            label=strategy,
            xerr=[[max(0.0, speed - low)], [max(0.0, high - speed)]],
            error_kw={"elinewidth": 0.9, "capsize": 2},
        )


def draw_ablation(
    path: Path, title: str, heading: str, values: Sequence[float], curves: Mapping[str, Sequence[float]]
) -> None:
    """Draw curves over one parameter. Raises ConfigError without matplotlib."""
    figure, axes = _canvas(7.0, 4.5)
    for name, curve in curves.items():
        axes.plot(values, curve, marker="o", label=name)
    axes.set_xlabel(heading)
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend()
    _save(figure, path)


def draw_ratios(path: Path, title: str, bars: Mapping[str, tuple[float, float]]) -> None:
    """Draw a bar for each ratio, with a tick at its bound. Raises ConfigError without matplotlib."""
    figure, axes = _canvas(8.0, 0.6 * len(bars) + 1.2)
    positions = range(len(bars))
    axes.barh(positions, [value for value, _ in bars.values()], color=_DRAFT_COLOUR, height=0.5)
    axes.plot([bound for _, bound in bars.values()], positions, "|", color="black", markersize=22)
    axes.set_yticks(positions, list(bars))
    axes.invert_yaxis()
    axes.set_title(title)
    _save(figure, path)


def draw_timelines(path: Path, title: str, runs: Mapping[str, Sequence[TimelineEvent]]) -> None:
    """Draw one panel per strategy, on one time axis. Raises ConfigError without matplotlib."""
    figure, panels = _panels(len(runs))
    end_s = max((event.end_s for events in runs.values() for event in events), default=1.0)
    for axes, (strategy, events) in zip(panels, runs.items(), strict=True):
        _draw_run(axes, events)
        axes.set_title(f"{strategy}: {_num_committed(events)} tokens", loc="left", fontsize=9)
        axes.set_xlim(0.0, end_s)
    panels[-1].set_xlabel("time (s)")
    figure.suptitle(title)
    _add_legend(figure)
    _save(figure, path)


def bubbles(events: Sequence[TimelineEvent]) -> list[tuple[float, float]]:
    """Return when the cloud's model was idle between its first and last work: (start, end) in seconds."""
    work = sorted(
        (event.start_s, event.end_s)
        for event in events
        if event.kind in ("verify", "step", "prefill_cloud") and event.end_s > event.start_s
    )
    gaps: list[tuple[float, float]] = []
    for (_, end_s), (start_s, _) in pairwise(work):
        if start_s - end_s > _NOTICEABLE_S:
            gaps.append((end_s, start_s))
    return gaps


def _draw_run(axes: Axes, events: Sequence[TimelineEvent]) -> None:
    """Draw one run. Equal shapes are drawn together: drawing each alone would take most of the time."""
    from matplotlib.collections import LineCollection

    idle, cloud = bubbles(events), _of(events, "verify", "step", "prefill_cloud")
    _bars(axes, idle, _CLOUD_Y, facecolor="none", edgecolor="#bbbbbb", hatch="////")
    colours = [_STEP_COLOUR if event.kind == "step" else _VERIFY_COLOUR for event in cloud]
    _bars(axes, _spans(cloud), _CLOUD_Y, facecolor=colours, edgecolor="white")
    edge = _of(events, "draft", "prefill_edge")
    colours = [_DRAFT_COLOUR if event.tokens == 1 else _BATCH_COLOUR for event in edge]
    _bars(axes, _spans(edge), _EDGE_Y, facecolor=colours, edgecolor="white")
    frames = [_frame_line(event) for event in _of(events, "up", "down")]
    if frames:
        ends, inks, styles = zip(*frames, strict=True)
        axes.add_collection(LineCollection(ends, colors=inks, linestyles=styles, linewidths=1.0))
    exits = _of(events, "exit")
    axes.plot([event.start_s for event in exits], [_CLOUD_Y] * len(exits), "|", color="#2ca02c", markersize=9)
    for event in _of(events, "commit"):
        axes.annotate(
            f"+{event.tokens}", (event.start_s, _EDGE_Y - 0.32), fontsize=7, ha="center", color="#d62728"
        )
    cancellations = _of(events, "cancel", "draft_cloud")
    axes.plot(
        [event.start_s for event in cancellations],
        [_EDGE_Y - _BAR] * len(cancellations),
        "x",
        color="black",
        markersize=5,
    )
    axes.set_ylim(-0.45, 1.3)
    axes.set_yticks([_EDGE_Y, _CLOUD_Y], ["robot", "cloud"])


def _of(events: Sequence[TimelineEvent], *kinds: str) -> list[TimelineEvent]:
    return [event for event in events if event.kind in kinds]


def _spans(events: Sequence[TimelineEvent]) -> list[tuple[float, float]]:
    return [(event.start_s, event.end_s) for event in events]


def _frame_line(event: TimelineEvent) -> tuple[list[tuple[float, float]], str, str]:
    """Return the ends of a frame's line, its colour and its style."""
    up = event.kind == "up"
    begin, end = (_EDGE_Y + _BAR, _CLOUD_Y - _BAR) if up else (_CLOUD_Y - _BAR, _EDGE_Y + _BAR)
    colour = _FRAME_COLOURS.get(event.label, _DRAFT_COLOUR if up else "#7f7f7f")
    return [(event.start_s, begin), (event.end_s, end)], colour, ":" if event.label == "Hint" else "-"


def _bars(axes: Axes, spans: Sequence[tuple[float, float]], y: float, **style: Any) -> None:
    widths = [(start_s, end_s - start_s) for start_s, end_s in spans]
    axes.broken_barh(widths, (y - _BAR, 2 * _BAR), linewidth=0.5, **style)


def _num_committed(events: Sequence[TimelineEvent]) -> int:
    return sum(event.tokens for event in events if event.kind == "commit")


def _add_legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure.legend(
        handles=[
            Patch(facecolor=_DRAFT_COLOUR, label="draft of one token"),
            Patch(facecolor=_BATCH_COLOUR, label="drafts of several branches"),
            Patch(facecolor=_VERIFY_COLOUR, label="verification"),
            Patch(facecolor=_STEP_COLOUR, label="target alone, one token"),
            Patch(facecolor="none", edgecolor="#bbbbbb", hatch="////", label="cloud idle"),
            Line2D([], [], color=_DRAFT_COLOUR, label="draft tokens up"),
            Line2D([], [], color="#2ca02c", linestyle=":", label="hint down"),
            Line2D([], [], color="#d62728", label="verdict down, +tokens"),
        ],
        loc="lower center",
        ncols=4,
        fontsize=8,
    )


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    figure = _figure(width, height)
    return figure, figure.add_subplot()


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    figure = _figure(14.0, 1.6 * count + 1.4)
    first = figure.add_subplot(count, 1, 1)
    rest = [figure.add_subplot(count, 1, row, sharex=first) for row in range(2, count + 1)]
    height = 1.6 * count + 1.4
    figure.subplots_adjust(hspace=0.45, bottom=1.1 / height, top=1.0 - 0.8 / height, left=0.06, right=0.98)
    for axes in [first, *rest[:-1]]:
        axes.tick_params(labelbottom=False)
    return figure, [first, *rest]


def _figure(width: float, height: float) -> Figure:
    """Return a figure that needs no display. Raises ConfigError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("plots need matplotlib: pip install 'outrider[plots]'") from None
    return Figure(figsize=(width, height))


def _save(figure: Figure, path: Path) -> None:
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120, bbox_inches="tight")
