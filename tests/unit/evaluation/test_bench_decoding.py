"""The decoding benchmark: its figures against the papers' formulas, and what it writes."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from outrider.core.errors import ConfigError
from outrider.core.frames import Proposal, Unsettled
from outrider.decoding.acceptance.schemes import SCHEMES
from outrider.decoding.config import STRATEGIES
from outrider.evaluation.decoding import bench as bench
from outrider.evaluation.decoding import comparison, expectations
from outrider.evaluation.decoding import paper_ablations as ablations
from outrider.evaluation.decoding.regimes import Regime, load_regimes
from outrider.runtime.datasets.held_out import Pair
from outrider.wire.codec import encode, wire_bytes

REJECTION, SPLIT = SCHEMES["rejection"], SCHEMES["split"]
SHORT = partial(comparison.synthetic_requests, tokens=20)
"""For tests that judge no speed."""


def regime_named(name: str) -> Regime:
    return load_regimes([name])[name]


@pytest.fixture(scope="module")
def go2() -> dict[str, comparison.Figures]:
    regime = regime_named("fsd-go2")
    requests = comparison.synthetic_requests(5, tokens=150)
    return comparison.measure_regime(regime, comparison.synthetic_models(regime, seed=0), requests, seed=0)


@pytest.mark.lengthy
@pytest.mark.parametrize("strategy", ["ar", "sd", "dssd", "fsd", "picospec"])
def test_go2_recreates_the_papers_formulas(go2: dict[str, comparison.Figures], strategy: str) -> None:
    assert go2[strategy].ratio_to_formula == pytest.approx(1.0, abs=0.1)


@pytest.mark.lengthy
def test_go2_has_the_papers_speed_and_misses(go2: dict[str, comparison.Figures]) -> None:
    assert go2["ar"].speedup_vs_ar == 1.0
    assert go2["sd"].speedup_vs_ar == pytest.approx(0.90, abs=0.09)
    assert go2["fsd"].cache_miss_rate == pytest.approx(0.5563, abs=0.1)
    assert go2["fsd"].avg_exit == pytest.approx(8.0, abs=2.0)
    assert go2["outrider"].tokens_per_s > max(go2[name].tokens_per_s for name in go2 if name != "outrider")


def test_formulas_of_the_papers() -> None:
    regime = regime_named("fsd-go2")
    assert expectations.formula_round_s(regime, "sd") == pytest.approx(1.148)
    assert expectations.formula_round_s(regime, "fsd") == pytest.approx(0.24 + 0.5563 * 0.288 + 0.62)
    assert expectations.formula_tokens_per_s(regime, "ar") == pytest.approx(1 / 0.354)
    assert expectations.formula_tokens_per_s(regime, "outrider") is None
    assert expectations.limit_of(regime, "outrider", 2.92) == pytest.approx(2.92 / 0.62)


def test_mended_formulas_expect_less_where_the_papers_leave_something_out() -> None:
    jetson, pico = regime_named("fsd-jetson-vicuna13b"), regime_named("picospec-llama-gsm8k")
    for regime, strategy in ((jetson, "fsd"), (pico, "picospec")):
        formula = expectations.formula_tokens_per_s(regime, strategy)
        mended = expectations.completed_formula_tokens_per_s(regime, strategy)
        assert formula is not None and mended is not None and mended < 0.95 * formula


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ["picospec-qwen-gsm8k", "picospec-qwen-humaneval", "picospec-llama-gsm8k"])
def test_picospec_is_as_fast_as_its_formula_with_fast_verification(name: str) -> None:
    regime = regime_named(name)
    config = comparison.configuration(regime, "picospec")
    pair, world = comparison.synthetic_models(regime, 0), comparison.world_of(regime, config.scheme, 0)
    texts = comparison.decode_all(config, pair, world, comparison.synthetic_requests(4))
    row = comparison.figures_of(regime, "picospec", texts, {})
    assert row.ratio_to_mended == pytest.approx(1.0, abs=0.1)


def test_sizes_hold_the_papers_distributions() -> None:
    regime = regime_named("dssd-ntt20-100mbps")
    row = 50272 * 2
    proposal = Proposal(1, 1, 0, 0, None, (1, 2, 3), b"evidence")
    unsettled = Unsettled(1, 1, 0, 0, (1,), 3, 1, 1, b"residue")
    assert comparison.size_of(regime, REJECTION)(proposal) == wire_bytes(encode(proposal)) - 8 + 3 * row
    assert comparison.size_of(regime, SPLIT)(proposal) == wire_bytes(encode(proposal))
    assert comparison.size_of(regime, SPLIT)(unsettled) == wire_bytes(encode(unsettled)) - 7 + row
    greedy = regime_named("fsd-go2")
    assert comparison.size_of(greedy, REJECTION)(proposal) == wire_bytes(encode(proposal))


def test_fsd_drafts_on_as_many_exits_as_its_paper_could() -> None:
    regime = regime_named("fsd-go2")
    assert comparison.configuration(regime, "fsd").workers == 6
    assert comparison.configuration(regime, "outrider").workers == 6


@pytest.mark.lengthy
def test_figures_of_all_strategies_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def two_texts(frames: int, seed: int) -> list[Any]:
        return comparison.synthetic_requests(2, 15)

    models = comparison.synthetic_models(regime_named("fsd-go2"), seed=1)
    monkeypatch.setattr(bench, "replayed_requests", two_texts)
    monkeypatch.setattr(bench, "synthetic_requests", lambda texts, *_: SHORT(texts))
    monkeypatch.setattr(bench, "bench_overhead", dict)
    file, plots = tmp_path / "figures.json", tmp_path / "plots"
    bench.bench_decoding(
        ["fsd-go2"],
        texts=1,
        json_file=file,
        plots=plots,
        pair=Pair(models.target, models.draft),
        round_trips_ms=(0.0, 600.0),
    )
    figures = json.loads(file.read_text())
    for part in ("regimes", "replayed"):
        assert set(figures[part]["fsd-go2"]) == set(STRATEGIES)
        sd, row = (figures[part]["fsd-go2"][strategy] for strategy in ("sd", "outrider"))
        assert sd["tokens_per_round"] > 1.0
        limit = sd["tokens_per_round"] / 0.62
        assert row["fraction_of_limit"] == pytest.approx(row["tokens_per_s"] / limit)
        low, high = row["speedup_interval"]
        assert low - 1e-9 <= row["speedup_vs_ar"] <= high + 1e-9
    bound, row = figures["bounds"]["fsd-go2"], figures["regimes"]["fsd-go2"]["outrider"]
    assert bound["outrider"] == pytest.approx(row["speedup_vs_ar"] / bound["speedup_vs_ar"])
    assert bound["outrider"] == pytest.approx(row["fraction_of_limit"] / bound["fraction_of_limit"])
    sweep = figures["round_trips"]["fsd-go2"]["speedup_vs_ar"]
    assert sweep["sd"][0] > sweep["sd"][1]
    assert {path.name for path in plots.iterdir()} == {
        f"fsd-go2_{picture}.png" for picture in ("speeds", "timeline", "round_trips")
    }
    kinds = {event["kind"] for event in figures["timelines"]["fsd-go2"]["outrider"]}
    assert {"draft", "verify", "up", "down", "commit"} <= kinds


@pytest.mark.lengthy
def test_pictures_measure_nothing_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Regime] = []

    def measure(regime: Regime, *rest: Any) -> dict[str, comparison.Figures]:
        measured.append(regime)
        return comparison.measure_regime(regime, *rest)

    models = comparison.synthetic_models(regime_named("lan"), seed=1)
    monkeypatch.setattr(bench, "replayed_requests", lambda *_: comparison.synthetic_requests(1, 20))
    monkeypatch.setattr(bench, "synthetic_requests", lambda texts, *_: SHORT(texts))
    monkeypatch.setattr(bench, "bench_overhead", dict)
    monkeypatch.setattr(bench, "measure_regime", measure)
    pair = Pair(models.target, models.draft)
    bench.bench_decoding(["lan"], texts=1, pair=pair)
    alone = len(measured)
    bench.bench_decoding(["lan"], texts=1, pair=pair, plots=tmp_path)
    assert len(measured) == 2 * alone
    assert {path.name for path in tmp_path.iterdir()} == {"lan_speeds.png", "lan_timeline.png"}


@pytest.mark.lengthy
def test_ablations_have_a_value_for_every_setting_and_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations, "synthetic_requests", SHORT)
    figures = ablations.bench_ablations(1, 0, tmp_path, (1, 30), (1, 10), (3,))
    workers, lengths = figures["workers"], figures["draft_length"]
    assert workers["cache_miss_rate"][1] <= workers["cache_miss_rate"][0] < 1.0
    assert lengths["fsd_vs_sd"][1] > lengths["fsd_vs_sd"][0]
    queues = figures["queues"]["cache_miss_rate"]
    assert len(queues) == 6 and all(0.0 <= rates[0] < 1.0 for rates in queues.values())
    assert {path.name for path in tmp_path.iterdir()} == {"fsd_workers.png", "fsd_draft_length.png"}


@pytest.mark.parametrize(("texts", "seed"), [(0, 0), (1, -1)])
def test_wrong_numbers_are_refused(texts: int, seed: int) -> None:
    with pytest.raises(ConfigError):
        bench.bench_decoding(texts=texts, seed=seed)
