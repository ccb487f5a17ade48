"""Pictures are drawn without a display, and bubbles are where the cloud's model stood idle."""

from pathlib import Path

import cv2

from outrider.decoding.timeline import TimelineEvent
from outrider.runtime.bench_plots import bubbles, draw_ablation, draw_speedups, draw_timelines

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


def test_pictures_are_written(tmp_path: Path) -> None:
    draw_speedups(tmp_path / "speed.png", "lan", (0.0, 100.0), {"ar": (1.0, 1.0), "outrider": (2.0, 1.8)})
    draw_ablation(tmp_path / "workers.png", "workers", "workers", (1, 2), {"miss rate": (0.9, 0.5)})
    draw_timelines(tmp_path / "deep" / "run.png", "one text", {"sd": RUN, "outrider": RUN})
    for name in ("speed.png", "workers.png", "deep/run.png"):
        picture = cv2.imread(str(tmp_path / name))
        assert picture is not None and picture.std() > 1.0
