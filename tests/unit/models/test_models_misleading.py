"""Checkpoints that load but would not compute what their model computes: refused, with what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.text_models import PROMPT, build_text_model
from support.tiny_models import TinySize, build_tiny_model, random_prompt

from outrider.core.errors import ModelError
from outrider.core.model_options import PRECISIONS
from outrider.core.values import Prompt
from outrider.models import ReferenceGenerator, check_model, load_model
from outrider.models.checkpoint.card import read_json
from outrider.models.checkpoint.files import is_whole

ASKED = Prompt(PROMPT, b"")
DOWN = "model.layers.0.mlp.down_proj.weight"
Weights = dict[str, torch.Tensor]


def change_weights(folder: Path, change: Callable[[Weights], Weights]) -> None:
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, {"format": "pt"})


def change_json(path: Path, **keys: Any) -> None:
    content = json.loads(path.read_text()) | keys
    path.write_text(json.dumps(content))


def scaled(dtype: torch.dtype, largest: float) -> Callable[[Weights], Weights]:
    return lambda weights: weights | {DOWN: (weights[DOWN] / weights[DOWN].abs().max() * largest).to(dtype)}


def beside(name: str) -> Callable[[Weights], Weights]:
    return lambda weights: weights | {name: torch.ones(2, 2)}


LEFT = [
    (scaled(torch.float8_e4m3fn, 448.0), "down_proj.weight of the type F8_E4M3"),
    (scaled(torch.int8, 127.0), "down_proj.weight of the type I8"),
    (beside(f"{DOWN}_scale"), "down_proj.weight_scale beside"),
    (beside(f"{DOWN}.absmax"), "down_proj.weight.absmax beside"),
    (beside(DOWN.replace("weight", "SCB")), "down_proj.SCB beside"),
    (beside(DOWN.replace("weight", "lora_A.default.weight")), "lora_A.default.weight beside"),
    (beside(DOWN.replace("weight", "base_layer.weight")), "base_layer.weight beside"),
    (beside("lm_head.weight_scale"), "lm_head.weight_scale beside"),
]


@pytest.mark.parametrize(("change", "found"), LEFT, ids=[found for _, found in LEFT])
def test_what_a_quantizer_or_an_adapter_has_left_is_named(tmp_path: Path, change: Any, found: str) -> None:
    folder = build_text_model(tmp_path / "model")
    change_weights(folder, change)
    with pytest.raises(ModelError, match=f"{found}.*config.json names none; choose"):
        load_model(folder)


def test_tensors_of_no_module_change_nothing(tmp_path: Path) -> None:
    folder = build_text_model(tmp_path / "model")
    change_weights(folder, beside("model.layers.0.self_attn.rotary_emb.inv_freq"))
    row = load_model(folder).open_session().prefill(ASKED)
    torch.testing.assert_close(row, ReferenceGenerator(folder).rows(ASKED, [])[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"compression_config": {"format": "pack-quantized"}}, "quantized by compressed-tensors"),
        ({"architectures": ["Qwen2ForSequenceClassification"]}, "only Qwen2ForCausalLM is run: choose"),
        ({"architectures": 3}, "architectures is 3, and of Qwen2 only"),
        ({"model_type": {}}, "is of model_type {}, not one of"),
        ({"architectures": ["Qwen2Model"]}, "only Qwen2ForCausalLM is run"),
        ({"is_causal": False}, "is_causal is False; only True can be run: choose"),
        (
            {"rope_parameters": {"rope_type": "default", "rope_theta": -1.0}},
            "rope_theta is -1.0, and must be",
        ),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": "1e6"}}, "rope_theta is '1e6', and must"),
        ({"dtype": "auto"}, "dtype is 'auto', and must be one of bfloat16,"),
        ({"torch_dtype": "torch.bfloat16"}, "torch_dtype is 'torch.bfloat16', and must be one of"),
        ({"dtype": 16}, "dtype is 16, and must be one of"),
        ({"dtype": "int8"}, "dtype is 'int8', and must be one of"),
    ],
)
def test_a_configuration_of_another_kind_of_model_is_refused(
    tmp_path: Path, keys: dict[str, Any], reason: str
) -> None:
    folder = build_text_model(tmp_path / "model")
    change_json(folder / "config.json", **keys)
    with pytest.raises(ModelError, match=reason):
        check_model(folder)


@pytest.mark.parametrize(
    ("part", "keys", "reason"),
    [
        ("text_config", {"rope_parameters": {"mrope_section": [9, 9, 9]}}, "mrope_section is"),
        ("vision_config", {"deepstack_visual_indexes": [0, 0]}, "names a layer twice"),
        ("vision_config", {"num_heads": 16}, "num_heads is 16, which does not part 16 into heads"),
    ],
)
def test_what_cannot_be_run_is_known_before_a_weight_is_read(
    tmp_path: Path, part: str, keys: dict[str, Any], reason: str
) -> None:
    build_tiny_model(tmp_path / "model", TinySize(version="3"))
    path = tmp_path / "model" / "config.json"
    content = json.loads(path.read_text())
    for key, value in keys.items():
        old = content[part].get(key)
        content[part][key] = old | value if isinstance(old, dict) else value
    path.write_text(json.dumps(content))
    with pytest.raises(ModelError, match=reason):
        check_model(tmp_path / "model")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("version", ["2", "2.5", "3"])
@pytest.mark.parametrize(("part", "name"), [("vision_config", "depth"), ("text_config", "num_hidden_layers")])
def test_more_layers_than_weights_are_not_made(tmp_path: Path, version: str, part: str, name: str) -> None:
    folder = build_tiny_model(tmp_path / "model", TinySize(version=version))
    content = json.loads((folder / "config.json").read_text())
    content[part][name] = 2**62
    content["text_config"].pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match=r"names 46\d+ layers, and there are \d+ weights"):
        check_model(folder)


@pytest.mark.parametrize(
    ("version", "part"), [("2", "text"), ("2", "vision"), ("3", "text"), ("3", "vision")]
)
def test_layers_are_not_left_out(tmp_path: Path, version: str, part: str) -> None:
    folder = build_tiny_model(tmp_path / "model", TinySize(version=version))
    content = json.loads((folder / "config.json").read_text())
    fewer = {"text": {"num_hidden_layers": 1, "layer_types": None}, "vision": {"depth": 1}}[part]
    content[f"{part}_config"] |= fewer
    change_json(folder / "config.json", **content)
    with pytest.raises(
        ModelError, match=r"names 1 (layers|blocks), and the weights have .*\.1\..*restore both"
    ):
        load_model(folder)


@pytest.mark.parametrize("name", ["qwen2", "", 3])
def test_the_language_half_is_that_of_its_model_whatever_it_is_called(tmp_path: Path, name: object) -> None:
    folder = build_tiny_model(tmp_path / "model")
    before = load_model(folder).open_session().prefill(random_prompt(1))
    content = json.loads((folder / "config.json").read_text())
    content["text_config"]["model_type"] = name
    (folder / "config.json").write_text(json.dumps(content))
    assert torch.equal(load_model(folder).open_session().prefill(random_prompt(1)), before)


def test_weights_keep_their_own_type_whatever_the_configuration_says(tmp_path: Path) -> None:
    """The type float16 of the configuration would turn these weights into infinities."""
    folder = build_text_model(tmp_path / "model")
    change_weights(folder, lambda weights: {n: w.bfloat16() for n, w in weights.items()})
    change_weights(folder, lambda weights: weights | {DOWN: weights[DOWN] * 1e6})
    change_json(folder / "config.json", dtype="float16")
    for precision in PRECISIONS:
        if precision != "int4":
            assert load_model(folder, precision=precision).open_session().prefill(ASKED).isfinite().all()


@pytest.mark.parametrize("name", ["<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"])
def test_a_tokenizer_without_a_prompts_markup_is_refused(tmp_path: Path, name: str) -> None:
    build_tiny_model(tmp_path / "model")
    path = tmp_path / "tokenizer" / "tokenizer.json"
    path.write_text(path.read_text().replace(name, "<|other|>"))
    with pytest.raises(ModelError, match=rf"has no token '{name}'".replace("|", r"\|")):
        load_model(tmp_path / "model")


def test_a_tokenizer_whose_picture_token_is_another_is_refused(tmp_path: Path) -> None:
    build_tiny_model(tmp_path / "model")
    change_json(tmp_path / "model" / "config.json", image_token_id=7)
    with pytest.raises(ModelError, match="is token 5 of its tokenizer, and 7 by its configuration: use the"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "../tokenizer/tokenizer.json"])
def test_a_pointer_of_git_lfs_is_known(tmp_path: Path, name: str) -> None:
    folder = build_text_model(tmp_path / "model")
    (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1f\nsize 7031645\n")
    with pytest.raises(ModelError, match=r"is a Git LFS pointer, .*run `git lfs pull`"):
        load_model(folder)


def without_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def as_adapter(folder: Path) -> None:
    without_config(folder)
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text("{}")


def one_deeper(folder: Path) -> None:
    files = list(folder.iterdir())
    (folder / "inner").mkdir()
    for path in files:
        path.rename(folder / "inner" / path.name)


def as_hub_cache(folder: Path) -> None:
    files = list(folder.iterdir())
    (folder / "snapshots" / "6f1c").mkdir(parents=True)
    for path in files:
        path.rename(folder / "snapshots" / "6f1c" / path.name)


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        (without_config, r"config\.json is missing\. Restore the model folder"),
        (as_adapter, "holds a LoRA adapter alone, .* merge it"),
        (one_deeper, r"give the folder .*/inner$"),
        (as_hub_cache, r"is the Hub's cache .* give owner/name, or .*/snapshots/6f1c$"),
    ],
)
def test_a_folder_without_a_configuration_says_what_it_has(tmp_path: Path, change: Any, advice: str) -> None:
    folder = build_text_model(tmp_path / "models--owner--name")
    change(folder)
    with pytest.raises(ModelError, match=advice):
        load_model(folder)


def test_the_command_that_converts_a_pickle_is_for_its_kind_of_model(tmp_path: Path) -> None:
    text, seeing = build_text_model(tmp_path / "text" / "model"), tmp_path / "seeing" / "model"
    build_tiny_model(seeing)
    for folder, wanted in ((text, "AutoModelForCausalLM"), (seeing, "AutoModelForImageTextToText")):
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        with pytest.raises(ModelError, match=f"import {wanted} as M"):
            load_model(folder)


@pytest.mark.parametrize("missing", ["tokenizer.json", "generation_config.json", "preprocessor_config.json"])
def test_a_cached_checkpoint_is_whole_with_all_its_files(tmp_path: Path, missing: str) -> None:
    folder = tmp_path / "model"
    build_tiny_model(folder)
    for name in ("tokenizer.json", "preprocessor_config.json"):
        (folder / name).write_text("{}")
    assert is_whole(folder)
    (folder / missing).unlink()
    assert not is_whole(folder)


@pytest.mark.parametrize("name", ["card.json", "config.json"])
def test_json_that_is_too_deep_to_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("[" * 100_000)
    with pytest.raises(ModelError, match=f"{name} cannot be read as JSON"):
        read_json(tmp_path / name)
