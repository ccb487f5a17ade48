"""Checkpoints quantized by torchao and saved by transformers; needs the extra `quantized`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.tiny_models import TinySize, build_tiny_model, random_prompt
from transformers import TorchAoConfig

from outrider.core.errors import ModelError
from outrider.core.model_options import PRECISIONS, Precision
from outrider.models import QwenModel, ReferenceGenerator, load_graph_model, load_model
from outrider.models.checkpoint.architectures import ARCHITECTURES
from outrider.models.checkpoint.card import read_json
from outrider.models.quantization.matrices import ForeignMatrix

quantization = pytest.importorskip("torchao.quantization")

TOKENS = [30, 31, 32, 33, 34]
SCHEMES = {
    "int8": lambda: quantization.Int8WeightOnlyConfig(),
    "int4, a byte each": lambda: quantization.IntxWeightOnlyConfig(weight_dtype=torch.int4),
}


def write(
    folder: Path,
    scheme: Any,
    dtype: torch.dtype,
    version: str = "2",
    change: Callable[[Any], None] = lambda modules: None,
) -> Path:
    """Write a random model in `dtype`, quantized, with its tokenizer next to it; return its folder."""
    whole = build_tiny_model(folder / "whole", TinySize(hidden=128, version=version))
    architecture = ARCHITECTURES[read_json(whole / "config.json")["model_type"]].modules
    quantized = TorchAoConfig(scheme)
    modules = architecture.from_pretrained(whole, dtype=dtype, quantization_config=quantized)
    change(modules)
    modules.save_pretrained(folder / "stored")
    return folder / "stored"


def rows_of(model: QwenModel) -> torch.Tensor:
    session = model.open_session()
    return torch.cat([session.prefill(random_prompt(1))[None], session.forward(TOKENS)])


@pytest.mark.parametrize("version", ["2", "2.5", "3"])
@pytest.mark.parametrize("name", SCHEMES)
def test_it_says_what_transformers_says_of_the_same_file(name: str, version: str, tmp_path: Path) -> None:
    folder = write(tmp_path, SCHEMES[name](), torch.float32, version)
    model = load_model(folder)
    assert {type(layer.down) for layer in model.text.layers} == {ForeignMatrix}
    rows = rows_of(model)
    assert torch.allclose(rows, ReferenceGenerator(folder).rows(random_prompt(1), TOKENS), atol=1e-3)
    assert not torch.allclose(rows, rows_of(load_model(tmp_path / "whole")), atol=0.1)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", SCHEMES)
def test_weights_in_bfloat16_run_beside_any_precision(
    name: str, precision: Precision, tmp_path: Path
) -> None:
    folder = write(tmp_path, SCHEMES[name](), torch.bfloat16)
    model = load_model(folder, precision=precision)
    rows = rows_of(model)
    wanted = ReferenceGenerator(folder).rows(random_prompt(1), TOKENS)
    assert torch.cosine_similarity(rows, wanted).min() > 0.98
    session = model.open_session()
    session.prefill(random_prompt(1))
    assert torch.equal(torch.cat([session.forward([token]) for token in TOKENS]), rows[1:])


def test_what_only_a_gpu_multiplies_is_refused_on_a_cpu(tmp_path: Path) -> None:
    """A weight of torchao's own 4-bit type."""

    def pack(modules: Any) -> None:
        for layer in modules.model.language_model.layers:
            rows, columns = layer.mlp.up_proj.weight.shape
            scales = torch.ones(columns // 32, rows, dtype=torch.bfloat16)
            packed = torch.zeros(rows, columns // 2, dtype=torch.int8)
            weight = quantization.Int4Tensor(packed, scales, scales.clone(), [1, 32], (rows, columns))
            layer.mlp.up_proj.weight = torch.nn.Parameter(weight, requires_grad=False)

    folder = write(tmp_path, SCHEMES["int8"](), torch.bfloat16, change=pack)
    with pytest.raises(ModelError, match=r"torchao's Int4Tensor, which cannot be multiplied on cpu"):
        load_model(folder)


def test_static_graphs_refuse_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ModelError, match="torchao checkpoints run eagerly"):
        load_graph_model(write(tmp_path, SCHEMES["int8"](), torch.float32))
