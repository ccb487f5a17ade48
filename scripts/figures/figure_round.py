# SPDX-License-Identifier: Apache-2.0
"""Draws one text as a timeline for two strategies: the robot, the link and the cloud."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from figure_results import Results

PANELS = {
    "sd": "sd: each side waits for the other",
    "outrider": "outrider: the robot drafts on; hints and verdicts stream; the cloud never idles",
}
EDGE_Y, CLOUD_Y, HALF = 0.0, 1.0, 0.14
DRAFT, BRANCHES, VERIFY, STEP = "#1f77b4", "#9ecae1", "#8c564b", "#d9b38c"
HINT, VERDICT = "#2ca02c", "#d62728"
WORK = {"draft": EDGE_Y, "verify": CLOUD_Y, "step": CLOUD_Y}
FRAMES = {"Hint": (HINT, ":"), "Verdict": (VERDICT, "-"), "Draft": (DRAFT, "-")}
Event = Mapping[str, Any]


def draw_round(figure: Any, results: Results) -> None:
    """Draws the same text for both strategies of PANELS on one time axis."""
    (runs,) = results["round-trips"]["timelines"].values()
    panels = figure.subplots(len(PANELS), 1, sharex=True)
    for axes, (strategy, title) in zip(panels, PANELS.items(), strict=True):
        draw_run(axes, runs[strategy], title)
    panels[-1].set_xlim(left=0.0)
    panels[-1].set_xlabel("time (s)")
    figure.legend(handles=legend_handles(), loc="outside lower center", ncols=4, fontsize=8.5)


def draw_run(axes: Any, events: Sequence[Event], title: str) -> None:
    """Draws one text, and below it the number of its tokens that are final."""
    total = 0
    for event in events:
        draw_event(axes, event)
        if event["kind"] == "commit":
            total += event["tokens"]
            axes.text(event["start_s"], -0.4, str(total), color=VERDICT, ha="center", fontsize=8.5)
    end_s = max(event["start_s"] for event in events if event["kind"] == "commit")
    axes.set_title(f"{title}; {total} tokens in {end_s:.1f} s", loc="left", fontsize=10)
    axes.set_ylim(-0.5, 1.25)
    axes.set_yticks([EDGE_Y, (EDGE_Y + CLOUD_Y) / 2, CLOUD_Y], ["robot", "link", "cloud"])
    axes.tick_params(axis="y", length=0)


def draw_event(axes: Any, event: Event) -> None:
    """Draws work as a bar, and a frame as a line from sender to receiver."""
    if event["kind"] in WORK:
        width, y = event["end_s"] - event["start_s"], WORK[event["kind"]]
        axes.broken_barh([(event["start_s"], width)], (y - HALF, 2 * HALF), color=colour(event), ec="white")
    elif event["label"] in FRAMES:
        draw_frame(axes, event)


def colour(event: Event) -> str:
    """Returns the colour of a bar by the kind of work."""
    if event["kind"] == "draft":
        return DRAFT if event["tokens"] == 1 else BRANCHES
    return VERIFY if event["kind"] == "verify" else STEP


def draw_frame(axes: Any, event: Event) -> None:
    """Draws a frame that carries drafts, a hint or a verdict."""
    shade, style = FRAMES[event["label"]]
    ends = (EDGE_Y + HALF, CLOUD_Y - HALF)
    axes.plot(
        [event["start_s"], event["end_s"]],
        ends if event["kind"] == "up" else ends[::-1],
        color=shade,
        linestyle=style,
        linewidth=1.2,
    )


def legend_handles() -> Sequence[Any]:
    """Returns the legend's entries for the colours and lines."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return [
        Patch(color=DRAFT, label="draft of one token"),
        Patch(color=BRANCHES, label="drafts of several branches"),
        Patch(color=VERIFY, label="verification"),
        Patch(color=STEP, label="target alone, one token"),
        Line2D([], [], color=DRAFT, label="draft tokens up"),
        Line2D([], [], color=HINT, linestyle=":", label="hint down"),
        Line2D([], [], color=VERDICT, label="verdict down"),
        Line2D(
            [], [], linestyle="", marker="$12$", markersize=11, color=VERDICT, label="tokens that are final"
        ),
    ]
