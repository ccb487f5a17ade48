"""The decoding benchmark: its figures against the papers' formulas, and what it writes."""

import json
from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.decoding.config import STRATEGIES
from outrider.runtime import bench_decoding as bench
from outrider.runtime.held_out import Pair
from outrider.runtime.regimes import load_regimes


def measured(name: str, texts: int = 4) -> dict[str, bench.Figures]:
    regime = load_regimes([name])[name]
    pair = bench.synthetic_models(regime, seed=0)
    return bench.measure_regime(regime, pair, bench.synthetic_requests(texts, tokens=120), seed=0)


def test_go2_recreates_the_formulas() -> None:
    figures = measured("fsd-go2")
    for strategy in ("ar", "sd"):
        assert figures[strategy].ratio_to_formula == pytest.approx(1.0, abs=0.1)
    assert figures["ar"].speedup_vs_ar == 1.0
    assert figures["sd"].speedup_vs_ar == pytest.approx(0.90, abs=0.09)


def test_formulas_of_the_papers() -> None:
    go2 = load_regimes(["fsd-go2"])["fsd-go2"]
    assert bench.formula_round_s(go2, "sd") == pytest.approx(1.148)
    assert bench.formula_round_s(go2, "fsd") == pytest.approx(0.24 + 0.5563 * 0.288 + 0.62)
    assert bench.formula_tokens_per_s(go2, "ar") == pytest.approx(1 / 0.354)
    assert bench.formula_tokens_per_s(go2, "outrider") is None
    assert bench.limit_of(go2, "outrider") == pytest.approx(2.92 / 0.62)


def test_figures_of_all_strategies_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    regime = load_regimes(["fsd-go2"])["fsd-go2"]
    models = bench.synthetic_models(regime, seed=1)
    monkeypatch.setattr(bench, "replayed_requests", lambda frames, seed: bench.synthetic_requests(2, 30))
    file = tmp_path / "figures.json"
    bench.bench_decoding(["fsd-go2"], texts=1, json_file=file, pair=Pair(models.target, models.draft))
    figures = json.loads(file.read_text())
    for part in ("regimes", "replayed"):
        assert set(figures[part]["fsd-go2"]) == set(STRATEGIES)
        assert figures[part]["fsd-go2"]["sd"]["tokens_per_round"] > 1.0


@pytest.mark.parametrize(("texts", "seed"), [(0, 0), (1, -1)])
def test_wrong_numbers_are_refused(texts: int, seed: int) -> None:
    with pytest.raises(ConfigError):
        bench.bench_decoding(texts=texts, seed=seed)
