"""The published checkpoints: their newer architecture, by folder or by name, and the memory they need."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support.tiny_models import TinySize, build_tiny_model, random_prompt

from outrider.core.errors import ConfigError, ModelError, OutOfMemoryError
from outrider.core.model_options import PRECISIONS
from outrider.decoding.protocol.refusals import reason_of
from outrider.models import ReferenceGenerator, load_model
from outrider.models.backbone import kv_cache
from outrider.models.checkpoint import files, hub
from outrider.models.checkpoint.files import weight_files
from outrider.models.footprint import footprint
from outrider.models.text import prompt_layout
from outrider.runtime.common.paths import model_folder

TOKENS = 12
SHIPPED = Path(__file__).parents[3] / "models" / "target"


def greedy(folder: Path, count: int) -> list[int]:
    session = load_model(folder).open_session()
    token_ids = [int(session.prefill(random_prompt(1)).argmax())]
    while len(token_ids) < count:
        token_ids.append(int(session.forward(token_ids[-1:])[0].argmax()))
    return token_ids


@pytest.mark.parametrize("version", ["2.5", "3"])
def test_a_newer_architecture_decodes_as_transformers_does(version: str, tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "target", TinySize(version=version, vision_layers=3, vision=32))
    token_ids = greedy(folder, TOKENS)
    assert ReferenceGenerator(folder).generate(random_prompt(1), TOKENS) == token_ids
    assert len(set(token_ids)) > 3


def test_what_a_folder_says_of_generating_does_not_change_its_greedy_text(tmp_path: Path) -> None:
    """Qwen2.5-VL's `generation_config.json` penalizes repetition; this and its end tokens change nothing."""
    folder = build_tiny_model(tmp_path / "target", TinySize(version="2.5"))
    token_ids = greedy(folder, TOKENS)
    said = {"do_sample": True, "repetition_penalty": 1.5, "eos_token_id": token_ids[2:4]}
    (folder / "generation_config.json").write_text(json.dumps(said))
    assert ReferenceGenerator(folder).generate(random_prompt(1), TOKENS) == token_ids


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
    with pytest.raises(ConfigError, match=r"no model folder Qwen/Qwen2-VL-7B.*\(no network\).*hf download"):
        model_folder("Qwen/Qwen2-VL-7B-Instruct")
    with pytest.raises(ConfigError, match=r"config\.json"):
        model_folder("no/such/folder")


def test_too_little_memory_is_said_before_anything_is_loaded(
    tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footprint, "available_bytes", lambda: 100e3)
    with pytest.raises(ModelError, match=r"needs 0\.\d GB to load as fp32, and 0\.\d GB are free"):
        load_model(tiny_model_folder / "target")


def test_the_caches_of_all_sessions_are_part_of_the_memory_said(
    tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 layers of keys and values of 2 heads, 8 wide, in fp32: 256 bytes a token."""
    monkeypatch.setattr(footprint, "available_bytes", lambda: 2.0**30)
    said = r"needs 1\.5 GB to load as fp32, and 1\.0 GB are free: .*max_sessions or max_length.*take 1\.5 GB"
    with pytest.raises(ModelError, match=said):
        load_model(tiny_model_folder / "target", sessions=64, max_length=100_000)
    assert load_model(tiny_model_folder / "target", sessions=16, max_length=100_000).max_length == 100_000


def test_weights_and_caches_must_fit_on_the_gpu(
    tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footprint, "available_on", lambda device: 3e9)
    folder, gpu = tiny_model_folder / "target", torch.device("cuda")
    caches = footprint.SessionBytes(8, 4096, 2**31)
    footprint.check_memory(folder, weight_files(folder), "bf16", caches, gpu)
    monkeypatch.setattr(footprint, "available_on", lambda device: 2e9)
    with pytest.raises(ModelError, match=r"needs 2\.0 GB to load as bf16, and 1\.9 GB are free on cuda"):
        footprint.check_memory(folder, weight_files(folder), "bf16", caches, gpu)
    monkeypatch.setattr(footprint, "available_on", lambda device: 3e9)
    stepped = footprint.SessionBytes(8, 4096, 2**31, 2**29, 2**29)
    with pytest.raises(
        ModelError, match=r"needs 3\.0 GB .* take 2\.0 GB, their static steps 0\.5 GB, the choice"
    ):
        footprint.check_memory(folder, weight_files(folder), "bf16", stepped, gpu)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory"), torch.OutOfMemoryError("CUDA")],
)
def test_memory_that_is_gone_while_loading_is_said(
    error: Exception, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(files, "safe_open", full)
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
        patch.setattr(kv_cache.torch, "zeros", full)
        with pytest.raises(
            OutOfMemoryError, match="open another session: wait, or lower max_sessions"
        ) as told:
            model.open_session()
    assert reason_of(told.value) == "busy"
    with monkeypatch.context() as patch:
        patch.setattr(prompt_layout, "prompt_positions", full)
        with pytest.raises(OutOfMemoryError, match="take in a prompt"):
            model.open_session().prefill(random_prompt(2))
    assert torch.equal(session.prefill(random_prompt(1)), expected)
    assert torch.equal(model.open_session().prefill(random_prompt(1)), expected)


OUT_OF_MEMORY = """
import os, resource, sys
from pathlib import Path
from support.tiny_models import random_prompt
from outrider.core.errors import OutOfMemoryError
from outrider.models import load_model

def run_out(precision):
    model = load_model(Path(sys.argv[1]), precision=precision)
    session = model.open_session()
    expected = session.prefill(random_prompt(1))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize(), limits[1]))
    ballast = []
    try:
        while True:  # what the process has at hand already
            ballast.append(bytearray(1 << 15))
    except MemoryError:
        del ballast[-8:]
    try:
        session.prefill(random_prompt(100))  # of another length, for which oneDNN makes a product of its own
        session.forward([5])
    except OutOfMemoryError:
        has_run_out = True
    else:
        has_run_out = False
    del ballast
    resource.setrlimit(resource.RLIMIT_AS, limits)
    assert session.prefill(random_prompt(1)).equal(expected)
    return has_run_out

for precision in sys.argv[2:]:
    if not os.fork():
        print(precision, run_out(precision))
        break
    os.wait()
"""


@pytest.mark.lengthy
def test_no_memory_for_a_product_is_reported_as_out_of_memory() -> None:
    """oneDNN, which multiplies bfloat16, reports a lack of memory in its own words.

    Each precision runs in a process of its own, which has the limit.
    """
    command = [sys.executable, "-c", OUT_OF_MEMORY, str(SHIPPED), *PRECISIONS]
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    has_run_out = dict(line.split() for line in ended.stdout.splitlines())
    assert list(has_run_out) == list(PRECISIONS), ended.stderr
    assert has_run_out["bf16"] == "True", "of the others the memory at hand may be enough"


@pytest.mark.parametrize(("precision", "expected"), [("fp32", 4.0), ("bf16", 2.0), ("int8", 2.0)])
def test_the_memory_said_is_that_of_the_weights_as_they_are_read(
    tmp_path: Path, precision: footprint.Precision, expected: float
) -> None:
    layers = {f"layers.{i}.mlp.weight": torch.zeros(100, 100, dtype=torch.bfloat16) for i in range(50)}
    save_file(layers, tmp_path / "model.safetensors")
    needed = footprint.bytes_needed(weight_files(tmp_path), precision).loading
    assert needed == pytest.approx(50 * 100 * 100 * expected, rel=0.1)


@pytest.mark.parametrize(
    ("dtype", "tied", "loading", "kept"),
    [
        (torch.bfloat16, False, 2.0 + 2.0, 2.0 + 1.04),
        (torch.bfloat16, True, 2.0, 2.0 + 1.04),
        (torch.float16, True, 2.0 + 2.0, 2.0 + 1.04),
    ],
)
def test_embeddings_lie_beside_the_head_that_is_made_of_them(
    tmp_path: Path, dtype: torch.dtype, tied: bool, loading: float, kept: float
) -> None:
    names = ["model.embed_tokens.weight"] if tied else ["model.embed_tokens.weight", "lm_head.weight"]
    save_file({name: torch.zeros(100, 100, dtype=dtype) for name in names}, tmp_path / "model.safetensors")
    needed = footprint.bytes_needed(weight_files(tmp_path), "int8")
    largest = 0 if tied else 2 * 2.0
    assert needed.loading == pytest.approx(1e4 * (loading + largest), rel=0.01)
    assert needed.kept == pytest.approx(1e4 * kept, rel=0.01)


def test_integers_of_torchao_are_kept_as_they_are(tmp_path: Path) -> None:
    integers = {f"layers.{i}.up_proj._weight_qdata": torch.zeros(9, 9, dtype=torch.int8) for i in range(5)}
    save_file(integers, tmp_path / "model.safetensors")
    for precision in PRECISIONS:
        needed = footprint.bytes_needed(weight_files(tmp_path), precision)
        assert needed == footprint.WeightBytes(loading=5 * 81, kept=5 * 81)
