"""Ablations and random conditions: refused options, the meaning of the figures, and the written results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.cli.benchmarks import app
from outrider.core.errors import ConfigError
from outrider.decoding.tuning import DEFAULT_TUNING, SWITCHES, AdaptiveTuning
from outrider.evaluation.alternatives import random_bench
from outrider.evaluation.common.choices import chosen_mechanisms
from outrider.evaluation.decoding import mechanisms
from outrider.evaluation.decoding.comparison import synthetic_models, synthetic_requests
from outrider.evaluation.decoding.mechanisms import ablation_of, bench_ablation
from outrider.evaluation.decoding.random_regimes import RANGES, random_regimes
from outrider.evaluation.decoding.regimes import VARIANTS, load_regimes, varied
from outrider.runtime.datasets.held_out import Pair


def slower_without_hints(strategy: str, tuning: AdaptiveTuning) -> float:
    return 10.0 if strategy == "ar" else 20.0 if tuning.send_hints else 18.0


def untouched(strategy: str, tuning: AdaptiveTuning) -> float:
    return 10.0 if strategy == "ar" else 30.0


def test_a_mechanism_is_worth_what_is_lost_without_it(tmp_path, capsys) -> None:
    conditions = {"near": slower_without_hints, "far": untouched}
    file = tmp_path / "figures.json"
    bench_ablation(["send_hints", "restart", "send_hints"], conditions, file)
    figures = json.loads(file.read_text())
    assert figures["speedup_vs_ar"] == {"near": 2.0, "far": 3.0}
    assert list(figures["ablations"]) == ["send_hints", "restart"]
    hints = figures["ablations"]["send_hints"]
    assert hints["changes"] == pytest.approx({"near": -0.1, "far": 0.0})
    assert hints["geometric_mean"] == pytest.approx(0.9**0.5 - 1.0, abs=5e-5), "to four decimals"
    assert (hints["worst"], hints["median"]) == pytest.approx((-0.1, -0.05))
    assert figures["ablations"]["restart"]["geometric_mean"] == 0.0
    printed = capsys.readouterr().out
    assert "-10.0%" in printed and "send_hints" in printed


def test_the_spread_is_that_of_speeds_over_ar() -> None:
    full = {str(number): 1.0 + 0.1 * number for number in range(11)}
    found = ablation_of(full, {name: speed * (0.5 if name == "0" else 1.0) for name, speed in full.items()})
    assert found.median_vs_ar == 0.0
    assert found.worst == pytest.approx(-0.5)
    assert found.tenth_percentile_vs_ar == 0.0 and found.median_vs_best is None
    over_best = ablation_of({"near": 2.0, "far": 3.0}, {"near": 1.0, "far": 3.0}, {"near": 1.0, "far": 2.0})
    assert over_best.median_vs_ar == pytest.approx(2.0 / 2.5 - 1.0)
    assert over_best.median_vs_best == pytest.approx(1.25 / 1.75 - 1.0)
    cloud = dict.fromkeys(("csd 5%", "csd 10%"), 4.0) | dict.fromkeys(("ssd 5%", "ssd 10%"), 5.0)
    cloud |= dict.fromkeys(("both 5%", "both 10%"), 6.0) | dict.fromkeys(("apart 5%", "apart 10%"), 7.0)
    spreads = random_bench.spreads_of(
        [{"ar": 1.0, "sd": 1.5, "outrider": 3.0, **cloud}, {"ar": 1.0, "sd": 0.5, "outrider": 2.0, **cloud}]
    )
    assert (spreads["ar"].median, spreads["the best paper"].median) == (2.5, 3.0)
    assert spreads["ar"].tenth_percentile == pytest.approx(2.1)
    assert spreads["the best on one device at 5%"].median == pytest.approx(1.5)
    assert spreads["ssd on two devices at 10%"].median == pytest.approx(1.4)


def test_all_stands_for_every_mechanism_and_no_other_name_is_taken() -> None:
    assert chosen_mechanisms(["all"]) == SWITCHES
    with pytest.raises(ConfigError, match="no mechanism restarts, frob: choose from all, restart"):
        chosen_mechanisms(["restarts", "frob"])


def test_random_regimes_lie_within_their_ranges_and_repeat() -> None:
    drawn = random_regimes(40, seed=3)
    assert list(random_regimes(5, seed=3).items()) == list(drawn.items())[:5]
    assert next(iter(random_regimes(1, seed=4).values())) != next(iter(drawn.values()))
    for name, measured in (
        ("round_trip_ms", [1e3 * regime.round_trip_s for regime in drawn.values()]),
        ("acceptance", [regime.rate for regime in drawn.values()]),
        ("draft_share", [regime.draft_token_ms / regime.step_ms for regime in drawn.values()]),
        ("row_share", [regime.verify_token_ms / regime.step_ms for regime in drawn.values()]),
        ("second_choice", [regime.second_choice for regime in drawn.values()]),
        ("miss_rate", [regime.exits.miss_rate for regime in drawn.values()]),
    ):
        low, high = RANGES[name]
        assert 0.999 * low <= min(measured) and max(measured) <= 1.001 * high
        middle = (low * high) ** 0.5
        assert sum(value < middle for value in measured) == pytest.approx(20, abs=10), name
    for number in (0, 1001):
        with pytest.raises(ConfigError, match=f"random_regimes={number} must be"):
            random_regimes(number, seed=0)


def test_variants_change_the_costs_alone() -> None:
    regimes = load_regimes(["lan"])
    plain = regimes["lan"].compute()
    found = {name: one.compute() for variant in VARIANTS for name, one in varied(regimes, variant).items()}
    assert found["lan, rows"].verify_token_s == pytest.approx(0.1 * plain.step_s)
    assert found["lan, full-head-exits"].step_exit_s > 10 * plain.step_exit_s
    assert found["lan, whole-forwards"].target_queue.left_s(0.1, 1.0) == 1.0
    assert plain.target_queue.left_s(0.1, 1.0) < 0.2
    with pytest.raises(ConfigError, match="no variant dear: choose from rows"):
        varied(regimes, "dear")


@pytest.mark.lengthy
def test_random_conditions_are_measured_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random_bench, "synthetic_requests", lambda texts: synthetic_requests(texts, 15))
    file = tmp_path / "random.json"
    random_bench.bench_random(2, None, texts=1, seed=1, json_file=file)
    figures = json.loads(file.read_text())
    assert list(figures["regimes"]) == ["random-1-0", "random-1-1"]
    spread = figures["outrider_over"]["ar"]
    assert spread["median"] >= spread["tenth_percentile"] > 0.0
    assert "over ssd on two devices at 5%" in " ".join(capsys.readouterr().out.split())


@pytest.mark.lengthy
def test_regimes_the_shipped_pair_and_fleets_are_conditions() -> None:
    regimes = load_regimes(["lan"])
    models = synthetic_models(regimes["lan"], seed=1)
    conditions = mechanisms.all_conditions(regimes, None, Pair(models.target, models.draft), 1, 0)
    fleets = ["fleet of 4", "fleet of 16"]
    assert list(conditions) == ["lan", "lan, drafts at both ends", "lan, shipped pair", *fleets]
    both = conditions["lan, drafts at both ends"]
    assert both("ar", DEFAULT_TUNING) == pytest.approx(conditions["lan"]("ar", DEFAULT_TUNING), rel=0.01)
    without = DEFAULT_TUNING.without("steady_rates")
    assert both("outrider", DEFAULT_TUNING) != both("outrider", without), "the cloud's draft is used"
    assert conditions["fleet of 4"]("outrider", DEFAULT_TUNING) > conditions["fleet of 4"](
        "ar", DEFAULT_TUNING
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--ablate", "restarts"], "no mechanism restarts"),
        (["--random-regimes", "2", "--regime", "lan"], "--regime cannot go with --random-regimes"),
        (["--ablate", "restart", "--live"], "--ablate cannot go with --live"),
        (["--variant", "rows"], "goes with --alternatives, --ablate or"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["decoding", *arguments])
    assert isinstance(result.exception, ConfigError) and told in str(result.exception)
