"""The history of a search: steps, turns, searched places and sightings for the prompt."""

import math

import pytest

from outrider.core.language.prompt import Step, render_user_text
from outrider.core.values import Pose2D, Sighting
from outrider.navigation.goal.history import SearchHistory


def turn_around(history: SearchHistory, x: float, y: float, yaw_deg: float = 0.0) -> None:
    for index in range(1, 9):
        pose = Pose2D(x, y, math.radians(yaw_deg + 45.0 * index))
        history.record_action("turn left large", "search", pose)


def test_steps_enter_the_prompt_newest_last():
    history = SearchHistory(Pose2D(0, 0, 0))
    for index in range(6):
        history.record_action("move forward small", f"p{index}", Pose2D(0.25 * (index + 1), 0, 0))
    context = history.context("find the red chair", Pose2D(1.5, 0, 0))
    assert context.steps == tuple(Step(f"p{i}", "move forward small") for i in range(2, 6))
    assert "last: p2: move forward small; p3:" in render_user_text(context)


def test_turning_counts_both_ways_until_the_next_move_ahead():
    history = SearchHistory(Pose2D(0, 0, 0))
    history.record_action("turn left medium", "search", Pose2D(0, 0, math.radians(30)))
    history.record_action("move forward medium", "search", Pose2D(0.05, 0, math.radians(30)))
    history.record_action("turn right small", "search", Pose2D(0.05, 0, math.radians(15)))
    assert history.context("x", Pose2D(0, 0, 0)).turned_deg == 45
    history.record_action("move forward medium", "search", Pose2D(0.5, 0, 0))
    assert history.context("x", Pose2D(0.5, 0, 0)).turned_deg == 0


def test_a_reversed_turn_counts_the_half_that_was_executed():
    history = SearchHistory()
    history.record_action("turn left medium", "search", Pose2D(0, 0, math.radians(30)))
    history.record_action("turn right medium", "search", Pose2D(0, 0, math.radians(15)))
    assert history.turned_deg == pytest.approx(45.0)


def test_a_turn_that_odometry_denies_counts_only_as_measured():
    history = SearchHistory(Pose2D(0, 0, 0))
    history.record_action("turn right large", "search", Pose2D(0, 0, math.radians(-10)))
    assert history.turned_deg == pytest.approx(10.0)
    history.record_action("turn right large", "search", Pose2D(0, 0, math.radians(20)))
    assert history.turned_deg == pytest.approx(10.0)


def test_a_blocked_move_does_not_forget_the_turning():
    history = SearchHistory(Pose2D(0, 0, 0))
    history.record_action("turn left large", "search", Pose2D(0, 0, math.radians(45)))
    history.record_action("move forward small", "search", Pose2D(0.02, 0, math.radians(45)))
    assert history.turned_deg == pytest.approx(45.0)


def test_a_full_turn_marks_the_place_once_and_it_shows_only_from_afar():
    history = SearchHistory(Pose2D(0, 0, 0))
    turn_around(history, 0.0, 0.0)
    turn_around(history, 0.5, 0.0)
    assert history.searched_places == [(0.0, 0.0)]
    assert history.context("x", Pose2D(1.0, 0, 0)).memories == ()
    assert history.context("x", Pose2D(2.0, 0, 0)).memories == ("searched behind 2.0 m",)


def test_memories_are_the_newest_places_newest_last():
    history = SearchHistory(Pose2D(0, 0, 0))
    for x in (-3.0, 0.0, 3.0, 6.0):
        history.record_action("move forward large", "search", Pose2D(x, 0, 0))
        turn_around(history, x, 0.0)
    assert history.context("x", Pose2D(8.0, 0, 0)).memories == (
        "searched behind 8.0 m",
        "searched behind 5.0 m",
        "searched behind 2.0 m",
    )


def test_a_text_outside_the_table_changes_nothing():
    history = SearchHistory(Pose2D(0, 0, 0))
    history.record_action("jump", "search", Pose2D(5, 0, 0))
    assert history.steps == [] and history.turned_deg == 0.0


def test_driving_by_a_person_restarts_the_search_turn():
    history = SearchHistory(Pose2D(0, 0, 0))
    history.record_action("turn left large", "search", Pose2D(0, 0, math.radians(45)))
    history.record_foreign_motion(Pose2D(3, 1, math.radians(-60)))
    assert history.turned_deg == 0.0 and len(history.steps) == 1
    history.record_action("turn left large", "search", Pose2D(3, 1, math.radians(-15)))
    assert history.turned_deg == pytest.approx(45.0)


def test_searched_places_do_not_crowd_out_a_sighting():
    history = SearchHistory(Pose2D(0, 0, 0))
    for x in (-3.0, 0.0, 3.0, 6.0):
        history.record_action("move forward large", "search", Pose2D(x, 0, 0))
        turn_around(history, x, 0.0)
    history.recall([Sighting("red cup", 9.0, 9.0), Sighting("silver bottle", 8.0, 3.0)])
    pose = Pose2D(8.0, 0, 0)
    assert history.remembered(pose) == ((3.0, 0.0), (6.0, 0.0))
    assert history.context("x", pose).memories == (
        "searched behind 5.0 m",
        "searched behind 2.0 m",
        "saw red cup far left 9.0 m",
        "saw silver bottle far left 3.0 m",
    )


def test_a_sighting_counts_until_the_robot_has_been_there():
    history = SearchHistory(Pose2D(0, 0, 0))
    history.recall([Sighting("silver bottle", 3.0, 0.0)])
    history.record_action("move forward large", "recall", Pose2D(1.7, 0, 0))
    assert history.context("x", Pose2D(1.7, 0, 0)).memories == ("saw silver bottle ahead 1.5 m",)
    history.record_action("move forward large", "recall", Pose2D(2.2, 0, 0))
    history.record_action("move forward large", "search", Pose2D(0.0, 0, 0))
    assert history.context("x", Pose2D(0.0, 0, 0)).memories == ()


def test_a_whole_turn_in_vain_ends_the_trust_in_a_sighting():
    history = SearchHistory(Pose2D(0, 0, 0))
    history.recall([Sighting("silver bottle", 3.0, 0.0)])
    for index in range(7):
        history.record_action("turn left large", "recall", Pose2D(0, 0, math.radians(45.0 * (index + 1))))
    assert len(history.sightings) == 1
    history.record_action("turn left large", "recall", Pose2D(0, 0, 0))
    assert history.sightings == []


def test_under_way_turns_count_as_odometry_shows_them() -> None:
    history = SearchHistory(Pose2D(0, 0, 0), under_way=True)
    for degrees in (36.0, 71.0, 106.0):
        history.record_action("turn left large", "look", Pose2D(0.0, 0.0, math.radians(degrees)))
    assert history.turned_deg == 105.0
    history.record_action("turn right large", "look", Pose2D(0.0, 0.0, math.radians(110.0)))
    assert history.turned_deg == 105.0, "it has not begun to turn back yet"


def test_during_motion_a_full_turn_is_measured_by_odometry() -> None:
    history = SearchHistory(Pose2D(0, 0, 0), under_way=True)
    for index in range(1, 11):
        assert not history.searched_places
        history.record_action("turn left large", "look", Pose2D(0.0, 0.0, math.radians(36.0 * index)))
    assert len(history.searched_places) == 1
