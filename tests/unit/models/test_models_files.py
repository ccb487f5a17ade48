"""Which files of a folder are a checkpoint's weights, and what is reported of an incomplete folder."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors.torch import load_file, save_file
from support.tiny_models import TARGET_SIZE, build_tokenizer, random_modules, random_prompt
from transformers import Qwen2VLForConditionalGeneration

from outrider.core.errors import ModelError
from outrider.models import load_model
from outrider.models.checkpoint import hub
from outrider.models.checkpoint.card import read_card, write_figures
from outrider.models.checkpoint.files import (
    WEIGHTS_FILE,
    WEIGHTS_INDEX_FILE,
    check_weight_files,
    weight_files,
)
from outrider.models.onnx.store import GraphRequest


def save(folder: Path, seed: int, shards: bool = False, dtype: torch.dtype = torch.float32) -> Path:
    modules = random_modules(TARGET_SIZE, build_tokenizer(folder), seed).to(dtype)
    modules.save_pretrained(folder, **({"max_shard_size": "40KB"} if shards else {}))
    return folder


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    return save(tmp_path / "shards", 1, shards=True)


def row(folder: Path) -> torch.Tensor:
    return load_model(folder).open_session().prefill(random_prompt(0))


def add(source: Path, folder: Path) -> None:
    for path in source.glob("model*"):
        shutil.copy(path, folder)


def test_shards_are_read_as_the_single_file_is(shards, tmp_path) -> None:
    assert torch.equal(row(shards), row(save(tmp_path / "single", 1)))


def test_beside_the_single_file_an_index_and_its_shards_are_left_alone(shards, tmp_path) -> None:
    single = save(tmp_path / "single", 2)
    alone = row(single)
    before = GraphRequest(single, 9, "int4", True, 9, 9).digest
    add(shards, single)
    assert weight_files(single) == [single / WEIGHTS_FILE]
    assert torch.equal(row(single), alone)
    assert GraphRequest(single, 9, "int4", True, 9, 9).digest == before
    theirs = Qwen2VLForConditionalGeneration.from_pretrained(single).state_dict()
    ours = load_file(single / WEIGHTS_FILE)
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs if name in ours)
    (single / WEIGHTS_FILE).unlink()
    assert weight_files(single) == sorted(single.glob("model-*"))


def test_links_to_weights_are_followed(shards, tmp_path) -> None:
    linked = tmp_path / "linked"
    linked.mkdir()
    for path in shards.iterdir():
        (linked / path.name).symlink_to(path)
    assert torch.equal(row(linked), row(shards))


def index_of(folder: Path) -> dict:
    return json.loads((folder / WEIGHTS_INDEX_FILE).read_text())


def write_index(folder: Path, index: dict) -> None:
    (folder / WEIGHTS_INDEX_FILE).write_text(json.dumps(index))


def of_another_cut(folder: Path, other: Path) -> None:
    """Replace the first shard by that of a save that was split elsewhere."""
    first, second = sorted(folder.glob("model-*"))[:2]
    merged = load_file(first) | dict(list(load_file(second).items())[:1])
    save_file(merged, first, {"format": "pt"})


def of_another_type(folder: Path, other: Path) -> None:
    first = sorted(folder.glob("model-*"))[0]
    save_file({n: w.bfloat16() for n, w in load_file(first).items()}, first, {"format": "pt"})


def without_a_tensor(folder: Path, other: Path) -> None:
    first = next(path for path in sorted(folder.glob("model-*")) if len(load_file(path)) > 1)
    save_file(dict(list(load_file(first).items())[1:]), first, {"format": "pt"})


def all_of_another_type(folder: Path, other: Path) -> None:
    for path in folder.glob("model-*"):
        save_file({n: w.bfloat16() for n, w in load_file(path).items()}, path, {"format": "pt"})


@pytest.mark.parametrize("mix", [of_another_cut, of_another_type, without_a_tensor, all_of_another_type])
def test_shards_of_two_saves_are_found_out(shards, tmp_path, mix) -> None:
    mix(shards, tmp_path)
    with pytest.raises(ModelError, match="mixes files of two saves"):
        load_model(shards)


def test_a_weight_that_is_there_twice_is_found_out(tmp_path) -> None:
    folder = save(tmp_path / "m", 1)
    weights = load_file(folder / WEIGHTS_FILE)
    name = next(one for one in weights if one.startswith("model.layers.") or ".layers." in one)
    bare = name.removeprefix("model.").removeprefix("language_model.")
    save_file(weights | {bare: weights[name].clone()}, folder / WEIGHTS_FILE, {"format": "pt"})
    with pytest.raises(ModelError, match=r"holds layers\.0\..* twice"):
        load_model(folder)


def test_a_type_that_each_shard_mixes_was_saved_so(shards) -> None:
    """Shards of one save are accepted even if their index does not give a total size."""
    index = index_of(shards)
    index["metadata"] = {}
    write_index(shards, index)
    check_weight_files(shards)


def test_an_index_that_transformers_does_not_read_is_refused(shards) -> None:
    index = index_of(shards)
    del index["metadata"]
    write_index(shards, index)
    with pytest.raises(ModelError, match=r'has no "metadata", .*add "metadata": \{\}'):
        load_model(shards)


@pytest.mark.parametrize("name", ["../elsewhere/model.safetensors", "/etc/passwd", ".."])
def test_an_index_that_leads_out_of_its_folder_is_refused(shards, name) -> None:
    index = index_of(shards)
    index["weight_map"][next(iter(index["weight_map"]))] = name
    write_index(shards, index)
    with pytest.raises(ModelError, match="no file of its folder"):
        load_model(shards)


def lone(name: str):
    return lambda folder: (folder / WEIGHTS_FILE).rename(folder / name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lone("pytorch_model.bin"), r"pytorch_model\.bin is a pickle.*convert it once: python -c"),
        (lone("model.fp16.safetensors"), r"model\.fp16\.safetensors, a variant.*rename it"),
        (lone("model.bf16.safetensors"), r"model\.bf16\.safetensors, a variant.*rename it"),
        (lone("adapter_model.safetensors"), "LoRA adapter alone.*merge it"),
        (lone("model-00001-of-00002.safetensors"), "has shards.*and no model.safetensors.index.json"),
        (lone("consolidated.safetensors"), r"there is consolidated\.safetensors, a name.*rename it"),
        (lone("weights.h5"), r"model\.safetensors is missing"),
    ],
)
def test_a_folder_without_weights_says_what_it_has_and_what_to_do(tmp_path, change, message) -> None:
    folder = save(tmp_path / "m", 1)
    change(folder)
    with pytest.raises(ModelError, match=message):
        load_model(folder)


def test_weights_and_an_adapter_beside_them_are_both_named(tmp_path) -> None:
    folder = save(tmp_path / "m", 1)
    (folder / "adapter_config.json").write_text("{}")
    shutil.copy(folder / WEIGHTS_FILE, folder / "adapter_model.safetensors")
    with pytest.raises(ModelError, match=r"model\.safetensors, and an adapter, adapter_model\.safetensors"):
        load_model(folder)


@pytest.fixture
def cached(tmp_path: Path) -> Path:
    return save(tmp_path / "models--Qwen--Qwen2-VL-2B-Instruct" / "snapshots" / "6f1c", 1, shards=True)


def test_a_part_of_a_cached_checkpoint_names_the_command_that_completes_it(cached) -> None:
    sorted(cached.glob("model-*"))[-1].unlink()
    with pytest.raises(ModelError, match=r"is missing.*`hf download Qwen/Qwen2-VL-2B-Instruct`"):
        load_model(cached)


def test_a_link_that_an_interrupted_download_has_left_names_the_command_too(cached) -> None:
    for path in cached.glob("model*"):
        path.unlink()
    (cached / WEIGHTS_FILE).symlink_to("../../blobs/not-there")
    with pytest.raises(ModelError, match=r"is a link to a file that is not there.*`hf download Qwen/"):
        load_model(cached)


def test_a_part_of_a_cached_checkpoint_is_completed(cached, monkeypatch) -> None:
    path = sorted(cached.glob("model-*"))[-1]
    content = path.read_bytes()
    path.unlink()
    path.symlink_to("../../blobs/not-there")

    def download(name: str, allow_patterns: object, local_files_only: bool = False) -> str:
        if not local_files_only:
            path.unlink()
            path.write_bytes(content)
        return str(cached)

    monkeypatch.setattr(hub, "snapshot_download", download)
    assert hub.fetch_checkpoint("Qwen/Qwen2-VL-2B-Instruct") == cached
    check_weight_files(cached)


def test_without_a_network_a_part_of_a_cached_checkpoint_is_no_model(cached, monkeypatch) -> None:
    sorted(cached.glob("model-*"))[-1].unlink()

    def download(name: str, allow_patterns: object, local_files_only: bool = False) -> str:
        if not local_files_only:
            raise LocalEntryNotFoundError("no network")
        return str(cached)

    monkeypatch.setattr(hub, "snapshot_download", download)
    with pytest.raises(ModelError, match=r"holds only a part of.*`hf download Qwen/Qwen2-VL-2B-Instruct`"):
        hub.fetch_checkpoint("Qwen/Qwen2-VL-2B-Instruct")


def test_of_figures_that_are_put_into_a_card_at_once_none_is_lost(tmp_path) -> None:
    (tmp_path / "card.json").write_text('{"name": "kept", "figures": {"steps": 5}}')
    names = [f"figures {n}" for n in range(20)]
    with ThreadPoolExecutor(5) as training:
        list(training.map(lambda name: write_figures(tmp_path, name, {"of": name}), names))
    assert read_card(tmp_path).figures == {"steps": 5, **{name: {"of": name} for name in names}}
    assert json.loads((tmp_path / "card.json").read_text())["name"] == "kept"
