"""Qwen3-VL: the results of transformers in each runtime, precision and strategy; relatives refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from support.captured import stand_in_for_cuda
from support.tiny_models import TinySize, add_exits, build_tiny_model, random_jpeg, random_prompt
from transformers import Qwen3VLConfig
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from outrider.core.errors import ModelError
from outrider.core.model_options import Precision
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.models import QwenModel, ReferenceGenerator, load_exact_model, load_graph_model, load_model
from outrider.models.backbone import cuda_graph_steps
from outrider.models.backbone.mrope import axes_in_turn
from outrider.models.checkpoint.preprocessor_config import read_preprocessing
from outrider.models.inputs.images import decode_jpeg, fit_to_model, patchify
from outrider.models.session import PREFILL_ROWS
from outrider.runtime.wiring.decoders import local_decoder

SIZE = TinySize(hidden=64, layers=3, vision=32, vision_layers=3, version="3", head_dim=32)
"""Heads wider than their share of the hidden width, and features for the first two decoder layers."""
TOKENS = [9, 30, 31, 7, 55, 120, 4]
PROMPTS = {
    "a picture": random_prompt(1),
    "a wide picture": Prompt(random_prompt(2).text, random_jpeg(3, width=900, height=300)),
    "words alone": Prompt("find the cup", b""),
}
"""The wide picture has more tokens than one part of a prompt holds."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a target with exits, and a draft."""
    place = tmp_path_factory.mktemp("qwen3-vl")
    build_tiny_model(place / "draft", TinySize(version="3", head_dim=16, layers=1), seed=1)
    add_exits(build_tiny_model(place / "target", SIZE), (1, 2), torch.arange(5, 90))
    return place


@pytest.fixture(scope="module")
def target(folder: Path) -> QwenModel:
    return load_model(folder / "target")


def rows_of(model: QwenModel, prompt: Prompt) -> torch.Tensor:
    session = model.open_session()
    return torch.cat([session.prefill(prompt)[None], session.forward(TOKENS)])


def wanted_rows(folder: Path, prompt: Prompt) -> torch.Tensor:
    return ReferenceGenerator(folder / "target").rows(prompt, TOKENS)


@pytest.mark.parametrize("name", ["a picture", "a wide picture"])
def test_its_logits_are_those_of_transformers(folder: Path, target: QwenModel, name: str) -> None:
    prompt = PROMPTS[name]
    assert torch.allclose(rows_of(target, prompt), wanted_rows(folder, prompt), atol=1e-4, rtol=1e-4)
    num_tokens = target.vision.count_tokens(prompt.jpeg)
    assert (num_tokens > PREFILL_ROWS) == (name == "a wide picture")


@pytest.mark.parametrize(("precision", "least"), [("bf16", 0.998), ("int8", 0.998), ("int4", 0.998)])
def test_packed_weights_say_what_their_integers_stand_for(
    folder: Path, precision: Precision, least: float
) -> None:
    rows = rows_of(load_model(folder / "target", precision=precision), PROMPTS["a picture"])
    twin = rows_of(load_exact_model(folder / "target", precision), PROMPTS["a picture"])
    assert torch.cosine_similarity(rows, twin).mean() > least


@pytest.mark.parametrize("name", PROMPTS)
def test_a_rollback_and_a_shared_prompt_give_equal_bits(target: QwenModel, name: str) -> None:
    first, second = target.open_session(), target.open_session()
    for session in (first, second):
        session.prefill(PROMPTS[name])
    length, rows = first.length, first.forward(TOKENS)
    second.forward([99, 98, 97])
    second.truncate(length)
    assert torch.equal(second.forward(TOKENS), rows)
    alone = torch.cat(_one_by_one(target, PROMPTS[name]))
    assert torch.equal(alone, rows)


def _one_by_one(model: QwenModel, prompt: Prompt) -> list[torch.Tensor]:
    session = model.open_session()
    session.prefill(prompt)
    return [session.forward([token_id]) for token_id in TOKENS]


@pytest.mark.parametrize(
    ("strategy", "temperature"), [*((one, 0.0) for one in STRATEGIES), ("outrider", 0.8)]
)
def test_every_strategy_writes_the_targets_own_text(
    folder: Path, target: QwenModel, strategy: str, temperature: float
) -> None:
    draft = load_model(folder / "draft", role="draft")
    request = DecodeRequest(PROMPTS["a picture"], 20, 600.0)
    own = local_decoder(target, None, DecodingConfig(strategy="ar", temperature=temperature, seed=4))
    config = DecodingConfig(strategy=strategy, num_draft_tokens=4, temperature=temperature, seed=4)
    decoder = local_decoder(target, None if strategy == "ar" else draft, config)
    assert decoder.decode(request).token_ids == own.decode(request).token_ids


@pytest.mark.lengthy
@pytest.mark.parametrize("precision", ["fp32", "int4"])
@pytest.mark.parametrize("name", ["a picture", "a wide picture"])
@pytest.mark.usefixtures("graph_cache")
def test_static_graphs_say_what_their_eager_twin_says(folder: Path, precision: Precision, name: str) -> None:
    graphs = load_graph_model(folder / "target", precision=precision, max_length=1024)
    session = graphs.open_session()
    rows = torch.cat([session.prefill(PROMPTS[name])[None], session.forward(TOKENS)])
    twin = load_exact_model(folder / "target", precision)
    twin.vision = graphs.vision
    assert torch.allclose(rows, rows_of(twin, PROMPTS[name]), atol=1e-3, rtol=1e-3)


def test_captured_steps_say_what_plain_ones_say(target: QwenModel, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in_for_cuda(monkeypatch)
    monkeypatch.setattr(cuda_graph_steps, "DirectLauncher", cuda_graph_steps.GraphLauncher)
    parts = target.name, target.tokenizer, target.text, target.vision, target.max_length, target.card
    stepped = QwenModel(*parts, target.exit_heads, static_steps=True)
    prompt = PROMPTS["a picture"]
    assert torch.allclose(rows_of(stepped, prompt), rows_of(target, prompt), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "model_type", ["qwen3_vl_moe", "qwen3_5", "qwen3_omni_moe", "qwen3", "llava", None, 3]
)
def test_relatives_are_refused_with_what_can_be_run(tmp_path: Path, model_type: object) -> None:
    folder = build_tiny_model(tmp_path / "target", TinySize(version="3"))
    content = json.loads((folder / "config.json").read_text()) | {"model_type": model_type}
    (folder / "config.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match=rf"model_type {model_type!r}, not one of .*'qwen3_vl'.*Qwen3-VL"):
        load_model(folder)


@pytest.mark.parametrize(
    ("part", "name", "value", "said"),
    [
        ("text_config", "attention_bias", True, "attention_bias is True; only False"),
        ("vision_config", "patch_size", [16, 16], r"patch_size is \[16, 16\], and must be one number"),
        ("text_config", "head_dim", 0, "head_dim is 0, and must be at least 1"),
        ("vision_config", "deepstack_visual_indexes", [0, 1, 2], "q_norm|deepstack_merger_list"),
    ],
)
def test_what_cannot_be_run_is_named(
    folder: Path, tmp_path: Path, part: str, name: str, value: object, said: str
) -> None:
    copy = build_tiny_model(tmp_path / "target", SIZE)
    content = json.loads((copy / "config.json").read_text())
    content[part][name] = value
    (copy / "config.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match=said):
        load_model(copy)


def test_the_published_section_gives_time_row_and_column_their_pairs_in_turn() -> None:
    axes = axes_in_turn([24, 20, 20]).tolist()
    assert axes == [0, 1, 2] * 20 + [0] * 4


@pytest.mark.parametrize(("width", "height"), [(64, 48), (280, 168), (640, 480), (1280, 720), (200, 900)])
def test_pictures_become_what_the_published_processor_makes_of_them(
    tmp_path: Path, width: int, height: int
) -> None:
    edges = {"shortest_edge": 65_536, "longest_edge": 16_777_216}
    published = {"size": edges, "patch_size": 16, "merge_size": 2, "temporal_patch_size": 2}
    published |= {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(published))
    how = read_preprocessing(tmp_path, Qwen3VLConfig(), 100_000)
    rgb = fit_to_model(decode_jpeg(random_jpeg(1, width=width, height=height)), how)
    processor = Qwen2VLImageProcessorPil.from_pretrained(tmp_path)
    made = processor(images=[np.asarray(rgb)], return_tensors="np")
    assert made["image_grid_thw"].tolist() == [[1, rgb.shape[0] // 16, rgb.shape[1] // 16]]
    np.testing.assert_allclose(patchify(rgb, how), made["pixel_values"], atol=1e-5)
    (tmp_path / "preprocessor_config.json").unlink()
    without = read_preprocessing(tmp_path, Qwen3VLConfig(), 100_000)
    assert (without.min_pixels, without.max_pixels, without.mean) == (65_536, 16_777_216, (0.5, 0.5, 0.5))
