"""The record of tuned numbers: checked, complete, and each switch changes what the engine does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest
from golden import schedules
from msgspec import structs

from outrider.core.errors import ConfigError
from outrider.decoding.config import DecodingConfig
from outrider.decoding.tuning import DEFAULT_TUNING, SWITCHES, AdaptiveTuning, ExitPriors
from outrider.evaluation.decoding.changes import CHANGES, USUAL, write_session
from outrider.evaluation.decoding.comparison import (
    configuration,
    decode_all,
    synthetic_models,
    synthetic_requests,
    world_of,
)
from outrider.evaluation.decoding.regimes import load_regimes, with_costly_rows

REGIMES = list(load_regimes(["fsd-rtx-llama2", "fsd-go2-cheap-exits", "picospec-llama-humaneval"]).values())
REGIMES += map(with_costly_rows, load_regimes(["picospec-qwen-humaneval"]).values())
REGIMES += [
    structs.replace(one, verify_ms=4.0 * one.step_ms, tokens_per_round=None, acceptance_rate=0.3)
    for one in REGIMES[:1]
]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("restart", 1),
        ("min_restart_gain", float("nan")),
        ("min_restart_gain", "0.3"),
        ("rate_memory", 1.01),
        ("rate_memory", True),
        ("acceptance_priors", (0.7, -0.1)),
        ("acceptance_priors", ()),
        ("ahead_positions", 0),
        ("ahead_positions", 2.5),
        ("prompt_lead_s", -0.1),
        ("prior_trials", 0.0),
        ("least_confidence", 0.0),
        ("exit_priors", ExitPriors(free=(float("inf"), 1.0))),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_name(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"^{name}="):
        AdaptiveTuning(**{name: value})  # type: ignore[arg-type]


def test_a_name_that_does_not_exist_is_refused_with_the_choices() -> None:
    with pytest.raises(ConfigError, match="no mechanism is called min_restart_gain: choose from restart"):
        DEFAULT_TUNING.without("min_restart_gain")


def test_changed_values_are_used() -> None:
    changed = replace(DEFAULT_TUNING, min_restart_gain=0.4).without("second_choices", "restart")
    assert changed == replace(DEFAULT_TUNING, min_restart_gain=0.4, second_choices=False, restart=False)


def test_every_number_has_a_unit_and_a_source() -> None:
    for one in fields(AdaptiveTuning):
        assert one.metadata["unit"] and one.metadata["why"], one.name


def test_a_configuration_takes_nothing_but_a_tuning() -> None:
    with pytest.raises(ConfigError, match="tuning"):
        DecodingConfig(tuning={"restart": False})  # type: ignore[arg-type]


def recorded(tuning: AdaptiveTuning) -> Iterator[Any]:
    """Yield texts with their statistics.

    They come from synthetic pairs, from toy models, and from drafts at both ends that are right, wrong
    and right again.
    """
    for regime in REGIMES:
        config = configuration(regime, "outrider", tuning=tuning)
        world = world_of(regime, config.scheme, seed=0)
        yield decode_all(config, synthetic_models(regime, seed=0), world, synthetic_requests(2, 80))
    yield schedules.decode_toys(DecodingConfig(tuning=tuning), schedules.rough_worlds()["unordered"])
    there_and_back = [USUAL, CHANGES["drafts slow and 5 % right"], USUAL]
    yield write_session(there_and_back, "outrider", tuning=tuning)


@pytest.fixture(scope="module")
def as_it_is() -> list[Any]:
    return list(recorded(DEFAULT_TUNING))


@pytest.mark.lengthy
@pytest.mark.parametrize("name", [name for name in SWITCHES if name != "select_batch"])
def test_each_switch_changes_some_schedule(name: str, as_it_is: list[Any]) -> None:
    """`select_batch` needs a fleet and is tested in `test_fleet`."""
    without = recorded(DEFAULT_TUNING.without(name))
    assert any(now != before for now, before in zip(without, as_it_is, strict=True))
