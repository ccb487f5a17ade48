import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from outrider.core.errors import ConfigError
from outrider.core.values import Pose2D, Sighting
from outrider.evaluation.robot.navigation import (
    EpisodePair,
    EpisodeTask,
    evaluate_navigation,
    lost_homes,
    plan,
    run_task,
    summarise,
)
from outrider.navigation.goal.navigator import Navigator, NavigatorSettings
from outrider.runtime.datasets.held_out import first_home_seed, held_out_prompts
from outrider.runtime.mission.episode import EpisodeResult, expert_answerer, run_episode, stands_at
from outrider.simulation.homes.home import generate_home
from outrider.simulation.simulator import Simulator


def result(
    success: bool, placement: str = "in_view", path_m: float = 2.0, collisions: int = 0
) -> EpisodeResult:
    return EpisodeResult(
        1, placement, "find the red cup", "arrived", success, 10, path_m, collisions, 0.9, 20.0
    )


def test_the_plan_has_half_in_view_a_quarter_hidden_a_quarter_elsewhere(tmp_path):
    tasks = plan(40, 3, "target", tmp_path, 100)
    placements = [task.placement for task in tasks]
    counts = {name: placements.count(name) for name in ("in_view", "hidden", "other_room")}
    assert counts == {"in_view": 20, "hidden": 10, "other_room": 10}
    assert len({task.home_seed for task in tasks}) == 40
    assert not {t.home_seed for t in tasks} & {t.home_seed for t in plan(40, 4, "target", tmp_path, 100)}


def test_the_models_of_an_episode_see_the_home_in_its_look():
    brightness = []

    def watch(simulator, navigator):
        brightness.append(cv2.imdecode(np.frombuffer(simulator.frame_jpeg(), np.uint8), 0).mean())
        return "stop\narrived: here."

    for look in ("plain", "dim"):
        settings = NavigatorSettings()
        run_episode(generate_home(4), "find it", lambda _: watch, settings, 0.0, look=look)
    assert brightness[1] < 0.7 * brightness[0]


def test_a_look_that_is_none_is_refused_before_any_home_is_made(tmp_path):
    with pytest.raises(ConfigError, match="look 'foggy' is unknown; use plain"):
        evaluate_navigation(1, 0, "expert", tmp_path, look="foggy")


@pytest.mark.lengthy
def test_the_expert_sees_through_a_look_what_it_sees_in_plain(tmp_path):
    assert plan(1, 3, "expert", tmp_path, 20, look="noisy")[0].look == "noisy"
    plain, noisy = (
        run_task(plan(1, 3, "expert", tmp_path, 20, look=look)[0]).result for look in ("plain", "noisy")
    )
    assert plain.success and noisy.success and plain.steps == noisy.steps


def test_figures():
    good, detour = result(True), result(True, path_m=3.0)
    lost = result(False, "other_room", path_m=9.0, collisions=2)
    expert = result(True)
    figures = summarise([EpisodePair(good, expert), EpisodePair(detour, expert), EpisodePair(lost, expert)])
    assert figures["episodes"] == 3
    assert figures["success_rate"] == pytest.approx(2 / 3)
    assert figures["success_same_room"] == 1.0 and figures["success_other_room"] == 0.0
    assert figures["collision_rate"] == pytest.approx(1 / 3)
    assert figures["path_ratio"] == pytest.approx(1.25), "of the successes alone"


def test_the_median_of_steps_is_none_where_most_were_not_found():
    found, lost = result(True, "hidden"), result(False, "hidden")
    assert summarise([EpisodePair(r, found) for r in (found, found, lost)])["steps_hidden"] == 10
    assert summarise([EpisodePair(r, found) for r in (found, lost, lost)])["steps_hidden"] is None


def test_homes_where_it_failed_are_listed():
    expert = result(True)
    bumped = result(True, collisions=1)
    lines = lost_homes([EpisodePair(one, expert) for one in (result(True), result(False, "hidden"), bumped)])
    task, end = "'find the red cup'", "collisions; the expert found it"
    assert lines == [
        f"home 1 (hidden), {task}: arrived, 0.9 m away after 10 steps, 0 {end}",
        f"home 1 (in_view), {task}: found after 10 steps, 1 {end}",
    ]


def test_a_rate_of_nothing_is_none():
    figures = summarise([EpisodePair(result(False), result(True))])
    assert figures["success_other_room"] is None and figures["path_ratio"] is None


def test_standing_at_the_target_means_near_facing_it_and_nothing_nearer_before():
    home = generate_home(5)
    target = home.target
    near = Pose2D(target.x - 0.9, target.y, 0.0)
    alone = replace(home, walls=(), objects=(target,), target_index=0)
    assert stands_at(alone, near, target)
    assert not stands_at(alone, replace(near, yaw=3.0), target), "turned away"
    assert not stands_at(alone, replace(near, x=target.x - 1.3), target), "too far"
    other = replace(home.objects[1], x=target.x - 0.5, y=target.y + 0.2)
    assert not stands_at(replace(alone, objects=(target, other)), near, target)
    aside = replace(other, x=near.x, y=near.y + 0.6)
    assert stands_at(replace(alone, objects=(target, aside)), near, target)


def test_an_episode_with_scripted_answers_keeps_its_books():
    home = generate_home(11)
    actions = ("turn left large", "hop", "turn right large", "stop")
    script = iter([f"{action}\nsearch: x" for action in actions])

    def scripted(simulator: Simulator, navigator: Navigator) -> str:
        return next(script)

    episode = run_episode(home, "find it", lambda _: scripted, NavigatorSettings(), 0.0)
    assert episode.outcome == "arrived" and episode.steps == 4
    assert episode.actions == actions
    assert episode.path_m < 0.3 and not episode.success and episode.collisions == 0


@pytest.mark.lengthy
def test_the_expert_finds_it_through_the_same_loop(tmp_path, capsys):
    figures = evaluate_navigation(2, 0, "expert", json_file=tmp_path / "n.json")
    written = json.loads((tmp_path / "n.json").read_text())
    assert figures["success_rate"] == 1.0 and figures["collision_rate"] == 0.0
    assert written["episodes"] == 2 and len(written["runs"]) == 2
    printed = capsys.readouterr().out
    assert "object found, in the starting room" in printed and "2.000" not in printed
    assert "0.34 to 1.00" in printed, "the interval of 2 of 2 (Wilson)"
    assert "\nhome " not in printed, "no home failed"


@pytest.mark.lengthy
def test_a_remembered_place_in_another_room_saves_most_of_the_search():
    tasks = [EpisodeTask(first_home_seed(0) + n, "other_room", "expert", Path(), 150) for n in (19, 23, 35)]
    searched = [run_task(task).result for task in tasks]
    recalled = [run_task(replace(task, memory=True)).result for task in tasks]
    assert all(one.success for one in (*searched, *recalled))
    assert sum(one.steps for one in recalled) < 0.8 * sum(one.steps for one in searched)
    assert sum(one.path_m for one in recalled) < sum(one.path_m for one in searched)


@pytest.mark.lengthy
def test_a_memory_that_is_no_longer_true_leaves_the_search_as_it_was():
    home = generate_home(first_home_seed(0) + 15, placement="other_room")
    sighting = Sighting(home.target.spec.phrase, home.start.x + 1.5, home.start.y)
    instruction = f"find the {home.target.spec.phrase}"
    episode = run_episode(home, instruction, expert_answerer, NavigatorSettings(), 0.0, [sighting])
    assert episode.success and episode.collisions == 0


@pytest.mark.parametrize(
    "options", [{"model": "oracle"}, {"episodes": 0}, {"processes": 0}, {"seed": -1}, {"memory": "yes"}]
)
def test_wrong_options_are_refused(options):
    with pytest.raises(ConfigError):
        evaluate_navigation(**{"episodes": 1, "seed": 0, "model": "expert", **options})


def test_missing_models_are_named(tmp_path):
    with pytest.raises(ConfigError, match=str(tmp_path)):
        evaluate_navigation(1, 0, "target", tmp_path)


@pytest.mark.lengthy
def test_held_out_prompts_are_reproducible_and_different():
    prompts = list(held_out_prompts(3, 0))
    assert prompts == list(held_out_prompts(3, 0))
    assert len({prompt.jpeg for prompt in prompts}) == 3
