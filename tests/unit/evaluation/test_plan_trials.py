"""Plans of several finds are compared with each of their finds alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.evaluation.pair import plans
from outrider.evaluation.pair.plans import PlanOutcome, evaluate_plans, plan_tasks, summarise


def outcome(reached: tuple[bool, ...], alone: tuple[bool, ...], collisions: int = 0) -> PlanOutcome:
    return PlanOutcome(1, "find the red ball, then find the blue cup", reached, alone, 9, collisions, "")


def test_a_plan_counts_only_as_a_whole_and_each_find_by_itself() -> None:
    figures = summarise(
        [
            outcome((True, True), (True, True)),
            outcome((True, False), (True, True), collisions=1),
            outcome((False, False), (True, False)),
            outcome((True, True), (False, True)),
        ]
    )
    assert (figures["homes"], figures["finds"]) == (4, 8)
    assert (figures["plans_reached"], figures["alone_all_reached"], figures["difference"]) == (0.5, 0.5, 0.0)
    assert (figures["finds_reached"], figures["alone_reached"]) == (0.625, 0.75)
    assert figures["collision_rate"] == 0.25
    low, high = figures["difference_interval"]
    assert -0.8 < low < 0.0 < high < 0.8


def test_homes_are_held_out_and_differ() -> None:
    tasks = plan_tasks(8, 2, 3, "pair", Path("models"), 100)
    assert len({task.home_seed for task in tasks}) == 8
    assert {task.placement for task in tasks} == {"in_view", "hidden", "other_room"}


@pytest.mark.parametrize("options", [{"model": "expert"}, {"homes": 0}, {"finds": 4}, {"processes": 0}])
def test_a_wrong_option_is_named(options: dict) -> None:
    with pytest.raises(ConfigError):
        evaluate_plans(**{"homes": 1, "seed": 0, **options})


def test_a_run_that_was_ended_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def try_home(task: plans.PlanTask) -> PlanOutcome:
        if len(tried) == 2:
            raise KeyboardInterrupt
        tried.append(task.home_seed)
        return PlanOutcome(task.home_seed, "find the red ball", (True,), (True,), 3, 0, "")

    monkeypatch.setattr(plans, "run_task", try_home)
    with pytest.raises(KeyboardInterrupt):
        evaluate_plans(4, 0, finds=1, run=tmp_path)
    first = tried.copy()
    tried.clear()
    assert evaluate_plans(4, 0, finds=1, run=tmp_path)["homes"] == 4
    assert len(tried) == 2 and not set(tried) & set(first)
    with pytest.raises(ConfigError, match="choose another folder"):
        evaluate_plans(4, 0, finds=2, run=tmp_path)
