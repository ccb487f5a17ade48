"""Recording a run and showing it."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from outrider.core.language.sentences.planner import plan_of
from outrider.core.values import Pose2D, RoundStats
from outrider.navigation.motion.step_motions import Ending, MotionEnd
from outrider.runtime.mission.robot_side import GoalError, GoalResult, StepState, StepUpdate
from outrider.runtime.plans.progress import Progress
from outrider.runtime.reports.left_report import leave_report
from outrider.runtime.reports.live_view import LiveState, LiveView
from outrider.runtime.reports.recorder import Recorder, Truth
from outrider.runtime.reports.verdict import Judgement, Verdict

TEXT = "move forward small\nsee: the cup"
DECODING = StepUpdate("s", 1, StepState.DECODING, text="move forward small\n")
COMPLETE = StepUpdate("s", 1, StepState.DECODING, None, DECODING.text, "move forward small", True, 3, 0, 0.2)
MEASURED = Judgement(Verdict.SUCCESS, "done; stands there", checked=True, target_distance_m=0.8)
LOST = Judgement(Verdict.FAILED, "gone")
FINISHED = StepUpdate(
    "s", 1, StepState.FINISHED, None, TEXT, "move forward small", True, 9, 3, 0.2, 50.0, 3.0
)


def recorded() -> Recorder:
    recorder = Recorder("find the cup")
    recorder.truth = Truth(Pose2D(1.0, 2.0, 0.0), 0.8, 1)
    recorder.on_text(DECODING, "connected", 1.0)
    recorder.on_text(COMPLETE, "connected", 1.2)
    recorder.on_text(COMPLETE, "lost", 1.3)
    recorder.on_text(FINISHED, "connected", 1.5)
    recorder.on_text(FINISHED, "connected", 1.6)
    recorder.on_text(StepUpdate("s", 1, StepState.WITHDRAWN, text="over"), "connected", 3.0)
    recorder.on_motion_end(MotionEnd("s", 1, "move forward small", Ending.BLOCKED, "0.1 of 0.25 m"), 2.0)
    recorder.on_round(1, "sd", RoundStats(0, 4, 3, 4, 0.1, 0.1, 0.2, 0.0, 0.2, 10, 20))
    return recorder


def test_repetitions_change_nothing_and_each_moment_is_the_first() -> None:
    record = recorded().finish(GoalResult(True, GoalError.NONE, "done", 1), MEASURED, 3.0, None)
    (step,) = record.steps
    assert (step.frame_s, step.action_s, step.finished_s, step.moved_s) == (1.0, 1.2, 1.5, 2.0)
    assert (step.text, step.tokens, step.tokens_per_s, step.note) == (TEXT, 9, 50.0, "blocked: 0.1 of 0.25 m")
    assert [state for _, state in record.link_states] == ["connected", "lost", "connected"]
    assert (record.strategy, record.outcome, record.collisions) == ("sd", "arrived", 1)


def test_a_motion_whose_end_arrives_before_its_action_is_recorded_completely() -> None:
    """A node that falls behind may receive topics in any order; a refusal comes at once."""
    recorder = Recorder("find the cup")
    recorder.on_motion_end(MotionEnd("s", 1, "move forward small", Ending.FAILED, "odometry is 2 s old"), 1.1)
    recorder.on_text(COMPLETE, "connected", 1.2)
    (step,) = recorder.finish(GoalResult(True, GoalError.NONE, "done", 1), MEASURED, 3.0, None).steps
    assert (step.action_s, step.moved_s, step.note) == (1.1, 1.1, "failed: odometry is 2 s old")
    assert step.frame_s == pytest.approx(1.1 - COMPLETE.latency_s)


def test_pictures_and_poses_are_thinned_out() -> None:
    recorder = recorded()
    for tick in range(100):
        time_s = tick * 0.01
        if recorder.wants_frame(time_s):
            recorder.on_frame(b"jpeg", time_s)
        recorder.on_odometry(Pose2D(0.0, 0.0, 0.0), time_s)
    record = recorder.finish(GoalResult(False, GoalError.LINK_LOST, "gone", 1), LOST, 1.0, None)
    assert len(record.shots) == 7 and 9 <= len(record.poses) <= 10
    assert record.poses[0].truth == Pose2D(1.0, 2.0, 0.0) and record.outcome == "link_lost"


def show(console: Console, *updates: StepUpdate) -> None:
    with LiveView(console) as view:
        for update in updates:
            view.show(LiveState("find the cup", 1.0, update, "connected", 0.5, 0.83))


def test_without_a_terminal_each_finished_text_is_one_line() -> None:
    printed = StringIO()
    show(Console(file=printed, width=40), DECODING, COMPLETE, FINISHED, FINISHED)
    (line,) = printed.getvalue().splitlines()
    for part in ("step   1", "see: the cup", "0.8 m to go", "50 tokens/s", "3.00 tokens/round", "connected"):
        assert part in line


def test_a_terminal_shows_text_action_and_figures() -> None:
    printed = StringIO()
    show(Console(file=printed, force_terminal=True, width=100), COMPLETE, FINISHED)
    for part in ("find the cup", "action: move forward small", "see: the cup", "0.83 m", "200 ms"):
        assert part in printed.getvalue()


def test_a_sentence_with_brackets_is_shown_as_it_was_said() -> None:
    printed = StringIO()
    with LiveView(Console(file=printed, force_terminal=True, width=100)) as view:
        view.show(LiveState("find [/b] the cup", 1.0, FINISHED, "connected", 0.5, 0.83))
    assert "find [/b] the cup" in printed.getvalue()


def test_piped_lines_show_the_emulated_network_and_the_time_without_a_link() -> None:
    printed = StringIO()
    with LiveView(Console(file=printed, width=40)) as view:
        for time_s, state, update in [
            (1.0, "connecting", DECODING),
            (2.0, "connected", FINISHED),
            (3.0, "connected", replace(DECODING, step=2)),
            (10.0, "lost", replace(DECODING, step=2)),
            (13.0, "connected", replace(DECODING, step=2)),
            (14.0, "connected", replace(FINISHED, step=2)),
            (15.0, "connected", replace(FINISHED, step=3)),
        ]:
            view.show(LiveState("find the cup", time_s, update, state, network="blackout"))
    first, gone, back, second, third = printed.getvalue().splitlines()
    assert all("connected over blackout" in line for line in (first, second, third))
    assert "10.0 s  link lost" in gone and "13.0 s  link connected, after 3.0 s without" in back
    assert "lost for 3.0 s" in second and "lost" not in first + third


def test_a_command_that_no_model_decoded_has_no_speed_and_before_the_first_step_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed, now = StringIO(), [100.0]
    monkeypatch.setattr("outrider.runtime.reports.live_view.time.monotonic", lambda: now[0])
    with LiveView(Console(file=printed, width=40)) as view:
        now[0] = 111.0
        view.show(LiveState("turn left", 0.0, replace(DECODING, step=0), "local"))
        view.show(LiveState("turn left", 1.0, replace(FINISHED, tokens_per_s=0.0), "local"))
    waiting, turned = printed.getvalue().splitlines()
    assert "no step yet" in waiting and "step   0" not in waiting
    assert "[local]" in turned and "tokens" not in turned


@pytest.mark.parametrize(("sentence", "distance_m"), [("turn left", None), ("find the silver bottle", 4.0)])
def test_there_is_a_distance_to_go_only_to_what_was_asked_for(
    sentence: str, distance_m: float | None
) -> None:
    recorder = Recorder(sentence)
    recorder.truth = Truth(Pose2D(0.0, 0.0, 0.0), 4.0, 0)
    recorder.on_progress(Progress.of(plan_of(sentence, None), 0))
    assert recorder.target_distance_m == distance_m


def test_a_long_silence_is_broken_by_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    printed, now = StringIO(), [100.0]
    monkeypatch.setattr("outrider.runtime.reports.live_view.time.monotonic", lambda: now[0])
    with LiveView(Console(file=printed, width=40)) as view:
        for now[0] in (100.0, 109.0, 111.0, 112.0, 122.0):
            view.show(LiveState("find the cup", now[0] - 100.0, DECODING, "lost"))
    lines = [line for line in printed.getvalue().splitlines() if "goes on" in line]
    assert len(lines) == 2 and "11.0 s" in lines[0] and "lost" in lines[0]


@pytest.mark.parametrize(
    "sentence", ["remember that my keys hang by the lamp", "where are my keys?", "forget my keys"]
)
def test_a_report_holds_no_private_statement(sentence: str) -> None:
    recorder = Recorder(sentence)
    recorder.on_progress(Progress.of(plan_of(sentence, None), 1))
    told = Judgement(Verdict.DONE, "your keys hang by the lamp")
    record = recorder.finish(GoalResult(True, GoalError.NONE, told.message, 0, private=True), told, 1.0, None)
    assert "keys" not in repr(record) and "lamp" not in repr(record)
    assert (record.outcome, record.success) == ("done", True)


@pytest.mark.parametrize(
    ("sentence", "private"), [("remember that my bag is here", True), ("find the cup", False)]
)
def test_a_report_that_a_mission_could_not_write_is_as_discreet(sentence, private, tmp_path) -> None:
    report = tmp_path / "report.json"
    leave_report(report, "interrupted", sentence, "ar", {})
    assert (sentence in report.read_text()) is not private and ("bag" in report.read_text()) is False
