"""Checkpoints that AWQ and GPTQ have quantized, packed here from the formats' definitions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.tiny_models import TinySize, build_tiny_model, random_prompt
from torch import Tensor

from outrider.core.errors import ModelError
from outrider.core.model_options import Precision
from outrider.core.ports import Chunk
from outrider.models import QwenModel, ReferenceGenerator, load_exact_model, load_graph_model, load_model
from outrider.models.checkpoint.awq_gptq import StoredFormat, _order, integer_weight
from outrider.models.footprint.footprint import bytes_needed
from outrider.models.quantization.matrices import DenseMatrix, Int4Matrix, JoinedMatrix

SIZE = TinySize(hidden=128, layers=2, vision_layers=1, spare_rows=0)
AWQ_NIBBLES = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclass(frozen=True)
class Scheme:
    """How a test's checkpoint is quantized. `keeps`: a module that is not quantized."""

    method: str
    bits: int = 4
    group_size: int = 32
    sym: bool = False
    desc_act: bool = False
    form: str = "gptq"
    keeps: str = ""

    @property
    def config(self) -> dict[str, Any]:
        common = {"quant_method": self.method, "bits": self.bits, "group_size": self.group_size}
        if self.method == "awq":
            left = ["visual", *([self.keeps] if self.keeps else [])]
            return common | {"version": "gemm", "zero_point": True, "modules_to_not_convert": left}
        return common | {"desc_act": self.desc_act, "sym": self.sym, "checkpoint_format": self.form}


SCHEMES = {
    "awq": Scheme("awq"),
    "awq, groups of 128": Scheme("awq", group_size=128),
    "awq, one whole": Scheme("awq", keeps="model.layers.0.self_attn.k_proj"),
    "gptq": Scheme("gptq"),
    "gptq, symmetric": Scheme("gptq", sym=True),
    "gptq, format 2": Scheme("gptq", form="gptq_v2"),
    "gptq, ordered": Scheme("gptq", desc_act=True),
    "gptq, a group for all": Scheme("gptq", group_size=-1, sym=True),
    "gptq, 8 bits": Scheme("gptq", bits=8),
}
OF_4_BITS = [name for name, scheme in SCHEMES.items() if scheme.bits == 4]


def pack_words(levels: Tensor, bits: int, order: Sequence[int]) -> Tensor:
    """Pack levels (rows, n) into words of 32 bits (rows, n * bits / 32).

    Position i of a word holds its column order[i].
    """
    per_word = 32 // bits
    parts = levels.long().view(len(levels), -1, per_word)
    words = sum(parts[:, :, column] << (bits * place) for place, column in enumerate(order))
    assert isinstance(words, Tensor)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def quantize(weight: Tensor, scheme: Scheme, seed: int) -> tuple[dict[str, Tensor], Tensor]:
    """Return a weight (out, in) as the checkpoint's tensors, and the weight that they represent."""
    inputs = weight.shape[1]
    size = inputs if scheme.group_size == -1 else scheme.group_size
    groups = torch.arange(inputs) // size
    if scheme.desc_act:
        groups = groups[torch.randperm(inputs, generator=torch.Generator().manual_seed(seed))]
    most, half = 2**scheme.bits - 1, 2 ** (scheme.bits - 1)
    num_groups = inputs // size
    members = torch.stack([weight[:, groups == group] for group in range(num_groups)])
    low, high = members.amin(-1).clamp_max(0), members.amax(-1).clamp_min(0)
    if scheme.sym:
        high = torch.maximum(high, -low)
        low = -high
    scales = ((high - low) / most).half()
    zeros = torch.full_like(low, half) if scheme.sym else (-low / scales.float()).round().clamp(1, most)
    own_scales, own_zeros = scales.float()[groups], zeros[groups]
    levels = (weight.t() / own_scales + own_zeros).round().clamp(0, most)
    meant = ((levels - own_zeros) * own_scales).t().contiguous()
    in_turn = range(32 // scheme.bits)
    if scheme.method == "awq":
        tensors = {"qweight": pack_words(levels, 4, AWQ_NIBBLES), "qzeros": pack_words(zeros, 4, AWQ_NIBBLES)}
    else:
        stored = zeros - 1 if scheme.form == "gptq" else zeros
        tensors = {
            "qweight": pack_words(levels.t(), scheme.bits, in_turn).t().contiguous(),
            "qzeros": pack_words(stored, scheme.bits, in_turn),
            "g_idx": groups.to(torch.int32),
        }
    return tensors | {"scales": scales}, meant


def write_pair(folder: Path, scheme: Scheme, size: TinySize = SIZE) -> tuple[Path, Path]:
    """Write a random model in floats and a quantized checkpoint that represents it exactly; return both."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = build_tiny_model(folder / "whole", size)
    stored = build_tiny_model(folder / "stored", size)
    weights = load_file(whole / "model.safetensors")
    packed: dict[str, Tensor] = {}
    for seed, name in enumerate(sorted(weights)):
        if "visual" in name or not name.endswith("_proj.weight") or (scheme.keeps and scheme.keeps in name):
            packed[name] = weights[name] = weights[name].bfloat16().float()
            continue
        tensors, weights[name] = quantize(weights[name], scheme, seed)
        packed |= {name.replace("weight", kind): tensor for kind, tensor in tensors.items()}
    if scheme.method == "gptq":
        packed["model.layers.0.mlp.down_proj.bias"] = torch.zeros(size.hidden)
    save_file(weights, whole / "model.safetensors", {"format": "pt"})
    packed = {name: tensor.contiguous() for name, tensor in packed.items()}
    save_file(packed, stored / "model.safetensors", {"format": "pt"})
    edit_config(stored, quantization_config=scheme.config)
    return whole, stored


def edit_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))


def copy_of(model: Path, folder: Path) -> Path:
    """Copy a model, with the tokenizer next to it, for a test to change."""
    shutil.copytree(model.parent / "tokenizer", folder / "tokenizer")
    return Path(shutil.copytree(model, folder / model.name))


def change_tensors(folder: Path, ending: str, change: Callable[[Tensor], Tensor | None]) -> None:
    path = folder / "model.safetensors"
    found = {n: change(t) if n.endswith(ending) else t for n, t in load_file(path).items()}
    save_file({n: t.contiguous() for n, t in found.items() if t is not None}, path, {"format": "pt"})


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    root = tmp_path_factory.mktemp("stored")
    return {name: write_pair(root / str(number), one) for number, (name, one) in enumerate(SCHEMES.items())}


def rows_of(model: QwenModel) -> Tensor:
    session = model.open_session()
    return torch.cat([session.prefill(random_prompt(1))[None], session.forward([30, 31, 32, 33, 34])])


@pytest.mark.lengthy
@pytest.mark.parametrize("name", SCHEMES)
def test_it_says_what_the_weights_say_that_its_integers_stand_for(
    name: str, pairs: dict[str, tuple[Path, Path]]
) -> None:
    whole, stored = (load_model(folder, precision="fp32") for folder in pairs[name])
    assert torch.allclose(rows_of(stored), rows_of(whole), atol=1e-4, rtol=1e-4)


@pytest.mark.lengthy
@pytest.mark.parametrize("name", OF_4_BITS)
def test_its_integers_are_kept_at_4_bits(name: str, pairs: dict[str, tuple[Path, Path]]) -> None:
    whole, stored = load_model(pairs[name][0]), load_exact_model(pairs[name][1], "int4")
    stored.vision = whole.vision
    assert torch.allclose(rows_of(stored), rows_of(whole), atol=1e-4, rtol=1e-4)
    packed = load_model(pairs[name][1], precision="int4")
    bf16 = load_model(pairs[name][0], precision="bf16")
    assert torch.cosine_similarity(rows_of(packed), rows_of(bf16)).mean() > 0.99
    kinds = {type(layer.down) for layer in packed.text.layers}
    assert kinds == {Int4Matrix}
    assert isinstance(packed.text.head, DenseMatrix)


def test_what_is_not_converted_stays_whole(pairs: dict[str, tuple[Path, Path]]) -> None:
    model = load_model(pairs["awq, one whole"][1], precision="int4")
    mixed, plain = (layer.qkv for layer in model.text.layers)
    assert isinstance(mixed, JoinedMatrix)
    assert [type(part) for part in mixed.parts] == [Int4Matrix, DenseMatrix, Int4Matrix]
    assert isinstance(plain, Int4Matrix)


def test_a_packed_weight_is_off_by_a_32nd_of_its_scale_at_most() -> None:
    weight = torch.randn(24, 128, generator=torch.Generator().manual_seed(3))
    tensors, meant = quantize(weight, SCHEMES["gptq, ordered"], 5)
    integers = integer_weight(tensors, StoredFormat("gptq", 4, 32, False, 1))
    assert torch.equal(integers.dequantized(), meant)
    off = (Int4Matrix(integers).columns(torch.arange(24)).t() - meant).abs()
    scales = tensors["scales"].float()[tensors["g_idx"].long()].t()
    assert (off <= scales / 32 + meant.abs() / 256).all()
    assert off.max() > 0.0


def test_a_zero_of_0_wraps_in_format_1() -> None:
    tensors, _ = quantize(torch.randn(8, 32, generator=torch.Generator().manual_seed(1)), SCHEMES["gptq"], 0)
    tensors["qzeros"] = torch.full_like(tensors["qzeros"], -1)
    levels = integer_weight(tensors, StoredFormat("gptq", 4, 32, False, 1))
    assert levels.zeros is not None
    assert (levels.zeros == -8).all()


def test_symmetric_zeros_are_known_whichever_way_they_were_counted() -> None:
    """Some writers name format 1 and store the zeros of format 2."""
    weight = torch.randn(8, 32, generator=torch.Generator().manual_seed(1))
    _, meant = quantize(weight, SCHEMES["gptq, symmetric"], 0)
    mislabelled, _ = quantize(weight, replace(SCHEMES["gptq, symmetric"], form="gptq_v2"), 0)
    read = integer_weight(mislabelled, StoredFormat("gptq", 4, 32, True, 1))
    assert torch.equal(read.dequantized(), meant)


@pytest.mark.lengthy
@pytest.mark.parametrize("version", ["2", "2.5"])
@pytest.mark.parametrize("name", ["awq", "gptq, ordered"])
def test_both_architectures_write_with_it(version: str, name: str, tmp_path: Path) -> None:
    """As a target, in a batch of two sessions, and as a draft, step by step."""
    whole, stored = write_pair(tmp_path, SCHEMES[name], replace(SIZE, version=version))
    model = load_model(stored, precision="fp32", sessions=2)
    sessions = [model.open_session() for _ in range(2)]
    first = [int(session.prefill(random_prompt(1)).argmax()) for session in sessions]
    token_ids = [first[0]]
    while len(token_ids) < 8:
        token_ids.append(int(sessions[0].forward(token_ids[-1:])[0].argmax()))
    assert ReferenceGenerator(whole).generate(random_prompt(1), 8) == token_ids
    sessions[0].truncate(sessions[1].length)
    for rows in model.forward_together([Chunk(session, token_ids[:-1]) for session in sessions]):
        assert rows.argmax(-1).tolist() == token_ids[1:]


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ["awq", "awq, one whole", "gptq, ordered"])
def test_static_graphs_have_the_same_integers(
    name: str, pairs: dict[str, tuple[Path, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))
    graphs, exact = (load(pairs[name][1], precision="int4") for load in (load_graph_model, load_exact_model))
    exact.vision = graphs.vision
    session = graphs.open_session()
    rows = torch.cat([session.prefill(random_prompt(1))[None], session.forward([30, 31, 32, 33, 34])])
    assert torch.allclose(rows, rows_of(exact), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"quant_method": "awq", "bits": 3}, "bits 3"),
        ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "layout 'gemv'"),
        ({"quant_method": "awq", "bits": 4, "zero_point": False}, "zero_point False"),
        ({"quant_method": "gptq", "bits": 2}, "bits 2"),
        ({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}, "layout 'marlin'"),
        ({"quant_method": "gptq", "bits": 4, "is_marlin_format": True}, "layout 'marlin'"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 24}, "group_size 24"),
        ({"quant_method": "gptq", "bits": None}, "bits None"),
        ({"quant_method": "gptq", "bits": 4.0}, "bits 4.0"),
        ({"quant_method": "gptq", "bits": 4, "lm_head": True}, "lm_head True"),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*down.*": {"bits": 8}}}, "dynamic {.*}"),
        ({"quant_method": "awq", "bits": 4, "group_size": None}, "group_size None"),
    ],
)
def test_other_layouts_are_refused_with_what_to_do(
    changes: dict[str, object], said: str, tmp_path: Path
) -> None:
    folder = build_tiny_model(tmp_path / "target")
    edit_config(folder, quantization_config=changes)
    with pytest.raises(ModelError, match=f"{said} cannot be read: choose the checkpoint of 4-bit AWQ"):
        load_model(folder)


@pytest.mark.parametrize(
    ("kind", "said"), [("qzeros", "lacks layers.1.mlp.up_proj.qzeros"), ("scales", "does not fit")]
)
def test_a_checkpoint_that_lacks_some_or_does_not_fit_is_refused(
    kind: str, said: str, tmp_path: Path
) -> None:
    _, stored = write_pair(tmp_path, SCHEMES["awq"])
    weights = load_file(stored / "model.safetensors")
    name = next(one for one in weights if one.endswith(f"layers.1.mlp.up_proj.{kind}"))
    found = weights.pop(name)
    if kind == "scales":
        weights[name] = found[:-1].contiguous()
    save_file(weights, stored / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=said):
        load_model(stored)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"num_key_value_heads": 4}, r"layers\.0\.self_attn\.k_proj\.weight has the shape \(64, 128\)"),
        ({"intermediate_size": 128}, r"gate_proj\.weight has the shape \(256, 128\).*but \(128, 128\)"),
        ({"num_hidden_layers": 1, "layer_types": None}, "names 1 layers, and the weights have"),
        ({"num_hidden_layers": 2**62, "layer_types": None}, "names 46.* layers, and there are"),
    ],
)
def test_sizes_of_another_checkpoint_are_refused(
    sizes: dict[str, object], said: str, pairs: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    stored = copy_of(pairs["awq"][1], tmp_path)
    config = json.loads((stored / "config.json").read_text())
    edit_config(stored, text_config=config["text_config"] | sizes)
    with pytest.raises(ModelError, match=f"{said}.*restore both from one checkpoint"):
        load_model(stored)


@pytest.mark.parametrize("name", ["0.mlp.up_proj.scales", "1.input_layernorm.weight", "embed_tokens.weight"])
def test_numbers_that_are_not_finite_are_refused(
    name: str, pairs: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    stored = copy_of(pairs["awq"][1], tmp_path)
    change_tensors(stored, name, lambda tensor: tensor / 0)
    with pytest.raises(ModelError, match=f"{name} holds NaN or infinity"):
        load_model(stored)


@pytest.mark.parametrize("name", ["input_layernorm.weight", "self_attn.q_proj.bias"])
def test_a_norm_or_a_bias_of_another_size_is_refused(
    name: str, pairs: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    """Otherwise the one number would be multiplied by, or added to, a whole row."""
    stored = copy_of(pairs["awq"][1], tmp_path)
    change_tensors(stored, name, lambda tensor: tensor[:1])
    with pytest.raises(ModelError, match=rf"{name} has the shape \(1,\).*but \(128,\)"):
        load_model(stored)


def test_without_its_order_of_inputs_a_checkpoint_is_refused(
    pairs: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    stored = copy_of(pairs["gptq, ordered"][1], tmp_path)
    change_tensors(stored, "g_idx", lambda tensor: None)
    with pytest.raises(ModelError, match=r"lacks layers\.0\.self_attn\.q_proj\.g_idx"):
        load_model(stored)


@pytest.mark.parametrize(("precision", "expected"), [("int4", 0.63), ("bf16", 2.0), ("fp32", 4.0)])
def test_the_memory_said_is_that_of_the_packed_weights(
    precision: Precision, expected: float, tmp_path: Path
) -> None:
    words = {f"layers.{i}.mlp.up_proj.qweight": torch.zeros(100, 100, dtype=torch.int32) for i in range(99)}
    save_file(words, tmp_path / "model.safetensors")
    needed = bytes_needed([tmp_path / "model.safetensors"], precision, stored_bits=4).loading
    # In addition, one projection at a time is unpacked and packed anew.
    assert needed == pytest.approx((99 * expected + 26.0) * 80_000)


def test_groups_that_do_not_fit_their_inputs_are_refused() -> None:
    groups = torch.arange(64, dtype=torch.int32) // 32
    assert _order(groups, 64, 32) is None
    far = torch.where(groups == 1, 2**31 - 1, groups)  # counting up to this would take 16 GB
    for wrong in (groups[:32], torch.where(groups == 1, 1, (torch.arange(64) > 8).int()), groups - 1, far):
        with pytest.raises(ValueError, match="g_idx"):
            _order(wrong, 64, 32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "by bitsandbytes are not read: choose"),
        ({"quantization_config": {"quant_method": "fp8"}}, "by fp8 are not read: choose"),
        ({"quantization_config": {"quant_method": "compressed-tensors"}}, "by compressed-tensors are not"),
        ({"quantization_config": {"quant_method": "exl2"}}, "by exl2 are not read: choose"),
        ({"quantization_config": {}}, "by an unknown method are not read: choose"),
        ({"quantization": {"bits": 4, "group_size": 64}}, "MLX has quantized"),
        ({"quantization_config": {"quant_method": "awq", "w_bit": 4}}, "none of its layers is"),
    ],
)
def test_other_quantizers_are_refused_with_the_true_reason(tmp_path: Path, changes, message: str) -> None:
    folder = build_tiny_model(tmp_path / "target", TinySize(hidden=64))
    edit_config(folder, **changes)
    with pytest.raises(ModelError, match=message):
        load_model(folder)
