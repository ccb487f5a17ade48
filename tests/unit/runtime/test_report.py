import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from PIL import Image

from outrider.core.errors import OutriderError
from outrider.core.values import Pose2D, RoundStats, TokenFate
from outrider.runtime.pictures import video_file
from outrider.runtime.pictures.drawing import fit_view
from outrider.runtime.pictures.film import FRAMES_PER_S, HEIGHT, WIDTH, Film
from outrider.runtime.pictures.run_pictures import write_pictures
from outrider.runtime.pictures.video_file import write_animation
from outrider.runtime.reports.report import (
    PoseRecord,
    RoundRecord,
    RunRecord,
    Shot,
    StepRecord,
    pose_at,
    summary,
    write_summary,
)
from outrider.simulation.homes.home import generate_home

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
        link_states=((0.0, "connected"),),
        home=HOME,
        checked=True,
        conditions={"seed": 7, "link": None},
        steps=[step],
        shots=[Shot(0.2 * i, JPEG) for i in range(11)],
        poses=[PoseRecord(0.1 * i, pose, pose) for i, pose in enumerate(path)],
        rounds=[RoundRecord(1, stats), RoundRecord(1, replace(stats, index=1, emitted=5))],
        tokens={1: [("stop", TokenFate.ACCEPTED), ("go", TokenFate.REJECTED), ("\n", TokenFate.WRITTEN)]},
    )


def write_report(run: RunRecord, folder: Path) -> Path:
    report = write_summary(run, folder)
    write_pictures(run, folder)
    return report


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes a run. Returns its folder, to which no test may write."""
    folder = tmp_path_factory.mktemp("run") / "demo"
    write_report(run_record(), folder)
    return folder


def short_run() -> RunRecord:
    """Returns a run with a film of two pictures and an unknown home."""
    return replace(run_record(), shots=run_record().shots[:2], steps=[], home=None)


@pytest.mark.lengthy
def test_a_run_leaves_its_four_files(written):
    names = {"report.json", "rounds.jsonl", "trajectory.png", "run.mp4"}
    assert {file.name for file in written.iterdir()} == names
    report = json.loads((written / "report.json").read_text())
    assert report["success"] is True and report["steps"] == 1
    assert report["verdict"] == "success" and report["checked"] is True
    assert report["seed"] == 7 and report["link"] is None
    assert report["path_m"] == pytest.approx(1.0)
    assert report["tokens_per_round"] == pytest.approx(4.0) and report["tokens_per_s"] == pytest.approx(100.0)
    assert report["bytes_up"] == 40 and report["step_log"][0]["action"] == "stop"
    rounds = [json.loads(line) for line in (written / "rounds.jsonl").read_text().splitlines()]
    assert [(r["step"], r["index"], r["emitted"]) for r in rounds] == [(1, 0, 3), (1, 1, 5)]


@pytest.mark.lengthy
def test_the_map_shows_the_path_and_the_target_in_its_colour(written, tmp_path):
    picture = cv2.imread(str(written / "trajectory.png"))
    assert picture.shape == (1124, 1200, 3)
    bare = replace(run_record(), poses=[], shots=[])
    write_pictures(bare, tmp_path)
    assert np.any(cv2.imread(str(tmp_path / "trajectory.png")) != picture)


def test_the_film_is_h264_in_an_mp4_that_plays_everywhere(written):
    with av.open(str(written / "run.mp4")) as film:
        stream = film.streams.video[0]
        assert stream.codec_context.name == "h264" and stream.codec_context.pix_fmt == "yuv420p"
        assert (stream.codec_context.width, stream.codec_context.height) == (WIDTH, HEIGHT)
        frames = sum(1 for _ in film.decode(stream))
    assert frames == len(Film(run_record())) > 2.0 * FRAMES_PER_S


@pytest.mark.lengthy
@pytest.mark.parametrize("missing", [2, 3, 4])
def test_a_film_without_h264_is_written_and_says_so(missing, tmp_path, monkeypatch, caplog):
    left = set(video_file.CODECS[missing:])
    monkeypatch.setattr(video_file, "codecs_available", left)
    if not left:
        with pytest.raises(OutriderError, match="pip install"):
            write_pictures(short_run(), tmp_path)
        assert not list(tmp_path.glob("*.mp4"))
        return
    write_pictures(short_run(), tmp_path)
    assert "lacks H.264" in caplog.text and (tmp_path / "run.mp4").stat().st_size > 1000


@pytest.mark.lengthy
def test_two_films_of_one_folder_are_both_written_whole(tmp_path):
    (tmp_path / "run.mp4.partial").write_bytes(b"what a kill left")
    with ThreadPoolExecutor(2) as filming:
        for film in [filming.submit(write_pictures, short_run(), tmp_path) for _ in range(2)]:
            film.result()
    assert {file.name for file in tmp_path.iterdir()} == {"trajectory.png", "run.mp4"}
    with av.open(str(tmp_path / "run.mp4")) as film:
        assert sum(1 for _ in film.decode(video=0)) == len(Film(short_run()))


@pytest.mark.lengthy
def test_a_film_that_is_stopped_leaves_none(tmp_path):
    asked = iter([False] * 6)
    write_pictures(run_record(), tmp_path, lambda: next(asked, True))
    assert {file.name for file in tmp_path.iterdir()} == {"trajectory.png"}


@pytest.mark.lengthy
def test_the_animation_is_the_film_at_a_smaller_size(tmp_path):
    write_pictures(run_record(), tmp_path, video=False, animation=tmp_path / "demo.webp")
    with Image.open(tmp_path / "demo.webp") as animation:
        assert animation.size == (960, 540) and animation.n_frames > 5
    assert not (tmp_path / "run.mp4").exists()


def test_an_animation_that_is_too_large_says_so(tmp_path):
    pictures = np.random.default_rng(0).integers(0, 256, (2, HEIGHT // 8, WIDTH // 8, 3), np.uint8)
    with pytest.raises(OutriderError, match=r"has over 0\.0001 MB; try a shorter run"):
        write_animation(tmp_path / "demo.webp", list(pictures), FRAMES_PER_S, max_bytes=100)
    assert not (tmp_path / "demo.webp").exists()


def test_a_home_that_is_unknown_is_filmed_by_the_robot_s_camera_alone():
    pictures = list(Film(short_run()).pictures())
    assert {picture.shape for picture in pictures} == {(HEIGHT, WIDTH, 3)}
    assert len(pictures) > 3 * FRAMES_PER_S > 10 * len(set(map(id, pictures))), "the last is drawn once"


def test_the_robot_is_between_two_recorded_poses_at_a_time_between_them():
    start = HOME.start
    poses = [PoseRecord(t, start, Pose2D(t, 0.0, yaw)) for t, yaw in ((0.0, 3.0), (1.0, -3.0))]
    half = pose_at(poses, 0.5)
    assert half.x == pytest.approx(0.5) and abs(half.yaw) == pytest.approx(math.pi)
    assert pose_at(poses, -1.0) == poses[0].truth and pose_at(poses, 9.0) == poses[1].truth


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
    (tmp_path / "run.mp4").touch()
    write_pictures(run_record(), tmp_path, video=False)
    assert (tmp_path / "trajectory.png").exists() and not (tmp_path / "run.mp4").exists()
