"""The benchmark of the models, with tiny ones: what it reports, not how fast they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.captured import stand_in_for_cuda
from support.gpu_product import stand_in_for_the_kernels
from support.tiny_models import TinySize, add_exits, build_tiny_model, build_tiny_pair, random_prompt

from outrider.core.errors import ConfigError
from outrider.core.model_options import PRECISIONS, Precision
from outrider.evaluation.common.ratios import Ratio
from outrider.evaluation.models import bench as bench
from outrider.evaluation.models import onnx_ratios as graphs
from outrider.evaluation.models.onnx_ratios import GraphTrial, graph_trial
from outrider.evaluation.models.random_weights import Widths
from outrider.evaluation.models.step_trial import (
    PACKED_PRECISIONS,
    packed_ratios,
    packed_verifies,
    packed_verify_seconds,
    step_ratios,
    step_trial,
)
from outrider.models import ReferenceGenerator, load_model
from outrider.models.backbone import cuda_graph_steps
from outrider.models.quantization import matrix_choice
from outrider.runtime.datasets.held_out import Pair


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = build_tiny_pair(tmp_path_factory.mktemp("bench"))
    build_tiny_model(folder / "draft", TinySize(hidden=32, layers=1), seed=1)
    add_exits(folder / "target", (1,), torch.arange(20))
    return folder


def test_the_reference_says_what_the_runtime_says(folder: Path) -> None:
    prompt, count = random_prompt(1), 12
    session = load_model(folder / "target").open_session()
    token_ids = [int(session.prefill(prompt).argmax())]
    while len(token_ids) < count:
        token_ids.append(int(session.forward(token_ids[-1:])[0].argmax()))
    end_ids = load_model(folder / "target").end_ids
    assert end_ids.isdisjoint(token_ids), "the reference is told not to end"
    assert ReferenceGenerator(folder / "target").generate(prompt, count) == token_ids


@pytest.mark.lengthy
def test_a_draft_that_is_its_target_is_accepted_whole(folder: Path) -> None:
    target = load_model(folder / "target")
    drafting = bench.measure_drafting(Pair(target, target), "fp32", [random_prompt(1)])
    assert drafting.accepted == bench.NUM_DRAFT_TOKENS
    other = bench.measure_drafting(Pair(target, load_model(folder / "draft")), "fp32", [random_prompt(1)])
    assert other.accepted < bench.NUM_DRAFT_TOKENS


def test_int8_is_held_to_its_share_of_fp32() -> None:
    def ratio(accepted: float) -> Ratio:
        drafts = [bench.Drafting("fp32", 10, 3.0, 1.0), bench.Drafting("int8", 10, accepted, 1.0)]
        return bench.precision_ratios(drafts)[0]

    assert ratio(2.9).is_within_bound and ratio(2.9).value == pytest.approx(2.9 / 3.0)
    assert not ratio(2.8).is_within_bound


@pytest.mark.lengthy
def test_graphs_are_compared_with_their_integers_and_with_the_eager_draft(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))
    prompts = [random_prompt(1), random_prompt(2)]
    in_float32, eager = graphs.graph_agreement(folder / "draft", prompts)
    assert in_float32.what == "static graphs choose as their integers do in float32"
    assert (in_float32.value, in_float32.detail) == (1.0, "64 of 64 tokens")
    assert eager.what == "static graphs choose a best token of the eager int4 draft" and eager.value > 0.5


def test_of_tokens_that_the_eager_draft_holds_alike_any_is_its_best(monkeypatch: pytest.MonkeyPatch) -> None:
    def ratios(*choices: graphs.Choice) -> list[tuple[float, str]]:
        monkeypatch.setattr(graphs, "compare_choices", lambda folder, prompts: choices)
        return [(one.value, one.detail) for one in graphs.graph_agreement(Path(), [])]

    same = graphs._choice(*torch.tensor([[0.0, 2.0, 1.0]] * 3))
    tied = graphs._choice(*torch.tensor([[1.9, 2.0, 1.0], [1.9, 2.0, 1.0], [2.0, 2.0, 1.0]]))
    assert (tied.graphs, tied.in_float32, tied.eager, tied.is_best) == (1, 1, 0, True)
    assert (tied.gap, tied.difference) == (pytest.approx(0.1), pytest.approx(0.1))
    other = graphs._choice(*torch.tensor([[1.5, 2.0, 1.0], [1.5, 2.0, 1.0], [2.1, 2.0, 1.0]]))
    why = "it takes another, with gaps to"
    assert ratios(same, same, same, tied) == [
        (1.0, "4 of 4 tokens"),
        (1.0, f"4 of 4 tokens; of 1 {why} 0.100 where logits differ by 0.000"),
    ]
    assert ratios(same, tied, other)[1:] == [
        (pytest.approx(2 / 3), f"2 of 3 tokens; of 2 {why} 0.500 where logits differ by 0.100"),
    ]
    astray = graphs._choice(*torch.tensor([[2.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 2.0, 1.0]]))
    assert ratios(same, astray) == [
        (0.5, "1 of 2 tokens"),
        (0.5, f"1 of 2 tokens; of 1 {why} 0.000 where logits differ by 0.000"),
    ]


@pytest.mark.lengthy
def test_a_trial_of_graphs_loads_each_block_and_measures_memory() -> None:
    trial = graph_trial(2, 300, repeats=1, widths=Widths(128, 256, 1, 1))
    assert trial.loaded_s > 0.0 and trial.waited_s >= 0.0
    assert trial.plain_mb > 0.0 and trial.switching_mb > 0.0
    assert trial.plain_s > 0.0 and trial.switching_s > 0.0


@pytest.mark.lengthy
def test_a_gpus_figures_are_read_from_its_captured_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that `--device cuda` runs and prints, except the GPU itself."""
    stand_in_for_cuda(monkeypatch)
    monkeypatch.setattr(cuda_graph_steps, "DirectLauncher", cuda_graph_steps.GraphLauncher)
    trial = step_trial("cpu", 3, 200, 2, Widths(128, 256, 2, 1, vocab_size=300))
    assert trial.same_bits and trial.crowd == 2
    assert trial.weights_s == pytest.approx(trial.weights_gb / trial.copy_gb_s)
    on_gpu = replace(
        trial, device="cuda", weights_s=2.0, exits_s=2.6, exits_ratio=1.04, crowd_s=5.3, host_s=0.0004
    )
    by_name = {one.what: (one.value, one.is_within_bound) for one in step_ratios(on_gpu)}
    assert by_name == {
        "verify with exits over without, 3 layers of 7B on cuda": (pytest.approx(1.04), True),
        "its bits: as one token, in a chunk, in a crowd": (1.0, True),
        "verify of 5 over reading the weights": (pytest.approx(1.3), True),
        "verify of a crowd over one robot's": (pytest.approx(5.3 / 2.6), False),
        "host's part of a verify, ms": (pytest.approx(0.4), True),
    }


@pytest.mark.lengthy
@pytest.mark.parametrize("precision", PACKED_PRECISIONS)
def test_a_verification_by_fewer_bits_is_set_against_one_in_bf16(
    precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_for_cuda(monkeypatch)
    stand_in_for_the_kernels(monkeypatch)
    monkeypatch.setattr(cuda_graph_steps, "DirectLauncher", cuda_graph_steps.GraphLauncher)
    monkeypatch.setitem(matrix_choice.PACKED, "cpu", matrix_choice.PACKED["cuda"])
    widths = Widths(128, 256, 2, 1, vocab_size=300)
    assert packed_verify_seconds("cpu", precision, 2, 200, 2, widths) > 0.0
    trial = replace(step_trial("cpu", 3, 200, 2, widths), device="cuda", plain_s=0.004)
    (ratio,) = packed_ratios({precision: 0.003}, trial)
    assert ratio.what == f"verify in {precision} over bf16, 3 layers of 7B on cuda"
    assert (ratio.value, ratio.is_within_bound, ratio.detail) == (
        pytest.approx(0.75),
        True,
        "3.00 against 4.00 ms",
    )
    assert packed_verifies("cpu", 3) == {}


def test_a_device_that_is_not_there_is_refused_before_anything_is_measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(bench, "load_pair", lambda models: pytest.fail("models are read"))
    with pytest.raises(ConfigError, match="no CUDA device"):
        bench.bench_models(1, 3, folder, device="cuda")


@pytest.mark.lengthy
def test_figures_and_pictures_are_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "held_out_prompts", lambda frames, seed: [random_prompt(seed)] * frames)
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    trial = GraphTrial(2, 1000, 1.0, 1.05, 0.2, 0.1, 100.0, 109.0)
    monkeypatch.setattr(bench, "graph_trial", lambda num_layers: trial)
    step = step_trial("cpu", 3, 200, 2, Widths(128, 256, 2, 1, vocab_size=300))
    monkeypatch.setattr(bench, "step_trial", lambda device, num_layers: step)
    bench.bench_models(1, 3, folder, tmp_path / "models.json", tmp_path / "plots")
    figures = json.loads((tmp_path / "models.json").read_text())
    assert {one["precision"] for one in figures["drafts"]} == set(PRECISIONS)
    assert all(one["value"] > 0.0 for one in figures["ratios"])
    kept = {one["what"]: one["kept"] for one in figures["ratios"]}
    assert kept["peak memory while switching over one graph"]
    assert not kept["graph loading hidden, 1000 tokens, 2 layers of 2B"]
    assert figures["target_step"]["num_exits"] == 2
    assert (tmp_path / "plots" / "models.png").stat().st_size > 1000
