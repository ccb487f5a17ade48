"""Plans of several finds are counted beside their finds alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
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


def test_homes_are_held_out_and_differ() -> None:
    tasks = plan_tasks(8, 2, 3, "pair", Path("models"), 100)
    assert len({task.home_seed for task in tasks}) == 8
    assert {task.placement for task in tasks} == {"in_view", "hidden", "other_room"}


@pytest.mark.parametrize("options", [{"model": "expert"}, {"homes": 0}, {"finds": 4}, {"processes": 0}])
def test_a_wrong_option_is_named(options: dict) -> None:
    with pytest.raises(ConfigError):
        evaluate_plans(**{"homes": 1, "seed": 0, **options})
