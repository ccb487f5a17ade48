"""The benchmark of published weights on toys of known acceptance."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import torch
from support.served_verifier import serving
from support.toy_models import ToyModel, ToySettings

from outrider.core.errors import ConfigError
from outrider.core.ports import ExitInfo
from outrider.core.values import DecodeRequest
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.evaluation.decoding.regimes import Regime
from outrider.evaluation.pair.speculation import ExitResult, Verification, verifications
from outrider.evaluation.weights import bench, lossless, precisions
from outrider.evaluation.weights.bench import WeightsBench
from outrider.evaluation.weights.figures import (
    acceptance_of,
    exit_prediction,
    exit_shares,
    target_texts,
    verifications_of,
)
from outrider.evaluation.weights.networks import networks
from outrider.evaluation.weights.virtual import virtual_world
from outrider.runtime.datasets.held_out import Pair
from outrider.runtime.datasets.real_prompts import asked, real_prompts, training_questions

TARGET = ToyModel(ToySettings(seed=1, eos_bias=0.0))
PAIR = Pair(TARGET, ToyModel(ToySettings(seed=1, agreement=0.6, eos_bias=0.0)))
NAMES = ["0 ms", "20 ms", "100 ms", "wifi6", "lte", "blackout"]


@pytest.fixture(autouse=True)
def seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adapts the benchmark to toys: prompts with a frame, given times, and a verifier in a thread."""
    monkeypatch.setattr(bench, "measure_compute", lambda *_: ComputeProfile(step_s=0.03))

    def few(number: int | None = None) -> list:
        return [replace(prompt, jpeg=b"\xff\xd8") for prompt in real_prompts(number or 3)]

    @contextmanager
    def toys(*_: object) -> Iterator[str]:
        with serving(VerifierService(TARGET)) as endpoint:
            yield endpoint

    for module in (bench, lossless):
        monkeypatch.setattr(module, "real_prompts", few)
        monkeypatch.setattr(module, "verifier_process", toys)
        monkeypatch.setattr(module, "load_draft", lambda _: PAIR.draft)


def verification(draft: list[int], choices: list[int], emitted: list[int], *hints: list[int]) -> Verification:
    words = [ExitResult(hint, hint, 0.5) for hint in hints]
    return Verification(draft, [token + 100 for token in draft], choices, emitted, words)


def test_acceptance_by_hand() -> None:
    shares = acceptance_of(
        [
            verification([1, 2], [1, 2, 3], [1, 2, 3]),
            verification([1, 2], [1, 102, 3], [1, 102]),
            verification([1, 2], [7, 9, 3], [7]),
        ]
    )
    assert shares.tokens_per_verification == 2.0
    assert shares.by_position == (2 / 3, 1 / 2)
    assert shares.second_choice == 1 / 2


def test_exits_by_hand() -> None:
    rounds = [
        verification([1, 2], [1, 2, 3], [1, 2, 3], [1, 9, 9], [1, 2, 3]),
        verification([1, 2], [7, 2, 3], [7], [7], [7]),
        verification([1, 2], [5, 2, 3], [5], [7], [6]),
    ]
    first, second = exit_shares(rounds, ExitInfo((2, 4), 8, torch.tensor([0])))
    assert (first.layer, first.depth, first.agreement, first.hint_agreement) == (2, 0.25, 2 / 5, 1 / 3)
    assert (second.layer, second.depth, second.agreement, second.hint_agreement) == (4, 0.5, 4 / 5, 2 / 3)
    told = exit_prediction(rounds)
    assert (told.miss_rate, told.average) == (pytest.approx(1 / 3), 1.5)


def test_rounds_found_in_a_written_text_are_those_of_decoding_it() -> None:
    exits = ToySettings(seed=1, eos_bias=0.0, exit_agreement=(0.4, 0.8))
    pair, prompt = Pair(ToyModel(exits), PAIR.draft), bench.real_prompts(1)[0]
    [text] = target_texts(pair.target, [prompt], DecodingConfig(), 40)
    found = list(verifications_of(pair, prompt, text, DecodingConfig()))
    decoded = list(verifications(pair, pair.target.exits, prompt, 4, 40))[: len(found)]
    assert len(found) > 5 and acceptance_of(found) == acceptance_of(decoded)
    assert [one.emitted for one in found] == [one.emitted for one in decoded]
    assert exit_shares(found, pair.target.exits) == exit_shares(decoded, pair.target.exits)
    assert exit_prediction(found) == exit_prediction(decoded)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_texts_written_together_are_those_of_ar(temperature: float) -> None:
    config = DecodingConfig("ar", temperature=temperature, seed=5)
    prompts, world = bench.real_prompts(3), virtual_world(networks()["0 ms"], ComputeProfile(), 0)
    alone = VirtualDecoder(TARGET, None, config, world)
    texts = [list(alone.decode(DecodeRequest(prompt, 12)).token_ids) for prompt in prompts]
    assert target_texts(TARGET, prompts, config, 12) == texts


@pytest.mark.lengthy
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_strategy_over_every_network_is_told(temperature: float, tmp_path: Path) -> None:
    file = tmp_path / "weights.json"
    told = bench.bench_weights(WeightsBench(2, 12, temperature=temperature), file, PAIR)
    assert json.loads(file.read_text())["rows"] == json.loads(json.dumps(told["rows"]))
    rows = told["rows"]
    assert [row["network"] for row in rows] == [name for name in NAMES for _ in range(6)]
    exact = {"ar", "outrider"} if temperature else {row["strategy"] for row in rows}
    assert all(row["different"] == 0 for row in rows if row["strategy"] in exact)
    entry = msgspec.convert(told["regime"], Regime)
    assert (entry.step_ms, entry.draft_token_ms, entry.exits.number) == (30.0, 5.0, 0)
    assert entry.tokens_per_round == pytest.approx(told["acceptance"]["tokens_per_verification"], abs=1e-4)
    assert entry.compute().draft_branch_s == 0.0
    with pytest.raises(ConfigError, match="ask for more tokens"):
        bench.bench_weights(WeightsBench(1, 5), None, PAIR)
    bounds = list(told["bounds_vs_ar"].values())
    assert bounds == sorted(bounds, reverse=True) and bounds[-1] >= 1.0


@pytest.mark.lengthy
def test_the_same_over_sockets_and_a_run_goes_on(tmp_path: Path) -> None:
    asked = WeightsBench(1, 8, network_names=("20 ms",))
    first = bench.bench_live(asked, tmp_path)["rows"]
    assert [(row["network"], row["strategy"]) for row in first] == [
        (name, strategy) for name in ("0 ms", "20 ms") for strategy in bench.STRATEGIES
    ]
    assert all(row["different"] == 0 and row["tokens"] == 8 for row in first)
    kept = tmp_path / "texts.jsonl"
    lines = kept.read_bytes().split(b"\n")
    kept.write_bytes(b"\n".join(lines[:4]) + b'\n{"key":["20 ms"')  # a line cut off by a kill
    again = bench.bench_live(asked, tmp_path)["rows"]
    assert [row["bytes_down_per_token"] for row in again[:3]] == [
        row["bytes_down_per_token"] for row in first[:3]
    ]
    assert len(kept.read_bytes().splitlines()) == 13
    with pytest.raises(ConfigError, match="choose another folder"):
        bench.bench_live(WeightsBench(1, 9), tmp_path)
    with pytest.raises(ConfigError, match="no network 5g"):
        bench.bench_live(WeightsBench(1, 9, network_names=("5g",)))


@pytest.mark.lengthy
def test_texts_are_counted_that_differ_from_those_of_the_target_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = lossless.evaluate_weights(5, 8, run=tmp_path)
    assert (told["texts"], told["different"], told["lossless"]) == (15, 0, True)
    path = tmp_path / "texts.jsonl"
    head, first, *rest = path.read_text().splitlines(keepends=True)
    other = first.replace('"token_ids":[', '"token_ids":[0,')
    path.write_text("".join([head, other, *rest]))
    told = lossless.evaluate_weights(5, 8, run=tmp_path)
    assert (told["different"], told["lossless"]) == (3, False)
    assert [one["first_differences"] for one in told["networks"]] == [[0]] * 3


def test_the_networks_outages_come_again() -> None:
    world = virtual_world(networks()["blackout"], ComputeProfile(), 0)
    assert [world.is_up(at_s, at_s) for at_s in (9.0, 11.0, 14.0, 31.0, 2011.0)] == [1, 0, 1, 0, 0]


def test_prompts_of_both_kinds_come_in_turn_and_no_more_than_there_are() -> None:
    coding, household = (prompt.text for prompt in real_prompts(2))
    assert "reverses the words" in coding and "water the plants" in household
    assert len({prompt.text for prompt in real_prompts()}) == 48
    with pytest.raises(ConfigError, match="choose 1 to 48"):
        real_prompts(49)


def test_no_prompt_that_exits_are_trained_on_is_measured() -> None:
    assert not set(map(asked, training_questions())) & set(real_prompts())


def test_precisions_are_compared_by_what_their_drafts_yield(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[str] = []
    drafts = {"bf16": 0.9, "int8": 0.9, "int4": 0.0}

    def target(size: str, precision: str, sessions: int) -> ToyModel:
        loads.append(precision)
        return TARGET

    def draft(precision: str) -> ToyModel:
        loads.append(precision)
        return ToyModel(ToySettings(seed=1, agreement=drafts[precision], eos_bias=0.0))

    monkeypatch.setattr(precisions, "load_target", target)
    monkeypatch.setattr(precisions, "load_draft", draft)
    monkeypatch.setattr(precisions, "real_prompts", bench.real_prompts)
    rows = precisions.evaluate_precisions(3, 20, run=tmp_path)["rows"]
    relative = {(row["target"], row["draft"]): row["relative"] for row in rows}
    assert relative["bf16", "bf16"] == relative["int4", "int8"] == 1.0
    assert relative["bf16", "int4"] < 0.5
    again = precisions.evaluate_precisions(3, 20, run=tmp_path)["rows"]
    assert again == rows and loads == ["bf16", "int8", "int4"] * 2
    drawn = precisions.evaluate_precisions(3, 20, temperature=1.0, run=tmp_path)
    assert drawn["temperature"] == 1.0 and drawn["rows"] != rows and len(loads) == 12
