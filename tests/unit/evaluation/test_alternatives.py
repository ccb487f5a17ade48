"""Drafting on the target's side, and the table against the best alternative."""

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.cli.benchmarks import app
from outrider.core.errors import ConfigError
from outrider.core.frames import MAX_CHUNK_TOKENS
from outrider.decoding.fakes.replay import ReplayModel
from outrider.decoding.theory import expected_tokens
from outrider.evaluation.alternatives import bench, measuring
from outrider.evaluation.alternatives.colocated import (
    CloudCosts,
    csd_run,
    draft_ranks,
    ssd_run,
)
from outrider.evaluation.alternatives.measuring import Standing
from outrider.evaluation.decoding import comparison
from outrider.evaluation.decoding.model_sizes import TARGETS
from outrider.evaluation.decoding.regimes import (
    VARIANTS,
    load_regimes,
    with_separate_exit_times,
    without_exits,
)
from outrider.runtime.datasets.held_out import Pair

COSTS = CloudCosts(0.1, 0.1, 0.002, 0.008, 0.0002)
RATE, SECOND = 0.7, 0.5


def drawn_ranks(number: int) -> list[int]:
    rng = random.Random(3)
    return [0 if rng.random() < RATE else 1 if rng.random() < SECOND else 9 for _ in range(number)]


def csd_tokens_per_s(rate: float, costs: CloudCosts, length: int) -> float:
    """Returns the speed of `csd` if each draft token has the same acceptance rate (Leviathan et al. 2023)."""
    return expected_tokens(rate, length) / (costs.drafts_s(length) + costs.forward_s(length))


def ssd_tokens_per_s(rate: float, hit_rate: float, costs: CloudCosts, length: int, fan_out: int) -> float:
    """Returns the speed of `ssd` at the same acceptance rate (arXiv 2603.03251).

    A share `hit_rate` of the rounds takes the longer of the verification and the drafting ahead, if that is
    shorter than both in sequence. The other rounds take both in sequence.
    """
    verify_s, anew_s = costs.forward_s(length), costs.drafts_s(length)
    hit_s = min(max(verify_s, costs.drafts_s(length, fan_out * (length + 1))), verify_s + anew_s)
    return expected_tokens(rate, length) / (hit_rate * hit_s + (1.0 - hit_rate) * (verify_s + anew_s))


@pytest.mark.parametrize("length", [1, 4, 7])
def test_csd_is_as_fast_as_its_formula(length: int) -> None:
    run = csd_run(drawn_ranks(40_000), COSTS, length)
    assert run.tokens / run.elapsed_s == pytest.approx(csd_tokens_per_s(RATE, COSTS, length), rel=0.02)
    assert run.device_s == run.elapsed_s


@pytest.mark.parametrize(("length", "draft_token_s"), [(1, 0.008), (4, 0.008), (7, 0.03)])
def test_ssd_is_as_fast_as_its_formula(length: int, draft_token_s: float) -> None:
    """With a fan-out of 1, a rejection is a hit if the second choice is right, and a fully accepted chunk is
    a hit if the next draft token is.
    """
    costs = CloudCosts(0.1, 0.1, 0.002, draft_token_s, 0.0002)
    hits = (1.0 - RATE**length) * SECOND + RATE**length * RATE
    run = ssd_run(drawn_ranks(40_000), costs, length, fan_out=1)
    expected = ssd_tokens_per_s(RATE, hits, costs, length, fan_out=1)
    assert run.tokens / run.elapsed_s == pytest.approx(expected, rel=0.02)
    assert run.device_s > run.elapsed_s


def test_no_rival_beside_the_target_is_bound_to_shorter_chunks_than_the_engine() -> None:
    """With a draft that is nearly always right the best length is large, and the tried ones come close."""
    regime = without_exits(load_regimes(["picospec-llama-humaneval"])["picospec-llama-humaneval"])
    costs = measuring.cloud_costs(regime, regime.cloud_draft_share)
    best = max(range(1, MAX_CHUNK_TOKENS + 1), key=lambda n: csd_tokens_per_s(regime.rate, costs, n))
    tried = max(measuring.CLOUD_LENGTHS, key=lambda n: csd_tokens_per_s(regime.rate, costs, n))
    assert best > 20
    assert max(measuring.CLOUD_LENGTHS) == MAX_CHUNK_TOKENS
    speeds = [csd_tokens_per_s(regime.rate, costs, length) for length in (tried, best)]
    assert speeds[0] == pytest.approx(speeds[1], rel=0.01)


def test_what_is_foreseen_costs_no_drafting() -> None:
    """If every outcome is predicted, `ssd` takes its first drafts and then only verifications."""
    ranks = [0] * 101
    run = ssd_run(ranks, COSTS, length=4, fan_out=1)
    assert run.elapsed_s == pytest.approx(4 * 0.008 + 20 * (0.1 + 4 * 0.002))
    unforeseen = [0, *[9] * 100]
    serial_s = csd_run(unforeseen, COSTS, 1).elapsed_s
    assert ssd_run(unforeseen, COSTS, 1, 1).elapsed_s == pytest.approx(serial_s, rel=1e-3)


@pytest.mark.parametrize("name", ["lan", "dssd-ntt20-100mbps"])
def test_without_drafts_it_is_autoregressive_decoding(name: str) -> None:
    """With empty chunks it takes as long as the engine's `ar` on the virtual clock, link included."""
    regime = without_exits(load_regimes([name])[name])
    pair, requests = comparison.synthetic_models(regime, 0), comparison.synthetic_requests(2, 60)
    config = comparison.configuration(regime, "ar")
    texts = comparison.decode_all(config, pair, comparison.world_of(regime, config.scheme, 0), requests)
    costs = measuring.cloud_costs(regime, 0.1)
    mine_s = sum(csd_run([0] * len(text.token_ids), costs, 0).elapsed_s for text in texts)
    mine_s += len(texts) * regime.round_trip_s
    assert mine_s == pytest.approx(sum(text.elapsed_s for text in texts), rel=0.02)


def test_of_choices_alike_only_one_has_a_rank() -> None:
    """A synthetic draft rates all but two tokens equally; the target's must not always rank third."""
    regime = load_regimes(["lan"])["lan"]
    pair, [one] = comparison.synthetic_models(regime, 0), comparison.synthetic_requests(1, 400)
    config = comparison.configuration(regime, "ar")
    [text] = comparison.decode_all(config, pair, comparison.world_of(regime, config.scheme, 0), [one])
    ranks = draft_ranks(pair.draft, one.prompt, text.token_ids, config.sampling_for(one.prompt))
    missed = [rank for rank in ranks if rank > 1]
    assert len(missed) > 20 and len(set(missed)) > 6


@pytest.mark.parametrize("name", ["lan", "dssd-ntt20-100mbps"])
def test_drafts_beside_the_target_stand_as_often_as_the_papers(name: str) -> None:
    """Greedily, and at temperature 1 with coupled acceptance."""
    regime = load_regimes([name])[name]
    pair, requests = comparison.synthetic_models(regime, 0), comparison.synthetic_requests(2)
    config = comparison.configuration(regime, "ar")
    texts = comparison.decode_all(config, pair, comparison.world_of(regime, config.scheme, 0), requests)
    ranks = [
        rank
        for one, text in zip(requests, texts, strict=True)
        for rank in draft_ranks(pair.draft, one.prompt, text.token_ids, config.sampling_for(one.prompt))
    ]
    assert ranks.count(0) / len(ranks) == pytest.approx(regime.rate, abs=0.06)


@pytest.mark.parametrize(("name", "least", "most"), [("lan", 0.9, 1.1), ("satellite", 0.95, 1.5)])
def test_what_drafts_beside_the_target_crosses_the_same_link(name: str, least: float, most: float) -> None:
    """`ar` crosses the link once each way too: one round trip, with the jitter and losses of that link."""
    bare = without_exits(load_regimes([name])[name])
    pair, requests = comparison.synthetic_models(bare, 0), comparison.synthetic_requests(4)
    config = comparison.configuration(bare, "ar")
    texts = comparison.decode_all(config, pair, comparison.world_of(bare, config.scheme, 0), requests)
    crossing_s = measuring.link_s(bare, texts) / len(requests)
    assert least <= crossing_s / bare.round_trip_s <= most


def test_costs_follow_from_the_models_sizes() -> None:
    """FSD's 620 and 354 ms make an exit cost 0.78 of a layer."""
    assert TARGETS["vicuna-7b"].full_head_share == pytest.approx(0.65, abs=0.01)
    assert TARGETS["qwen2-vl-7b"].full_head_share == pytest.approx(2.3, abs=0.05)
    regimes = load_regimes()
    assert regimes["dssd-ntt20-100mbps"].cloud_draft_share == 0.1, "printed"
    assert regimes["fsd-rtx-vicuna7b"].cloud_draft_share == pytest.approx(0.068 / 6.74)
    assert VARIANTS["full-head-exits"](regimes["wifi6"]).exit_layer_share == pytest.approx(2.34, abs=0.01)
    assert {name for name, one in regimes.items() if one.exits.assumed} == {
        name for name in regimes if name.startswith(("picospec", "dssd"))
    }


def test_a_target_without_exits_verifies_without_their_time() -> None:
    regime = without_exits(load_regimes(["fsd-go2"])["fsd-go2"])
    assert regime.verify_s() == regime.step_s
    assert comparison.synthetic_models(regime, 0).target.exits is None


def test_exits_that_are_not_read_take_no_time_of_a_verification() -> None:
    regime = load_regimes(["fsd-go2"])["fsd-go2"]
    apart = with_separate_exit_times(regime)
    assert apart.verify_s(reads_exits=False) == regime.step_s
    assert apart.verify_s() == pytest.approx(regime.verify_s())
    assert with_separate_exit_times(load_regimes(["lan"])["lan"]) == load_regimes(["lan"])["lan"]


@pytest.mark.lengthy
def test_the_table_has_every_alternative_and_the_best_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "replayed_requests", lambda *_: comparison.synthetic_requests(1, 15))
    monkeypatch.setattr(bench, "synthetic_requests", lambda texts: comparison.synthetic_requests(texts, 20))
    models = comparison.synthetic_models(load_regimes(["lan"])["lan"], seed=1)
    file = tmp_path / "figures.json"
    bench.bench_alternatives(("lan",), texts=1, json_file=file, pair=Pair(models.target, models.draft))
    conditions = json.loads(file.read_text())["conditions"]
    assert list(conditions) == ["lan, shipped pair", "lan"], "the shipped pair comes first"
    row = conditions["lan"]
    speeds = {name: one["speedup_vs_ar"] for name, one in row["strategies"].items()}
    assert speeds["ar"] == 1.0 and speeds["csd 5%"] >= speeds["csd 10%"]
    best = max(speeds[name] for name in ("ar", "sd", "fsd", "picospec", "csd 10%"))
    assert row["outrider_vs_best"]["10%"] == pytest.approx(speeds["both 10%"] / best, rel=1e-3)
    two = max(best, speeds["ssd 10%"])
    assert row["outrider_vs_two_devices"]["10%"] == pytest.approx(speeds["apart 10%"] / two, rel=1e-3)
    assert row["eagle_published"] == {"speedup": 4.44, "tokens_per_round": 6.23}
    assert conditions["lan, shipped pair"]["eagle_published"] is None
    printed = capsys.readouterr().out
    assert printed.count("speed over ar") == printed.count("GPU ms a token") == len(conditions)


def test_the_best_is_that_of_those_measured() -> None:
    found = {"sd": Standing(1.0, 1.0), "fsd": Standing(2.0, 1.0)}
    assert bench.best_of(found, measuring.PAPERS) == "fsd"


def test_a_replayed_target_can_be_without_exits() -> None:
    models = comparison.synthetic_models(load_regimes(["lan"])["lan"], seed=1)
    replayed = ReplayModel(models.target)
    bare, prompt = replayed.without_exits(), comparison.synthetic_requests(1)[0].prompt
    assert bare.exits is None and replayed.exits is not None
    asked: list[int] = []
    session = bare.open_session()
    session.prefill(prompt)
    session.forward([130], lambda exit_index, _: asked.append(exit_index))
    assert asked == []


@pytest.mark.parametrize("arguments", [["--ablate", "restart"], ["--random-regimes", "2"], ["--live"]])
def test_the_table_goes_with_no_other_kind_of_run(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["decoding", "--alternatives", *arguments])
    assert isinstance(result.exception, ConfigError)
