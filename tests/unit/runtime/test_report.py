import json
from dataclasses import replace

import cv2
import numpy as np
import pytest

from outrider.core.values import Pose2D, RoundStats
from outrider.runtime.reports.drawing import fit_view
from outrider.runtime.reports.film import FRAMES_PER_S, SPEED, Shot
from outrider.runtime.reports.report import (
    PoseRecord,
    RoundRecord,
    RunRecord,
    StepRecord,
    summary,
    write_pictures,
    write_report,
)
from outrider.simulation.homes import generate_home

HOME = generate_home(5)
JPEG = cv2.imencode(".jpg", np.full((140, 252, 3), 90, np.uint8))[1].tobytes()


def run_record() -> RunRecord:
    start = HOME.start
    path = [Pose2D(start.x + 0.05 * i, start.y, start.yaw) for i in range(21)]
    stats = RoundStats(0, 4, 2, 3, 0.01, 0.02, 0.05, 0.0, 0.05, 20, 30)
    step = StepRecord(1, 0.0, 0.1, 0.4, 2.0, "stop\narrived: here", "stop", 0.1, 30, 100.0, 3.0, 10)
    return RunRecord(
        instruction="find the silver bottle",
        success=True,
        outcome="arrived",
        message="stopped",
        strategy="sd",
        duration_s=2.0,
        target_distance_m=0.9,
        link_states=("connected",),
        home=HOME,
        checked=True,
        conditions={"seed": 7, "link": None},
        steps=[step],
        shots=[Shot(0.2 * i, JPEG, 1, step.text, "stop") for i in range(11)],
        poses=[PoseRecord(0.1 * i, pose, pose) for i, pose in enumerate(path)],
        rounds=[RoundRecord(1, stats), RoundRecord(1, replace(stats, index=1, emitted=5))],
    )


def test_a_run_leaves_its_four_files(tmp_path):
    report = json.loads(write_report(run_record(), tmp_path / "demo").read_text())
    assert report["success"] is True and report["steps"] == 1
    assert report["verdict"] == "success" and report["checked"] is True
    assert report["seed"] == 7 and report["link"] is None
    assert report["path_m"] == pytest.approx(1.0)
    assert report["tokens_per_round"] == pytest.approx(4.0) and report["tokens_per_s"] == pytest.approx(100.0)
    assert report["bytes_up"] == 40 and report["step_log"][0]["action"] == "stop"
    rounds = [json.loads(line) for line in (tmp_path / "demo" / "rounds.jsonl").read_text().splitlines()]
    assert [(r["step"], r["index"], r["emitted"]) for r in rounds] == [(1, 0, 3), (1, 1, 5)]


def test_the_map_shows_the_path_and_the_target_in_its_colour(tmp_path):
    write_report(run_record(), tmp_path)
    picture = cv2.imread(str(tmp_path / "trajectory.png"))
    assert picture.shape == (1096, 1200, 3)
    bare = replace(run_record(), poses=[], shots=[])
    write_report(bare, tmp_path / "bare")
    assert np.any(cv2.imread(str(tmp_path / "bare" / "trajectory.png")) != picture)


def test_the_film_has_the_length_of_the_run_and_is_wide_enough(tmp_path):
    write_report(run_record(), tmp_path)
    film = cv2.VideoCapture(str(tmp_path / "run.mp4"))
    assert film.get(cv2.CAP_PROP_FRAME_WIDTH) >= 960
    frames = 0
    while film.read()[0]:
        frames += 1
    assert frames == pytest.approx((2.0 + 4.0) / SPEED * FRAMES_PER_S, abs=1)


def test_a_run_that_recorded_nothing_still_reports(tmp_path):
    nothing = RunRecord("find it", False, "link_lost", "the verifier is down", "sd", 0.0)
    report = json.loads(write_report(nothing, tmp_path).read_text())
    assert report["verdict"] == "failed" and report["checked"] is False
    assert report["tokens_per_s"] is None and report["decision_latency_s"] is None
    assert not (tmp_path / "run.mp4").exists() and (tmp_path / "trajectory.png").exists()


def test_the_view_holds_the_home_with_y_upwards():
    view = fit_view(600, 400, HOME, [])
    for room in HOME.rooms:
        for x, y in ((room.x0, room.y0), (room.x1, room.y1)):
            px, py = view.pixel(x, y)
            assert 0 <= px <= 600 and 0 <= py <= 400
    assert view.pixel(1.0, 2.0)[1] < view.pixel(1.0, 1.0)[1]


def test_a_success_that_nobody_measured_is_done() -> None:
    assert summary(replace(run_record(), checked=False))["verdict"] == "done"


def test_without_a_video_the_trajectory_is_drawn_and_an_earlier_video_removed(tmp_path):
    write_report(run_record(), tmp_path)
    write_pictures(run_record(), tmp_path, video=False)
    assert (tmp_path / "trajectory.png").exists() and not (tmp_path / "run.mp4").exists()
