"""The benchmark of published weights on toys whose acceptance is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.decoding.fakes.toy import ToyModel, ToySettings
from outrider.evaluation.pair import real_pair
from outrider.evaluation.pair.real_pair import acceptance_of, bench_weights
from outrider.evaluation.pair.speculation import Verification
from outrider.runtime.datasets.held_out import Pair
from outrider.runtime.datasets.real_prompts import real_prompts

TARGET = ToyModel(ToySettings(seed=1, eos_bias=0.0))
PAIR = Pair(TARGET, ToyModel(ToySettings(seed=1, agreement=0.6, eos_bias=0.0)))


def test_acceptance_by_hand() -> None:
    rounds = [
        Verification([1, 2], [1, 2, 3], [1, 2, 3], []),
        Verification([1, 2], [1, 9, 3], [1, 9], []),
        Verification([1, 2], [7, 9, 3], [7], []),
    ]
    figures = acceptance_of(rounds)
    assert figures.tokens_per_verification == 2.0
    assert figures.by_position == (2 / 3, 1 / 2)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_strategy_over_every_network_is_told(
    temperature: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [replace(prompt, jpeg=b"\xff\xd8") for prompt in real_prompts(2)]  # toys want a frame
    monkeypatch.setattr(real_pair, "real_prompts", lambda number: seen[:number])
    file = tmp_path / "weights.json"
    figures = bench_weights(2, 12, temperature=temperature, json_file=file, pair=PAIR)
    assert json.loads(file.read_text())["rows"] == figures["rows"]
    rows = figures["rows"]
    networks = ["0 ms", "20 ms", "100 ms", "wifi6", "lte", "blackout"]
    assert [row["network"] for row in rows] == [name for name in networks for _ in range(6)]
    exact = {"ar", "outrider"} if temperature else {row["strategy"] for row in rows}
    assert all(row["different"] == 0 for row in rows if row["strategy"] in exact)


def test_the_networks_outages_come_again() -> None:
    world = real_pair.virtual_world(real_pair.networks()["blackout"], real_pair.ComputeProfile(), 0)
    assert [world.is_up(at_s, at_s) for at_s in (9.0, 11.0, 14.0, 31.0, 2011.0)] == [1, 0, 1, 0, 0]


def test_prompts_of_both_kinds_come_in_turn_and_no_more_than_there_are() -> None:
    coding, household = (prompt.text for prompt in real_prompts(2))
    assert "reverses the words" in coding and "water the plants" in household
    assert len({prompt.text for prompt in real_prompts(48)}) == 48
    with pytest.raises(ConfigError, match="choose 1 to 48"):
        real_prompts(49)
