"""Pictures are drawn without a display; bubbles are the times when the cloud's model was idle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import pytest

from outrider.decoding.simulation.timeline import TimelineEvent
from outrider.evaluation.common import plots
from outrider.evaluation.common.plots import bubbles

RUN = (
    TimelineEvent("draft", 0.0, 0.1),
    TimelineEvent("up", 0.1, 0.15, "Draft"),
    TimelineEvent("verify", 0.15, 0.4, tokens=4),
    TimelineEvent("exit", 0.2, 0.2),
    TimelineEvent("down", 0.2, 0.25, "Hint"),
    TimelineEvent("draft", 0.25, 0.3, branch=1),
    TimelineEvent("down", 0.4, 0.45, "Verdict"),
    TimelineEvent("commit", 0.45, 0.45, tokens=3),
    TimelineEvent("cancel", 0.46, 0.46),
    TimelineEvent("up", 0.45, 0.5, "Draft"),
    TimelineEvent("verify", 0.5, 0.75, tokens=4),
    TimelineEvent("step", 0.75, 0.9),
)


def test_bubbles_are_the_gaps_of_the_cloud() -> None:
    assert bubbles(RUN) == [(0.4, 0.5)]


SPEEDS = {
    "ar": {"speedup_vs_ar": 1.0, "speedup_interval": None},
    "outrider": {"speedup_vs_ar": 1.9, "speedup_interval": (1.7, 2.1)},
}
DRAWN: dict[Callable[..., None], tuple] = {
    plots.draw_speeds: ("lan", {"synthetic": SPEEDS, "shipped pair": SPEEDS}),
    plots.draw_speedups: ("lan", (0.0, 100.0), {"ar": (1.0, 1.0), "outrider": (2.0, 1.8)}),
    plots.draw_ablation: ("workers", "workers", (1, 2), {"miss rate": (0.9, 0.5)}),
    plots.draw_ratios: ("models", {"a token over a step": (1.9, 1.0), "verify over step": (1.1, 1.3)}),
    plots.draw_timelines: ("one text", {"sd": RUN, "outrider": RUN}),
}


@pytest.mark.lengthy
@pytest.mark.parametrize("draw", DRAWN, ids=lambda draw: draw.__name__)
def test_a_picture_is_written(draw: Callable[..., None], tmp_path: Path) -> None:
    file = tmp_path / "deep" / "picture.png"
    draw(file, *DRAWN[draw])
    picture = cv2.imread(str(file))
    assert picture is not None and picture.std() > 1.0


def test_no_picture_is_left_out_here() -> None:
    assert {draw.__name__ for draw in DRAWN} == {name for name in dir(plots) if name.startswith("draw_")}
