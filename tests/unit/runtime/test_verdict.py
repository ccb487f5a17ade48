"""Only a measured success is called a success."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from outrider.core.language.sentences.planner import plan_of
from outrider.core.values import Pose2D
from outrider.runtime.mission.robot_side import GoalError, GoalResult
from outrider.runtime.plans.progress import Progress
from outrider.runtime.reports.verdict import Judgement, Verdict, judge, with_reason
from outrider.simulation.homes.home import Home, generate_home
from outrider.simulation.homes.vocabulary import ObjectSpec

HOME = generate_home(3, ObjectSpec("bottle", "silver"))
TARGET = HOME.target
ALONE = replace(HOME, objects=(TARGET,), target_index=0, walls=())
THERE = Pose2D(TARGET.x - 0.8, TARGET.y, 0.0)
REACHED = GoalResult(True, GoalError.NONE, "stopped", 3)
GONE = GoalResult(False, GoalError.LINK_LOST, "the link is lost", 3)


def judged_as(
    sentence: str, result: GoalResult, home: Home | None, pose: Pose2D | None, collisions: int = 0
) -> Judgement:
    """Judges a plan that has ended, or failed at its last step, at `pose`."""
    targets = Progress.of(plan_of(sentence, None), 0).targets
    return judge(targets, [pose] * (len(targets) - 1), result, home, pose, collisions)


def test_a_robot_that_stands_at_the_target_is_a_measured_success() -> None:
    judged = judged_as("find the silver bottle", REACHED, ALONE, THERE, 2)
    assert judged.verdict is Verdict.SUCCESS and judged.checked
    assert judged.target_distance_m == pytest.approx(0.8)
    assert "0.80 m from the silver bottle, 2 collisions" in judged.message


@pytest.mark.parametrize("pose", [replace(THERE, x=TARGET.x - 2.0), replace(THERE, yaw=math.pi)])
def test_a_robot_that_reports_success_far_from_the_target_has_failed(pose: Pose2D) -> None:
    judged = judged_as("find the silver bottle", REACHED, ALONE, pose)
    assert judged.verdict is Verdict.FAILED and judged.checked


@pytest.mark.parametrize(("is_stopped", "words"), [(True, "interrupted"), (False, "not done within 600 s")])
def test_a_goal_that_was_cancelled_says_why(is_stopped: bool, words: str) -> None:
    cancelled = GoalResult(False, GoalError.CANCELLED, "cancelled", 2)
    assert with_reason(cancelled, is_stopped, 600.0).message == words
    for other in (REACHED, GONE, replace(cancelled, message="the navigator has gone")):
        assert with_reason(other, is_stopped, 600.0) == other


def test_a_goal_that_failed_at_the_target_has_failed() -> None:
    assert judged_as("find the silver bottle", GONE, ALONE, THERE).verdict is Verdict.FAILED


def test_the_requested_thing_counts_and_not_the_target_of_the_home() -> None:
    other = replace(TARGET, x=TARGET.x + 5.0, spec=ObjectSpec("ball", "red"))
    home = replace(ALONE, objects=(TARGET, other))
    assert judged_as("find the red ball", REACHED, home, THERE).verdict is Verdict.FAILED
    there = replace(THERE, x=other.x - 0.8)
    assert judged_as("go to the red ball", REACHED, home, there).verdict is Verdict.SUCCESS
    missing = judged_as("find the blue cup", REACHED, home, THERE)
    assert missing.verdict is Verdict.FAILED and "holds no blue cup" in missing.message


@pytest.mark.parametrize(
    "sentence",
    [
        *("stop", "turn left", "move forward a little", "find my keys"),
        *(
            "remember that the red ball is here",
            "where did you last see the red ball?",
            "what is a red ball?",
        ),
    ],
)
def test_what_nobody_can_measure_is_done_and_not_checked(sentence: str) -> None:
    judged = judged_as(sentence, REACHED, ALONE, THERE)
    assert judged.verdict is Verdict.DONE and not judged.checked and judged.target_distance_m is None
    assert judged.verdict.words == "DONE (not checked)"


def test_a_real_robot_is_never_a_success() -> None:
    assert judged_as("find the silver bottle", REACHED, None, None).verdict is Verdict.DONE
    assert judged_as("find the silver bottle", GONE, None, None).verdict is Verdict.FAILED


def test_each_find_of_a_plan_is_measured_where_its_step_ended() -> None:
    cup = replace(TARGET, x=TARGET.x + 5.0, spec=ObjectSpec("cup", "blue"))
    home, at_cup = replace(ALONE, objects=(TARGET, cup)), replace(THERE, x=cup.x - 0.8)
    targets = Progress.of(
        plan_of("find the silver bottle, then the blue cup, then turn around", None), 0
    ).targets
    turned = replace(at_cup, yaw=math.pi)
    done = judge(targets, [THERE, at_cup, turned], REACHED, home, turned)
    assert done.verdict is Verdict.SUCCESS and "silver bottle, 0.80 m from the blue cup" in done.message
    missed = judge(targets, [turned, at_cup, turned], REACHED, home, turned)
    assert missed.verdict is Verdict.FAILED and missed.checked
    lost = judge(targets, [THERE], GONE, home, THERE)
    assert lost.verdict is Verdict.FAILED and lost.target_distance_m == pytest.approx(5.8)
    assert judge(targets, [None], GONE, home, None).checked is False
