"""The aggregation benchmark reproduces or beats the figures that the paper gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from outrider.core.errors import ConfigError
from outrider.decoding.aggregation.synthetic import AcceptanceTarget, certain_pair
from outrider.evaluation.aggregation import bench as bench
from outrider.evaluation.aggregation.bench import scheduled_s, summarise
from outrider.evaluation.aggregation.comparison import (
    METHODS,
    decode_texts,
    figures,
    measure,
    synthetic_requests,
)
from outrider.evaluation.aggregation.regimes import load_aggregation_regimes, slow_start_s
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import results_table

OPT = load_aggregation_regimes(["dragon-opt-1.3b"])["dragon-opt-1.3b"]
TEXTS = 1


@pytest.fixture(scope="module")
def at_300_ms():
    return {method: measure(OPT, method, 300.0, "server", TEXTS, 0) for method in METHODS}


def test_the_baselines_take_what_the_paper_measured(at_300_ms) -> None:
    assert at_300_ms["sequence"].token_ms == pytest.approx(OPT.published.sequence[-1], rel=0.07)
    assert at_300_ms["token"].token_ms == pytest.approx(OPT.published.token[-1], rel=0.1)
    assert at_300_ms["crcg"].token_ms == pytest.approx(OPT.device_one_context_ms * 19 / 20)


@pytest.mark.parametrize("method", ["dragon", "coupled"])
def test_the_papers_reductions_are_reached(at_300_ms, method: str) -> None:
    rows = {name: [row] for name, row in at_300_ms.items()}
    summary = summarise(rows)[method]
    assert summary["below_sequence"] >= 0.495
    assert summary["below_token"] >= 0.424
    assert summary["over_device"] <= 0.15
    assert summary["bytes_a_token"] < 500
    assert at_300_ms[method].first_token_ms <= 1.01 * at_300_ms["device"].first_token_ms


@pytest.mark.lengthy
def test_a_regime_is_drawn_for_each_place_of_its_delay(
    at_300_ms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {method: (row,) for method, row in at_300_ms.items()}
    monkeypatch.setattr(bench, "compare", lambda *_: rows)
    regime = msgspec.structs.replace(OPT, extra_delays_ms=(300.0,))
    table, notes = results_table("title", *LEGENDS["bench aggregation"]), []
    result = bench._measure_regime(table, notes, "opt", regime, TEXTS, 0, tmp_path)
    assert table.row_count >= len(METHODS) * len(result)
    assert all("below sequence-wise" in note for note in notes)
    assert {path.name for path in tmp_path.iterdir()} == {f"opt_{place}.png" for place in result}
    assert set(result["both"]["methods"]) == set(METHODS)


def test_the_coupled_rule_is_the_faster(at_300_ms) -> None:
    assert at_300_ms["coupled"].token_ms < 0.9 * at_300_ms["dragon"].token_ms


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("rates", "better", "worse", "num_tokens"),
    [((0.99, 0.99), "device", "random", 50), ((0.99, 0.49), "cloud", "device", 60)],
)
def test_the_schedule_is_as_good_as_the_better_side(rates, better: str, worse: str, num_tokens: int) -> None:
    def seconds(method: str) -> float:
        return scheduled_s(OPT, method, rates, 0.2, 1, 1, num_tokens)

    assert seconds("dragon") <= 1.02 * seconds(f"dragon-{better}")
    assert seconds("dragon") < seconds(f"dragon-{worse}")


@pytest.mark.parametrize(("device", "cloud"), [(0.9, 0.9), (0.95, 0.6), (0.5, 0.5)])
def test_made_up_pairs_are_accepted_as_often_as_asked(device: float, cloud: float) -> None:
    target = AcceptanceTarget(device, cloud)
    results = decode_texts(
        certain_pair(target, 3),
        lambda number: replace(METHODS["token"], seed=number),
        lambda number: OPT.world(0.0, "server", number),
        synthetic_requests(2, 120),
        target.device_share,
    )
    row = figures(results, 0.0)
    assert row.device_acceptance == pytest.approx(device, abs=0.09)
    assert row.cloud_acceptance == pytest.approx(cloud, abs=0.09)


def test_slow_start_holds_up_long_messages_only() -> None:
    assert slow_start_s(1000, 0.3) == 0.0
    assert slow_start_s(8_000_000, 0.3) == pytest.approx(9 * 0.3)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="no regime nowhere"):
        load_aggregation_regimes(["nowhere"])
    with pytest.raises(ConfigError, match=r"acceptance rates 0\.2"):
        AcceptanceTarget(0.2, 0.3)
