"""Integers on a GPU, as far as can be tested without one: layout, arithmetic, and what each device gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.captured import stand_in_for_cuda
from support.gpu_product import convert, stand_in_for_the_kernels
from support.held import Held
from support.tiny_models import TinySize, add_exits, build_tiny_model, random_prompt
from torch._subclasses.fake_tensor import FakeTensorMode

from outrider.core.errors import ConfigError, ModelError
from outrider.core.model_options import Precision
from outrider.evaluation.models.random_weights import Widths, random_stack
from outrider.models import QwenModel, check_model, load_model
from outrider.models.backbone import cuda_graph_steps
from outrider.models.backbone.cuda_graph_steps import Fused, SegmentedStep, StepTokens, project_folded
from outrider.models.quantization import matrix_choice
from outrider.models.quantization.int4_tiled import TiledInt4Matrix, TiledInt8Matrix
from outrider.models.quantization.int4_tiles import GROUPS, widest_group
from outrider.models.quantization.integers import IntegerWeight, round_to_integers
from outrider.models.quantization.matrices import Int4Matrix, Int8Matrix
from outrider.models.quantization.matrix_choice import pack

TILED = {8: TiledInt8Matrix, 4: TiledInt4Matrix}
HOST = torch.device("cpu")
PRECISION_OF: dict[int, Precision] = {8: "int8", 4: "int4"}


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run on the CPU what is packed for a GPU."""
    stand_in_for_the_kernels(monkeypatch)
    monkeypatch.setitem(matrix_choice.PACKED, "cpu", matrix_choice.PACKED["cuda"])


def seeded(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def rounded_rows(count: int, inputs: int) -> torch.Tensor:
    """Return rows that bfloat16 holds exactly, so that any error comes from the product."""
    return seeded(count, inputs).bfloat16().float()


@pytest.mark.parametrize("bits", TILED)
@pytest.mark.parametrize("inputs", [32, 96, 64, 256, 1536])
def test_a_tiled_product_is_that_of_the_integers(kernels: None, bits: int, inputs: int) -> None:
    """No output and no tile is left out, with inputs for every number of tiles side by side."""
    weight = round_to_integers(seeded(21, inputs), bits)
    rows, bias, tiled = rounded_rows(5, inputs), seeded(21), TILED[bits].of(weight, HOST)
    expected = rows @ weight.dequantized().t()
    assert tiled.shape == (inputs, 21)
    assert torch.allclose(tiled.times(rows), expected, rtol=2**-7, atol=2**-8 * float(expected.abs().max()))
    assert torch.equal(tiled.times(rows, bias), tiled.times(rows) + bias)
    assert tiled.times(rows.double()).dtype == torch.float64


@pytest.mark.parametrize("bits", TILED)
def test_outputs_packed_in_parts_are_packed_as_at_once(kernels: None, bits: int) -> None:
    """Rounding is done in the same parts."""
    made = []
    for at_once in (64 * 96, 8 * 96):
        tiled = TILED[bits].of(round_to_integers(seeded(21, 96), bits, at_once), HOST, at_once)
        made.append([tiled.tiles.packed, tiled.tiles.scales_and_zeros, tiled.columns(torch.arange(21))])
    assert all(torch.equal(one, other) for one, other in zip(*made, strict=True))


@pytest.mark.parametrize("bits", TILED)
@pytest.mark.parametrize(("outputs", "inputs"), [(4096, 512), (512, 4096)], ids=["a head", "down"])
def test_packing_takes_little_beside_what_it_makes(
    kernels: None, bits: int, outputs: int, inputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weight comes from another device: only the result, and one part at a time, is ever on this one."""
    at_once = 2**16
    # The memory of torch's own operation does not count; it is given only one part at a time.
    monkeypatch.setattr(torch, "_convert_weight_to_int4pack", shaped)
    monkeypatch.setattr(IntegerWeight, "to", copied)
    given = seeded(outputs, inputs)
    weight = round_to_integers(given, bits, at_once)
    with Held(weight.values, weight.scales) as held:
        tiled = TILED[bits].of(weight, HOST, at_once)
    made = sum(one.untyped_storage().nbytes() for one in (tiled.tiles.packed, tiled.tiles.scales_and_zeros))
    assert made < held.most < made + 8 * at_once
    with Held(given) as held:
        round_to_integers(given, bits, at_once)
    assert held.most < weight.values.numel() + 4 * weight.scales.numel() + 16 * at_once


def copied(weight: IntegerWeight, place: torch.device) -> IntegerWeight:
    return IntegerWeight(weight.values.clone(), weight.scales.clone(), weight.bits)


def shaped(pairs: torch.Tensor, abreast: int) -> torch.Tensor:
    outputs, inputs = pairs.shape[0], 2 * pairs.shape[1]
    return torch.zeros(outputs // 8, inputs // (16 * abreast), 32, abreast // 2, dtype=torch.int32)


@pytest.mark.parametrize("bits", TILED)
def test_columns_are_the_weights(kernels: None, bits: int) -> None:
    weight = round_to_integers(seeded(300, 64), bits)
    some = torch.tensor([290, 3, 64, 299, 3, 127])
    found, expected = TILED[bits].of(weight, HOST).columns(some), weight.dequantized()[some].t()
    # Eight-bit integers fit bfloat16 exactly; four-bit integers times a scale are rounded to it.
    assert torch.allclose(found, expected, rtol=0.0 if bits == 8 else 2**-8, atol=1e-7)


def test_every_number_of_eight_bits_is_kept(kernels: None) -> None:
    values = torch.arange(-128, 128).to(torch.int8).view(8, 32)
    tiled = TiledInt8Matrix.of(IntegerWeight(values, torch.ones(8, 1), 8), HOST)
    assert torch.equal(tiled.columns(torch.arange(8)).t(), values.float())


def test_a_checkpoints_zeros_and_order_are_kept(kernels: None) -> None:
    """As in the CPU's product."""
    generator = torch.Generator().manual_seed(3)
    values = torch.randint(-8, 8, (24, 128), generator=generator, dtype=torch.int8)
    zeros = torch.randint(-8, 8, (24, 2), generator=generator, dtype=torch.int8)
    scales = (seeded(24, 2).abs() + 0.1).bfloat16().float()
    weight = IntegerWeight(values, scales, 4, zeros, torch.randperm(128, generator=generator))
    tiled, rows = TiledInt4Matrix.of(weight, HOST), rounded_rows(3, 128)
    expected = rows @ weight.dequantized().t()
    assert torch.allclose(tiled.times(rows), expected, atol=0.01 * float(expected.abs().max()))
    assert torch.allclose(tiled.times(rows), Int4Matrix(weight).times(rows), rtol=0.01, atol=0.5)
    some = torch.tensor([5, 0, 23])
    assert torch.allclose(tiled.columns(some), weight.dequantized()[some].t(), rtol=2**-6, atol=2**-6)


def test_groups_are_as_wide_as_their_inputs_allow() -> None:
    assert [widest_group(inputs) for inputs in (3584, 128, 192, 96)] == [256, 128, 64, 32]
    assert all(widest_group(group) == group for group in GROUPS)


@pytest.mark.parametrize("bits", TILED)
def test_torchs_own_operations_take_what_is_tiled(bits: int) -> None:
    """On fake tensors: torch checks kinds and sizes, without any numbers."""
    with FakeTensorMode():
        tiled = TILED[bits].of(round_to_integers(torch.empty(21, 96), bits), HOST)
        product = tiled.times(torch.empty(5, 96), torch.empty(21))
        assert product.shape == (5, 21) and product.dtype == torch.float32


@pytest.mark.parametrize("bits", TILED)
def test_the_device_decides_what_a_weight_is_packed_for(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[torch.device] = []

    def moving(weight: IntegerWeight, device: torch.device) -> IntegerWeight:
        moved.append(device)
        return weight

    stand_in_for_the_kernels(monkeypatch)
    monkeypatch.setattr(IntegerWeight, "to", moving)
    gpu, cpu, weight = torch.device("cuda", 1), torch.device("cpu"), seeded(24, 96)
    tiled = pack(weight, PRECISION_OF[bits], gpu)
    assert type(tiled) is TILED[bits] and moved == [gpu]
    on_cpu = {8: Int8Matrix, 4: Int4Matrix}[bits]
    assert all(type(pack(weight, PRECISION_OF[bits], place)) is on_cpu for place in (None, cpu))
    for matrix, elsewhere in ((tiled, gpu), (pack(weight, PRECISION_OF[bits]), gpu)):
        with pytest.raises(ConfigError, match="precision=bf16"):
            matrix.to(elsewhere)
    assert tiled.to(cpu) is tiled
    assert pack(weight, "bf16", gpu).shape == (96, 24)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = build_tiny_model(tmp_path_factory.mktemp("tiles") / "target", TinySize(hidden=64))
    add_exits(folder, (1,), torch.arange(20))
    return folder


def said(model: QwenModel) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits after a prompt and after four more tokens, and the exit's logits for these four."""
    session, exits = model.open_session(), []
    first = session.prefill(random_prompt(1))
    rows = session.forward([7, 8, 9, 10], lambda index, rows: exits.append(rows.clone()))
    return torch.cat([first[None], rows]), torch.cat(exits)


@pytest.mark.parametrize("bits", TILED)
def test_a_model_of_tiles_says_what_the_cpus_says(
    folder: Path, bits: int, request: pytest.FixtureRequest
) -> None:
    on_cpu = said(load_model(folder, precision=PRECISION_OF[bits]))
    request.getfixturevalue("kernels")
    model = load_model(folder, precision=PRECISION_OF[bits])
    assert {type(layer.down) for layer in model.text.layers} == {type(model.text.head)} == {TILED[bits]}
    for mine, theirs in zip(said(model), on_cpu, strict=True):
        likeness = torch.cosine_similarity(mine.flatten(), theirs.flatten(), dim=0)
        assert likeness > 0.999


@pytest.mark.lengthy
def test_tiles_are_fused_and_captured_as_whole_weights_are(
    folder: Path, kernels: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No branch on the data, no code for one layer only, and nothing that waits for the device."""
    compilations: list[object] = []

    def compile_nothing(graph: Any, _: Any) -> Any:
        compilations.append(graph)
        return graph.forward

    for precision in PRECISION_OF.values():
        model = load_model(folder, precision=precision)
        cache, given = model._pool.take(), StepTokens([7, 8], 3, 3)
        plain, fused = (SegmentedStep(model.text, None, cache.block, 64) for _ in range(2))
        expected = plain.run({cache.index: given}, None).clone()
        for name in ("_project", "_join"):
            function = getattr(plain, name)
            setattr(fused, name, Fused(function, backend=compile_nothing, fullgraph=True))
        assert torch.equal(fused.run({cache.index: given}, None), expected)
        with monkeypatch.context() as patch:
            stand_in_for_cuda(patch)
            patch.setattr(cuda_graph_steps, "DirectLauncher", cuda_graph_steps.GraphLauncher)
            captured = SegmentedStep(model.text, None, cache.block, 64)
            assert torch.equal(captured.run({cache.index: given}, None), expected)
    assert len(compilations) == 2 * len(PRECISION_OF)


@pytest.mark.parametrize("bits", TILED)
def test_torchs_own_operation_is_traced_once_for_all_layers(
    bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced: list[str] = []

    def trace(graph: Any, _: Any) -> Any:
        traced.append(graph.code)
        (outputs,) = list(graph.graph.nodes)[-1].args
        return lambda *given: [torch.zeros(one.meta["example_value"].shape) for one in outputs]

    monkeypatch.setattr(torch, "_convert_weight_to_int4pack", convert)
    monkeypatch.setitem(matrix_choice.PACKED, "cpu", matrix_choice.PACKED["cuda"])
    stack = random_stack(Widths(128, 256, 2, 1, num_layers=3, vocab_size=64), PRECISION_OF[bits])
    rotation, traced_project = (
        stack.rotary.at(torch.arange(16).expand(3, -1)),
        Fused(project_folded, backend=trace),
    )
    for layer in stack.layers:
        traced_project(layer, torch.zeros(16, 128), rotation, stack.shape, 1)
    (code,) = traced
    assert "torch._weight_int4pack_mm(" in code


def test_a_gpu_without_the_product_is_named_before_a_weight_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gpu(capability: tuple[int, int], cuda: str | None = "12.8") -> None:
        for name, answer in {"is_available": True, "get_device_capability": capability}.items():
            monkeypatch.setattr(torch.cuda, name, lambda *args, answer=answer: answer)
        monkeypatch.setattr(torch.version, "cuda", cuda)

    free: dict[str, Any] = {"free": 1e12}
    monkeypatch.setattr("outrider.models.footprint.footprint.available_on", lambda device: free["free"])
    gpu((7, 5))
    with pytest.raises(ConfigError, match=r"compute capability 7\.5.*int4.*8\.0 on: use precision=bf16"):
        check_model(folder, precision="int4", device="cuda")
    check_model(folder, precision="bf16", device="cuda")
    gpu((9, 4), cuda=None)
    with pytest.raises(ConfigError, match="NVIDIA"):
        check_model(folder, precision="int8", device="cuda")
    gpu((8, 7))
    check_model(folder, precision="int8", device="cuda")


def test_a_width_without_groups_is_refused_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = build_tiny_model(tmp_path / "target", TinySize(hidden=48))
    check_model(narrow, precision="int8")
    monkeypatch.setattr("outrider.models.loading.find_device", lambda name: torch.device(name))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda place: (8, 7))
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    with pytest.raises(ModelError, match="precision int8 needs multiples of 32: use bf16"):
        check_model(narrow, precision="int8", device="cuda")
