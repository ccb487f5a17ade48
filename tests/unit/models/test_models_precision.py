"""Weights of fewer bits: what a packed product computes, and which promises packed models keep."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from support.held import Held
from support.tiny_models import TinySize, build_tiny_model, random_prompt

from outrider.core.errors import ConfigError, ModelError
from outrider.core.model_options import PRECISIONS, Precision
from outrider.models import QwenModel, load_model
from outrider.models.checkpoint.torchao_format import check_products
from outrider.models.quantization.integers import INT4_GROUP, round_to_integers
from outrider.models.quantization.matrices import ForeignMatrix, Int4Matrix
from outrider.models.quantization.matrix_choice import pack

PACKED: tuple[Precision, ...] = ("int8", "int4")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[Precision, QwenModel]:
    """Return one model in every precision."""
    folder = build_tiny_model(tmp_path_factory.mktemp("precision") / "target", TinySize(hidden=64))
    return {precision: load_model(folder, precision=precision) for precision in PRECISIONS}


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return float((actual - expected).norm() / expected.norm())


@pytest.mark.parametrize("outputs", [16, 64, 1003])
def test_four_bits_are_packed_part_by_part_as_the_whole_is(outputs: int) -> None:
    weight = round_to_integers(torch.randn(outputs, 256, generator=torch.Generator().manual_seed(0)), 4)
    whole, at_once = Int4Matrix(weight), 2**14
    with Held(weight.values, weight.scales) as held:
        parts = Int4Matrix(weight, at_once)
    rows = torch.eye(256)
    assert torch.equal(parts.times(rows), whole.times(rows))
    assert held.most < weight.values.numel() + 12 * at_once


@pytest.mark.parametrize("precision", PACKED)
def test_integers_stand_for_the_nearest_weights(precision: Precision) -> None:
    weight = torch.randn(21, 2 * INT4_GROUP, generator=torch.Generator().manual_seed(0))
    packed = round_to_integers(weight, int(precision[3:]))
    step = packed.scales.repeat_interleave(weight.shape[1] // packed.scales.shape[1], dim=1)
    # The scales themselves are rounded to bfloat16, so the largest weight may lie a little past its integer.
    assert ((packed.dequantized() - weight).abs() <= 0.51 * step + 2.0**-8 * weight.abs()).all()
    assert packed.values.int().abs().max() == 2 ** (packed.bits - 1) - 1


@pytest.mark.parametrize("precision", PACKED)
def test_a_packed_product_is_that_of_the_integers(precision: Precision) -> None:
    seeded = torch.Generator().manual_seed(1)
    weight, rows = torch.randn(21, 64, generator=seeded), torch.randn(8, 64, generator=seeded)
    bias = torch.randn(21, generator=seeded)
    packed = pack(weight, precision)
    meant = round_to_integers(weight, int(precision[3:])).dequantized()
    assert packed.shape == (64, 21)
    assert relative_error(packed.times(rows, bias), rows @ meant.t() + bias) < 0.01
    assert torch.equal(packed.times(rows.flip(0)).flip(0), packed.times(rows))
    some = torch.tensor([0, 7, 20])
    assert relative_error(packed.columns(some), meant.t()[:, some]) < 0.01


def test_some_int4_columns_are_unpacked_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack(torch.randn(300, 64, generator=torch.Generator().manual_seed(2)), "int4")
    some = torch.tensor([290, 3, 64, 299, 3, 127])
    expected = packed.times(torch.eye(64))[:, some]
    kernel, made = torch._weight_int4pack_mm_for_cpu, []

    def watched(*operands: Any) -> torch.Tensor:
        made.append(kernel(*operands))
        return made[-1]

    monkeypatch.setattr(torch, "_weight_int4pack_mm_for_cpu", watched)
    assert torch.equal(packed.columns(some), expected)
    assert max(one.shape[1] for one in made) <= 64 and len(made) == 3


@pytest.mark.parametrize("precision", [one for one in PRECISIONS if one != "fp32"])
def test_a_packed_model_says_nearly_the_same(
    models: dict[Precision, QwenModel], precision: Precision
) -> None:
    logits = {one: models[one].open_session().prefill(random_prompt(1)) for one in ("fp32", precision)}
    likeness = torch.cosine_similarity(logits["fp32"], logits[precision], dim=0)
    assert (0.85 if precision == "int4" else 0.999) < likeness < 1.0 - 1e-7


@pytest.mark.parametrize("precision", PRECISIONS)
def test_one_token_and_a_chunk_give_the_same_bits(
    models: dict[Precision, QwenModel], precision: Precision
) -> None:
    one, chunk = models[precision].open_session(), models[precision].open_session()
    first = one.prefill(random_prompt(2))
    assert torch.equal(chunk.prefill(random_prompt(2)), first)
    token_ids = [int(first.argmax())]
    rows = []
    for _ in range(5):
        rows.append(one.forward(token_ids[-1:])[0])
        token_ids.append(int(rows[-1].argmax()))
    assert torch.equal(chunk.forward(token_ids[:5]), torch.stack(rows))


def test_an_unknown_precision_and_a_width_without_groups_are_refused(
    tiny_model_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="int8"):
        load_model(tiny_model_folder / "target", precision="fp8")  # type: ignore[arg-type]
    narrow = build_tiny_model(tmp_path / "target", TinySize(hidden=48))
    with pytest.raises(ModelError, match=f"multiples of {INT4_GROUP}"):
        load_model(narrow, precision="int4")


def test_projections_quantized_elsewhere_are_multiplied_by_their_own_modules() -> None:
    torch.manual_seed(2)
    projections = torch.nn.Linear(64, 20), torch.nn.Linear(64, 12, bias=False)
    rows, addend = torch.randn(8, 64), torch.randn(8, 32)
    foreign = ForeignMatrix(projections, 64)
    expected = torch.cat([one(rows) for one in projections], dim=1) + addend
    assert foreign.shape == (64, 32)
    assert torch.equal(foreign.times(rows, addend), expected)
    weight = torch.cat([one.weight for one in projections]).t()
    some = torch.tensor([1, 25])
    assert torch.allclose(foreign.columns(some), weight[:, some], atol=1e-5)


def test_what_another_package_cannot_multiply_here_is_refused_before_it_is_asked_to() -> None:
    class OnGpus(torch.nn.Linear):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            raise AssertionError("no CUDA")

    modules, here = torch.nn.Sequential(torch.nn.Linear(8, 8)), torch.device("cpu")
    check_products(Path("folder"), modules, here)
    modules.append(OnGpus(8, 8))
    with pytest.raises(ModelError, match=r"cannot be multiplied on cpu \(no CUDA\): choose another device"):
        check_products(Path("folder"), modules, here)


@pytest.mark.skipif(find_spec("torchao") is not None, reason="torchao is here")
def test_a_checkpoint_of_a_missing_quantizer_names_it(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "target")
    config = json.loads((folder / "config.json").read_text())
    details = {"quant_type": {"default": {"_type": "Int8WeightOnlyConfig", "_data": {}}}}
    config["quantization_config"] = {"quant_method": "torchao", "bits": 4, "group_size": 32, **details}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"(?i)quantized.*torchao"):
        load_model(folder)
