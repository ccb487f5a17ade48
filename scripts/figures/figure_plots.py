# SPDX-License-Identifier: Apache-2.0
"""Draws the documentation's pictures from benchmarks/results/. Each holds the digest of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from figure_models import best_fleets
from figure_navigation import PLACEMENTS
from figure_results import Results, formatted
from figure_round import draw_round

from outrider.evaluation.common.intervals import wilson_interval
from outrider.evaluation.common.plots import COLOURS

LIMIT_S = 0.3
DRAFTING = ("sd", "dssd", "fsd", "picospec", "outrider")
CONDITIONS = {
    "fsd-go2": "Go2 over Wi-Fi,\nas FSD measured it",
    "fsd-go2-cheap-exits": "the same,\ncheap exits",
    "lan": "LAN",
    "wifi6": "Wi-Fi 6",
    "lte": "LTE",
    "satellite": "satellite",
}
FAMILIES = {
    "camera": ("camera",),
    "scan": ("scan", "the lidar's"),
    "odometry": ("odometry",),
    "clock": ("clock",),
    "processes, link": ("navigator", "action node", "base's", "verifier", "network"),
    "Go2": ("Go2",),
}
OTHERS = "hand and text"


@dataclass(frozen=True)
class Picture:
    """A function that draws on a figure, the figure's size in inches, and the results that it reads."""

    fill: Callable[[Any, Results], None]
    size: tuple[float, float]
    reads: tuple[str, ...]


def draw(results: Results, name: str, path: Path) -> bool:
    """Draws a picture unless the file shows these results already; returns whether it did."""
    picture = PICTURES[name]
    digest = results.digest(*picture.reads)
    if path.is_file() and digest in path.read_text():
        return False
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.hashsalt": "outrider", "font.size": 9.5})
    figure = Figure(figsize=picture.size, layout="constrained")
    picture.fill(figure, results)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Description": f"drawn from results {digest}"})
    return True


def fill_strategies(figure: Any, results: Results) -> None:
    """Draws bars of the speed over `ar` in six conditions, for the shipped pair and for synthetic texts."""
    decoding = results["decoding"]
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    titles = {"replayed": "texts of the shipped pair", "regimes": "synthetic texts at the papers' acceptance"}
    for axes, (part, title) in zip(panels, titles.items(), strict=True):
        for place, strategy in enumerate(DRAFTING):
            rows = [decoding[part][name][strategy] for name in CONDITIONS]
            _bars(axes, place, strategy, rows)
        axes.axvline(1.0, color="black", linewidth=1.0)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("speed over the cloud model alone (ar = 1)")
        axes.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(range(len(CONDITIONS)), list(CONDITIONS.values()))
    panels[0].invert_yaxis()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(DRAFTING))


def _bars(axes: Any, place: int, strategy: str, rows: Sequence[Mapping[str, Any]]) -> None:
    height = 0.8 / len(DRAFTING)
    speeds = np.array([row["speedup_vs_ar"] for row in rows])
    ends = np.array([row["speedup_interval"] for row in rows]).T
    axes.barh(
        np.arange(len(rows)) + (place - len(DRAFTING) / 2 + 0.5) * height,
        speeds,
        height,
        color=COLOURS[strategy],
        label=strategy,
        xerr=np.maximum(0.0, np.abs(ends - speeds)),
        error_kw={"elinewidth": 0.9, "capsize": 1.5},
    )


def fill_round_trips(figure: Any, results: Results) -> None:
    """Draws the speed over `ar` of every strategy over the round trip."""
    (sweep,) = results["round-trips"]["round_trips"].values()
    axes = figure.subplots()
    for strategy, speeds in sweep["speedup_vs_ar"].items():
        axes.plot(
            sweep["round_trips_ms"],
            speeds,
            label=strategy,
            color=COLOURS[strategy],
            linewidth=2.6 if strategy in ("ar", "outrider") else 1.6,
            linestyle="--" if strategy == "dssd" else "-",
            marker=".",
        )
    axes.set_title("Go2 with cheap exits, synthetic texts", loc="left", fontsize=10)
    axes.set_xlabel("round trip (ms)")
    axes.set_ylabel("speed over the cloud model alone")
    axes.set_ylim(bottom=0.0)
    axes.set_xlim(left=0.0)
    axes.grid(alpha=0.3)
    axes.legend(ncols=2)


def family(fault: str) -> str:
    """Returns the kind of a fault of `outrider eval safety` by its name."""
    return next((name for name, starts in FAMILIES.items() if fault.startswith(starts)), OTHERS)


def fill_stops(figure: Any, results: Results) -> None:
    """Draws the time from each fault, and from each kill -9, until the base stopped."""
    rows: dict[str, list[float]] = {name: [] for name in (*FAMILIES, OTHERS)}
    for name in ("safety-0", "safety-1"):
        for trial in results[name]["trials"]:
            rows[family(trial["fault"])].append(trial["to_zero_s"])
    kills = [kill["to_zero_s"] for kill in results["kills"]["kills"] if kill["reached"] is None]
    _strip(figure.subplots(), {**rows, "kill -9 of a real process": kills})


def _strip(axes: Any, rows: Mapping[str, Sequence[float]]) -> None:
    """Draws one line of dots for each kind. They are spread a little, so that equal values stay visible."""
    rng = np.random.default_rng(0)
    for place, seconds in enumerate(rows.values()):
        spread = place + rng.uniform(-0.28, 0.28, len(seconds))
        axes.plot(np.multiply(seconds, 1e3), spread, ".", markersize=6, color="#1f77b4", mec="white", mew=0.4)
    axes.axvline(LIMIT_S * 1e3, color="#d62728", linewidth=1.6, zorder=1)  # behind the dots
    axes.axvspan(LIMIT_S * 1e3, 325, color="#d62728", alpha=0.08, linewidth=0)
    axes.text(LIMIT_S * 1e3 - 4, -0.75, "limit 300 ms", color="#d62728", ha="right", va="center")
    axes.set_yticks(range(len(rows)), [f"{name} ({len(seconds)})" for name, seconds in rows.items()])
    axes.set_ylim(len(rows) - 0.4, -1.1)
    axes.set_xlim(-8, 325)
    axes.set_xlabel("time from the fault until the base stands (ms); a dot is one trial")
    axes.grid(axis="x", alpha=0.3)


def fill_navigation(figure: Any, results: Results) -> None:
    """Draws the share of objects found by their placement, with intervals."""
    runs = results["navigation"]["runs"]
    axes = figure.subplots()
    for place, placement in enumerate(PLACEMENTS):
        found = [run["success"] for run in runs if run["placement"] == placement]
        share, ends = sum(found) / len(found), wilson_interval(sum(found), len(found))
        axes.barh(place, share, 0.5, color="#d62728")
        axes.errorbar(
            share,
            place,
            xerr=[[max(0.0, share - ends[0])], [max(0.0, ends[1] - share)]],
            color="black",
            capsize=3,
        )
        axes.text(0.02, place, f"{sum(found)} of {len(found)}", color="white", va="center")
    axes.set_yticks(range(len(PLACEMENTS)), list(PLACEMENTS.values()))
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.015)  # so that an interval that ends at 1 is visible
    axes.set_xlabel("share of homes in which the object was found")
    axes.grid(axis="x", alpha=0.3)


def fill_serving(figure: Any, results: Results) -> None:
    """Draws the tokens per second of all robots over their number, with the server of FSD's Table 9."""
    axes = figure.subplots()
    for name, curve in best_fleets(results).items():
        style = "--" if name == "sd, filled" else "-"
        shade = COLOURS[name.partition(",")[0]]
        axes.plot(list(curve), list(curve.values()), style, label=name, color=shade, marker=".")
    axes.set_xlabel("robots on one verifier")
    axes.set_ylabel("tokens a second, all robots together")
    axes.set_ylim(bottom=0.0)
    axes.grid(alpha=0.3)
    axes.legend()


def fill_latency(figure: Any, results: Results) -> None:
    """Draws the time until the action is verified and until the text is complete, over the one-way delay."""
    rows = results["latency"]["rows"]
    delays = sorted({row["one_way_s"] for row in rows})
    panels = figure.subplots(1, 2)
    titles = {"decision": "until the action is verified", "finish": "until the text is whole"}
    for axes, (what, title) in zip(panels, titles.items(), strict=True):
        for place, strategy in enumerate(("ar", "sd", "outrider")):
            chosen = [
                row
                for delay in delays
                for row in rows
                if (row["strategy"], row["one_way_s"]) == (strategy, delay)
            ]
            _columns(axes, place, strategy, what, chosen)
        axes.set_xticks(range(len(delays)), [formatted(delay, "ms") for delay in delays])
        axes.set_xlabel("one-way delay (ms)")
        axes.set_ylabel("ms from the frame")
        axes.set_title(title, fontsize=10)
        axes.grid(axis="y", alpha=0.3)
    panels[0].legend()


def _columns(axes: Any, place: int, strategy: str, what: str, rows: Sequence[Mapping[str, Any]]) -> None:
    heights = np.array([row[f"{what}_s"] for row in rows]) * 1e3
    ends = np.array([row[f"{what}_interval_s"] for row in rows]).T * 1e3
    axes.bar(
        np.arange(len(rows)) + (place - 1) * 0.26,
        heights,
        0.26,
        color=COLOURS[strategy],
        label=strategy,
        yerr=np.maximum(0.0, np.abs(ends - heights)),
        error_kw={"elinewidth": 0.9, "capsize": 2},
    )


PICTURES = {
    "strategies": Picture(fill_strategies, (9.0, 5.6), ("decoding",)),
    "round-trips": Picture(fill_round_trips, (6.4, 3.8), ("round-trips",)),
    "round": Picture(draw_round, (9.4, 4.8), ("round-trips",)),
    "stops": Picture(fill_stops, (7.4, 3.8), ("safety-0", "safety-1", "kills")),
    "navigation": Picture(fill_navigation, (6.0, 2.2), ("navigation",)),
    "serving": Picture(fill_serving, (6.2, 3.6), ("serving",)),
    "latency": Picture(fill_latency, (8.0, 3.4), ("latency",)),
}
