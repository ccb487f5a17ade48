"""The published checkpoints' architectures at full width and reduced depth, by folder or by name."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support.tiny_models import TinySize, build_tiny_model, build_tokenizer, random_prompt, tiny_config
from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

from outrider.core.errors import ModelError, OutOfMemoryError
from outrider.decoding.refusals import reason_of
from outrider.models import (
    ReferenceGenerator,
    cache,
    checkpoint,
    hub,
    layout,
    load_graph_model,
    load_model,
    memory,
)
from outrider.models.checkpoint import weight_files
from outrider.runtime.paths import model_folder

TOKENS = 12


def greedy(folder: Path, count: int) -> list[int]:
    session = load_model(folder).open_session()
    token_ids = [int(session.prefill(random_prompt(1)).argmax())]
    while len(token_ids) < count:
        token_ids.append(int(session.forward(token_ids[-1:])[0].argmax()))
    return token_ids


def test_the_newer_architecture_decodes_as_transformers_does(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "target", TinySize(version="2.5", vision_layers=3, vision=32))
    token_ids = greedy(folder, TOKENS)
    assert ReferenceGenerator(folder).generate(random_prompt(1), TOKENS) == token_ids
    assert len(set(token_ids)) > 3


def test_a_name_is_looked_up_where_no_folder_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    def cached(name: str, allow_patterns: list[str], local_files_only: bool = False) -> str:
        asked.append((name, local_files_only))
        if local_files_only:
            raise OSError("not cached")
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", cached)
    assert model_folder("Qwen/Qwen2-VL-2B-Instruct") == tmp_path
    assert asked == [("Qwen/Qwen2-VL-2B-Instruct", True), ("Qwen/Qwen2-VL-2B-Instruct", False)]


def test_a_name_that_cannot_be_downloaded_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(name: str, **options: object) -> str:
        raise OSError("no network\nlong story")

    monkeypatch.setattr(hub, "snapshot_download", unreachable)
    with pytest.raises(ModelError, match=r"no model folder Qwen/Qwen2-VL-7B.*\(no network\).*hf download"):
        model_folder("Qwen/Qwen2-VL-7B-Instruct")
    with pytest.raises(ModelError, match=r"config\.json"):
        model_folder("no/such/folder")


def test_too_little_memory_is_said_before_anything_is_loaded(
    tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 100e3)
    with pytest.raises(ModelError, match=r"needs 0\.\d GB to load as fp32, and 0\.\d GB are free"):
        load_model(tiny_model_folder / "target")


def test_the_caches_of_all_sessions_are_part_of_the_memory_said(
    tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 layers of keys and values of 2 heads, 8 wide, in fp32: 256 bytes a token."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 2.0**30)
    said = r"needs 1\.5 GB to load as fp32, and 1\.0 GB are free: .*max_sessions or max_length.*take 1\.5 GB"
    with pytest.raises(ModelError, match=said):
        load_model(tiny_model_folder / "target", sessions=64, max_length=100_000)
    assert load_model(tiny_model_folder / "target", sessions=16, max_length=100_000).max_length == 100_000


def test_weights_and_caches_must_fit_on_the_gpu(
    tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_on", lambda device: 3e9)
    folder, gpu = tiny_model_folder / "target", torch.device("cuda")
    caches = memory.SessionBytes(8, 4096, 2**31)
    memory.check_memory(folder, weight_files(folder), "bf16", caches, gpu)
    monkeypatch.setattr(memory, "available_on", lambda device: 2e9)
    with pytest.raises(ModelError, match=r"needs 2\.0 GB to load as bf16, and 1\.9 GB are free on cuda"):
        memory.check_memory(folder, weight_files(folder), "bf16", caches, gpu)
    monkeypatch.setattr(memory, "available_on", lambda device: 3e9)
    stepped = memory.SessionBytes(8, 4096, 2**31, 2**29, 2**29)
    with pytest.raises(
        ModelError, match=r"needs 3\.0 GB .* take 2\.0 GB, their static steps 0\.5 GB, the choice"
    ):
        memory.check_memory(folder, weight_files(folder), "bf16", stepped, gpu)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory"), torch.OutOfMemoryError("CUDA")],
)
def test_memory_that_is_gone_while_loading_is_said(
    error: Exception, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(checkpoint, "safe_open", full)
    with pytest.raises(ModelError, match=r"not enough memory to load .*target: close other programs"):
        load_model(tiny_model_folder / "target")


def test_a_session_without_room_is_refused_and_the_others_go_on(
    tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(tiny_model_folder / "target")
    session = model.open_session()
    expected = session.prefill(random_prompt(1))

    def full(*args: object, **options: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(cache.torch, "zeros", full)
        with pytest.raises(
            OutOfMemoryError, match="open another session: wait, or lower max_sessions"
        ) as told:
            model.open_session()
    assert reason_of(told.value) == "busy"
    with monkeypatch.context() as patch:
        patch.setattr(layout, "prompt_positions", full)
        with pytest.raises(OutOfMemoryError, match="take in a prompt"):
            model.open_session().prefill(random_prompt(2))
    assert torch.equal(session.prefill(random_prompt(1)), expected)
    assert torch.equal(model.open_session().prefill(random_prompt(1)), expected)


@pytest.mark.parametrize(("precision", "expected"), [("fp32", 4.0), ("bf16", 2.0), ("int8", 2.0)])
def test_the_memory_said_is_that_of_the_weights_as_they_are_read(
    tmp_path: Path, precision: memory.Precision, expected: float
) -> None:
    layers = {f"layers.{i}.mlp.weight": torch.zeros(100, 100, dtype=torch.bfloat16) for i in range(50)}
    save_file(layers, tmp_path / "model.safetensors")
    needed = memory.bytes_needed(weight_files(tmp_path), precision).loading
    assert needed == pytest.approx(50 * 100 * 100 * expected, rel=0.1)


PUBLISHED = {
    "2B": ({"hidden_size": 1536, "intermediate_size": 8960, "num_attention_heads": 12}, 2, 151_936, True),
    "7B": ({"hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28}, 4, 152_064, False),
}


def build_published(folder: Path, size: str) -> Path:
    """Qwen2-VL at its widths and vocabulary, two layers deep, with random weights in bfloat16."""
    tokenizer = build_tokenizer(folder.parent / "tokenizer")
    widths, kv_heads, vocab_size, tied = PUBLISHED[size]
    config = tiny_config(TinySize(), tokenizer)
    text = config.text_config.to_dict() | widths
    text |= {"num_key_value_heads": kv_heads, "vocab_size": vocab_size, "max_position_embeddings": 32_768}
    text["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
    vision = config.vision_config.to_dict()
    vision |= {"embed_dim": 1280, "num_heads": 16, "mlp_ratio": 4, "hidden_size": widths["hidden_size"]}
    ids = {
        name: getattr(config, name) for name in ("image_token_id", "video_token_id", "vision_start_token_id")
    }
    whole = Qwen2VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=tied, **ids)
    with torch.device("meta"):
        modules = Qwen2VLForConditionalGeneration(whole).to(torch.bfloat16)
    seeded = torch.Generator().manual_seed(0)
    state = {}
    for name, weight in modules.state_dict().items():
        if not (tied and name == "lm_head.weight"):
            scale = 1.0 if "norm" in name or "ln_q" in name else 1.0 / max(weight.shape[-1], 1) ** 0.5
            state[name] = (torch.randn(weight.shape, generator=seeded) * scale).bfloat16()
    modules.save_pretrained(folder, state_dict=state)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("size", PUBLISHED)
def test_published_widths_run_in_every_precision(
    size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    folder = build_published(tmp_path / "target", size)
    rows = {}
    for precision in ("bf16", "int8", "int4"):
        session = load_model(folder, precision=precision, max_length=1024).open_session()
        rows[precision] = session.prefill(random_prompt(1))
        assert session.forward([7, 8, 9, 10, 11]).isfinite().all()
    graphs = load_graph_model(folder, precision="int4", max_length=1024).open_session()
    rows["graphs"] = graphs.prefill(random_prompt(1))
    for precision, row in rows.items():
        likeness = float(torch.cosine_similarity(row, rows["bf16"], dim=0))
        assert likeness > {"bf16": 0.9999, "int8": 0.999}.get(precision, 0.9), (precision, likeness)
