"""Static graphs: the eager model's tokens with the same integers, one graph in memory, clear refusals."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import onnxruntime
import pytest
import torch
from support.tiny_models import TinySize, build_tiny_model, random_jpeg, random_prompt

from outrider.core.errors import ConfigError, ModelError, OutOfMemoryError
from outrider.core.model_options import PROVIDERS, Precision
from outrider.core.ports import Chunk
from outrider.core.values import Prompt
from outrider.models import QwenModel, load_exact_model, load_graph_model
from outrider.models.footprint import footprint
from outrider.models.onnx import blocks as graph_blocks
from outrider.models.onnx import providers
from outrider.models.onnx.export import GraphBuilder
from outrider.models.onnx.model import GraphModel
from outrider.models.quantization.matrices import ForeignMatrix

GENERATED = 24
PRECISIONS: tuple[Precision, ...] = ("fp32", "int8", "int4")
STANDARD_FORM = providers.Provider("CPUExecutionProvider", "onnxruntime", packs=False)

pytestmark = pytest.mark.usefixtures("graph_cache")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("graphs") / "draft", TinySize(hidden=64, layers=3))


def eager(folder: Path, graphs: GraphModel, precision: Precision) -> QwenModel:
    """The eager model whose weights are the very integers of the graphs, in float32 arithmetic.

    They share the vision tower: two of them in bfloat16 need not give equal bits.
    """
    model = load_exact_model(folder, precision)
    model.vision = graphs.vision
    return model


def greedy(model: QwenModel | GraphModel, prompt: Prompt, chunk: int = 1) -> tuple[list[int], torch.Tensor]:
    session = model.open_session()
    rows = [session.prefill(prompt)]
    token_ids: list[int] = []
    for _ in range(GENERATED):
        token_ids.append(int(rows[-1].argmax()))
        rows.append(session.forward(token_ids[-1:])[0])
    again = model.open_session()
    again.prefill(prompt)
    chunks = [again.forward(token_ids[i : i + chunk]) for i in range(0, GENERATED, chunk)]
    assert torch.allclose(torch.cat(chunks), torch.stack(rows[1:]), atol=1e-4, rtol=1e-4)
    return token_ids, torch.stack(rows)


@pytest.mark.lengthy
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("packs", [True, False])
def test_tokens_are_those_of_the_eager_model(
    folder: Path, precision: Precision, packs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not packs:
        monkeypatch.setitem(providers._PROVIDERS, "cpu", STANDARD_FORM)
    graphs = load_graph_model(folder, precision=precision)
    for prompt in (random_prompt(1), random_prompt(2, instruction="find the silver bottle " * 30)):
        token_ids, logits = greedy(graphs, prompt, chunk=5)
        wanted_ids, wanted = greedy(eager(folder, graphs, precision), prompt)
        assert torch.allclose(logits, wanted, atol=1e-3, rtol=1e-3)
        assert token_ids == wanted_ids
        assert len(set(token_ids)) > 3


@pytest.mark.lengthy
def test_a_graph_is_built_once_and_again_where_the_weights_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    folder = build_tiny_model(tmp_path / "models" / "draft", TinySize(hidden=64))
    load_graph_model(folder)
    built = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.onnx")}
    load_graph_model(folder)
    assert built == {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.onnx")}
    build_tiny_model(folder, TinySize(hidden=64), seed=7)
    load_graph_model(folder)
    assert len(list((tmp_path / "cache" / "graphs").iterdir())) == 2


def test_what_a_killed_builder_left_a_day_ago_is_swept_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))
    old, young = tmp_path / "graphs" / "unfinished-old", tmp_path / "graphs" / "unfinished-young"
    for each in (old, young):
        each.mkdir(parents=True)
        (each / "head.onnx").write_bytes(b"half of it")
    os.utime(old, (0.0, 0.0))
    load_graph_model(folder)
    assert young.exists() and not old.exists()


@pytest.mark.lengthy
def test_graphs_of_weights_that_are_others_now_go_when_nobody_has_used_them_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    built = tmp_path / "cache" / "graphs"
    folder = build_tiny_model(tmp_path / "models" / "draft", TinySize(hidden=64))
    load_graph_model(folder)
    load_graph_model(folder, max_length=300)
    outdated = set(built.iterdir())
    build_tiny_model(folder, TinySize(hidden=64), seed=7)
    load_graph_model(folder)
    assert outdated < set(built.iterdir()), "somebody may still use them"
    for each in built.iterdir():
        os.utime(each, (0.0, 0.0))
    kept = next(iter(set(built.iterdir()) - outdated))
    load_graph_model(folder, max_length=300)
    assert kept in built.iterdir() and not outdated & set(built.iterdir())


@pytest.mark.lengthy
def test_each_block_has_one_graph_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With prompts of one chunk and of several; a graph is opened only once the one it replaces is gone."""
    model = load_graph_model(folder, max_length=1024)
    held = model.language.blocks._blocks
    opened: list[str] = []
    really = graph_blocks.open_graph

    def watching(path: Path, *rest: object) -> object:
        assert held[int(path.name[6:8])].session is None
        opened.append(path.name)
        return really(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(graph_blocks, "open_graph", watching)
    session = model.open_session()
    for words in (100, 1, 100):
        session.prefill(random_prompt(1, instruction="find the bottle " * words))
        assert [block.phase for block in held] == ["decode"] * 3
        assert all(block.session is not None for block in held)
        session.forward([5, 6])
    assert sorted(opened[:3]) == [f"block-0{index}-decode.onnx" for index in range(3)]


@pytest.mark.lengthy
def test_switching_changes_no_bit_of_the_prompt_beyond_rounding(folder: Path) -> None:
    model = load_graph_model(folder, max_length=1024)
    language = model.language
    token_ids = list(range(10, 10 + 300)) + [5] * 200
    hidden = language.embed(token_ids)
    positions = torch.arange(len(token_ids)).expand(3, -1)
    rows = language.first_rows(hidden, positions)
    whole = language.blocks.prefill(rows, language.open_cache(), language.profile, switch=False)
    switched = language.blocks.prefill(rows, language.open_cache(), language.profile)
    assert torch.allclose(torch.from_numpy(whole), torch.from_numpy(switched), atol=1e-4, rtol=1e-3)


@pytest.mark.lengthy
def test_sessions_keep_the_ports_promises(folder: Path) -> None:
    model = load_graph_model(folder)
    one, other = model.open_session(), model.open_session()
    first = one.prefill(random_prompt(1))
    other.prefill(random_prompt(2))
    length = one.length
    rows = one.forward([7, 8, 9])
    one.truncate(length + 1)
    assert torch.allclose(one.forward([8, 9]), rows[1:], atol=1e-5)
    one.truncate(length)
    together = model.forward_together([Chunk(one, [7, 8, 9]), Chunk(other, [7])])
    assert torch.allclose(together[0], rows, atol=1e-5)
    expected = one.expected(2)
    assert len(expected.ids) == len(expected.probs) > 0
    assert torch.allclose(model.open_session().prefill(random_prompt(1)), first, atol=1e-3)
    with pytest.raises(ValueError, match="cannot truncate"):
        one.truncate(3)
    with pytest.raises(ConfigError, match="begins with a prompt"):
        model.open_session().forward([5])
    with pytest.raises(ConfigError, match="max_length"):
        one.prefill(Prompt(random_prompt(1).text, random_jpeg(1, width=1280, height=720)))


def test_a_missing_provider_says_what_is_there(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"CPUExecutionProvider.*pip install onnxruntime-qnn"):
        load_graph_model(folder, provider="qnn")
    with pytest.raises(ConfigError, match="one of cpu, cuda, tensorrt, openvino, qnn"):
        load_graph_model(folder, provider="npu")


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_provider_that_does_not_start_is_no_cpu_under_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when onnxruntime-gpu is installed without the libraries of TensorRT."""
    names = ["TensorrtExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(providers.onnxruntime, "get_available_providers", lambda: names)
    with pytest.raises(ConfigError, match="TensorrtExecutionProvider does not start here"):
        load_graph_model(folder, provider="tensorrt")


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("block-00-prefill.onnx", b"none"),
        ("block-01-decode.onnx", b""),
        ("block-02-prefill.onnx.weights", b"none"),
        ("head.onnx", None),
        ("graphs.json", b"{"),
        ("graphs.json", b"[]"),
        ("graphs.json", b'{"prefill_rows": 128}'),
        ("embeddings.npy", b"none"),
        ("embeddings.npy", None),
    ],
)
def test_a_damaged_file_says_what_to_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, content: bytes | None
) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))
    load_graph_model(folder)
    (path,) = tmp_path.rglob(name)
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(ModelError, match=rf"{name} cannot be loaded .*: delete the folder {path.parent} "):
        load_graph_model(folder)
    shutil.rmtree(path.parent)
    load_graph_model(folder).open_session().prefill(random_prompt(1))


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ["block-01-decode.onnx", "embeddings.npy"])
def test_what_has_its_length_but_is_something_else_says_so_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path, name: str
) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))
    load_graph_model(folder)
    (path,) = tmp_path.rglob(name)
    path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises(ModelError, match=rf"{name} cannot be loaded .*: delete the folder {path.parent} "):
        load_graph_model(folder).open_session().prefill(random_prompt(1))


@pytest.mark.lengthy
@pytest.mark.parametrize("content", [None, '{"load_dec', '{"load_decode": 3}', "[1]"])
def test_a_profile_that_cannot_be_read_is_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path, content: str | None
) -> None:
    """With `content` None, the profile cannot be written either."""
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))
    load_graph_model(folder)
    (path,) = tmp_path.rglob("profile-*.json")
    path.unlink()
    path.mkdir() if content is None else path.write_text(content)
    profile = load_graph_model(folder).language.profile
    assert profile.num_blocks == 3 and min(profile.load_decode) > 0.0
    assert content is None or load_graph_model(folder).language.profile == profile


def test_too_little_memory_is_said_before_building_and_before_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))
    monkeypatch.setattr(footprint, "available_bytes", lambda: 2.0**30)
    with pytest.raises(OutOfMemoryError, match=r"needs \d+\.\d GB to build as static graphs in int4"):
        load_graph_model(folder, max_length=5_000_000)
    assert not list(tmp_path.iterdir())
    load_graph_model(folder)
    monkeypatch.setattr(footprint, "available_bytes", lambda: 1e4)
    with pytest.raises(OutOfMemoryError, match="to load as static graphs in int4"):
        load_graph_model(folder)


def test_out_of_memory_and_other_failures_of_onnxruntime_are_different_errors(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        def __init__(self, message: str) -> None:
            self.message = message

        def run(self, *args: object) -> None:
            raise Exception(self.message)

    def refuse(*args: object, **options: object) -> None:
        raise Exception("[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : std::bad_alloc")

    with pytest.raises(OutOfMemoryError, match="not enough memory to run: close other programs"):
        providers.run_graph(Failing("Failed to allocate memory for requested buffer of size 42"), {})
    with pytest.raises(ModelError, match=r"failed \(no such kernel\): use another provider"):
        providers.run_graph(Failing("no such\nkernel"), {})
    load_graph_model(folder)
    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    with pytest.raises(OutOfMemoryError, match=r"not enough memory to load head\.onnx"):
        load_graph_model(folder)


def test_numbers_that_cannot_be_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="threads must be at least 1, got 0"):
        load_graph_model(folder, threads=0)
    with pytest.raises(ConfigError, match="threads must be at most 1024"):
        load_graph_model(folder, threads=99_999_999_999)
    with pytest.raises(ConfigError, match="one of fp32, bf16, int8, int4"):
        load_graph_model(folder, precision="int3")  # type: ignore[arg-type]


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="OUTRIDER_CACHE"):
        load_graph_model(folder)


def test_every_provider_of_the_parameters_is_known() -> None:
    assert tuple(providers._PROVIDERS) == PROVIDERS


def test_this_onnxruntime_is_the_cpus() -> None:
    """The refusals above depend on this."""
    assert "QNNExecutionProvider" not in onnxruntime.get_available_providers()


def test_a_load_that_failed_is_tried_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_graph_model(folder, max_length=1024)
    session, fresh = model.open_session(), load_graph_model(folder, max_length=1024).open_session()
    really = graph_blocks.open_graph

    def failing(path: Path, *rest: object) -> object:
        raise ModelError("no room")

    monkeypatch.setattr(graph_blocks, "open_graph", failing)
    with pytest.raises(ModelError, match="no room"):
        session.prefill(random_prompt(1))
    monkeypatch.setattr(graph_blocks, "open_graph", really)
    assert torch.allclose(session.prefill(random_prompt(1)), fresh.prefill(random_prompt(1)), atol=1e-3)


def test_what_torchao_has_quantized_is_refused() -> None:
    foreign = ForeignMatrix((torch.nn.Linear(64, 32),), 64)
    with pytest.raises(ModelError, match=r"torchao checkpoints run eagerly.*draft_runtime:=eager"):
        GraphBuilder(packs=True).product("rows", foreign)
