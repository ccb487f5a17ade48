"""Model folders damaged in every way that a download or a disk can damage them."""

from __future__ import annotations

import itertools
import json
import math
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.tiny_models import SENTENCES, add_exits, build_tiny_model, random_prompt

from outrider.core.errors import ConfigError, ModelError
from outrider.core.language.grammar import Vocabulary
from outrider.core.model_options import PRECISIONS, Precision
from outrider.core.pairs import check_pair, checksum, checksum_text, is_named
from outrider.models import QwenModel, load_model, load_tokenizer, read_card
from outrider.models.checkpoint.files import weights_mark
from outrider.models.checkpoint.hub import model_name


@pytest.fixture
def folder(tiny_model_folder: Path, tmp_path: Path) -> Path:
    """Return a target folder that a test may damage, with its tokenizer next to it."""
    copy = tmp_path / "models"
    shutil.copytree(tiny_model_folder, copy)
    return copy / "target"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def drop_a_weight(path: Path) -> None:
    weights = load_file(path)
    del weights[next(name for name in sorted(weights) if "up_proj" in name)]
    save_file(weights, path, metadata={"format": "pt"})


def spoil(part: str, number: float) -> Callable[[Path], None]:
    """Return a change that writes a number into the middle of the first weight with `part` in its name."""

    def damage(path: Path) -> None:
        weights = load_file(path)
        spoilt = weights[next(name for name in sorted(weights) if part in name)].view(-1)
        spoilt[len(spoilt) // 2] = number
        save_file(weights, path, metadata={"format": "pt"})

    return damage


def set_key(name: str, value: object) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = json.loads(path.read_text())
        content[name] = value
        path.write_text(json.dumps(content))

    return damage


def set_size(part: str, name: str, value: object) -> Callable[[Path], None]:
    return lambda path: set_key(part, json.loads(path.read_text())[part] | {name: value})(path)


DAMAGE: list[tuple[str, Callable[[Path], None], str]] = [
    ("config.json", Path.unlink, r"config\.json is missing"),
    ("config.json", lambda path: path.write_text("{"), r"config\.json cannot be read"),
    ("config.json", lambda path: path.write_text("[]"), "JSON object"),
    ("config.json", set_key("model_type", "llama"), "'llama'"),
    ("config.json", set_key("quantization_config", "awq"), r"config\.json: quantization_config is 'awq'"),
    (
        "config.json",
        set_key("model_type", "qwen2_5_vl"),
        r"\['Qwen2VLForConditionalGeneration'\], and of .* only Qwen2_5_VLForConditionalGeneration is run",
    ),
    (
        "config.json",
        set_size("text_config", "hidden_size", 64),
        r"mrope_section is \[2, 1, 1\], and must be three numbers that add up to 8, half of a head's width",
    ),
    (
        "config.json",
        set_size("text_config", "intermediate_size", 32),
        r"gate_proj\.weight has the shape \(64, 32\) .* but \(32, 32\) after its config\.json",
    ),
    (
        "config.json",
        set_size("text_config", "num_attention_heads", 0),
        r"config\.json: text_config\.num_attention_heads is 0",
    ),
    (
        "config.json",
        set_size("text_config", "num_attention_heads", 3),
        r"hidden_size is 32, which num_attention_heads=3 does not divide",
    ),
    (
        "config.json",
        set_size("vision_config", "num_heads", 0),
        r"config\.json: vision_config\.num_heads is 0",
    ),
    (
        "config.json",
        set_size("text_config", "rope_parameters", {"rope_theta": 1e4, "mrope_section": [1, 1]}),
        r"config\.json: mrope_section is \[1, 1\], and must be three numbers that add up to 4",
    ),
    ("model.safetensors", Path.unlink, r"model\.safetensors is missing"),
    ("model.safetensors", truncate, r"model\.safetensors is truncated"),
    (
        "model.safetensors",
        lambda path: path.write_bytes(b"<html>"),
        r"model\.safetensors is truncated or corrupt",
    ),
    ("model.safetensors", drop_a_weight, "lacks 1 weights.*up_proj"),
    (
        "model.safetensors",
        spoil("up_proj", math.nan),
        r"layers\.0\.mlp\.up_proj\.weight holds NaN",
    ),
    ("model.safetensors", spoil("embed_tokens", math.inf), r"embed_tokens\.weight holds NaN or infinity"),
    ("model.safetensors", spoil("visual", -math.inf), r"visual\..* holds NaN or infinity"),
    ("card.json", set_key("slots", "find the"), "slots must hold a list of words"),
    ("card.json", set_key("slots", {"kind": "ball"}), "slots must hold a list of words"),
    ("card.json", set_key("slots", {"kind": ["ball", ""]}), "slots must hold a list of words"),
    ("card.json", set_key("slots", {"kind": ["ball", 3]}), "slots must hold a list of words"),
    ("card.json", set_key("shapes", [["kind", "colour"]]), "no thing is named by 'kind colour'"),
    ("card.json", set_key("shapes", "kind"), "shapes lists of slots"),
    ("card.json", set_key("rooms", "yes"), "rooms"),
    ("../tokenizer/tokenizer.json", Path.unlink, "no tokenizer"),
    ("../tokenizer/tokenizer.json", lambda path: path.write_text("{}"), "is no tokenizer"),
]


@pytest.mark.parametrize(("file", "damage", "message"), DAMAGE)
def test_a_damaged_folder_names_its_file(
    folder: Path, file: str, damage: Callable[[Path], None], message: str
) -> None:
    damage(folder / file)
    with pytest.raises(ModelError, match=message):
        load_model(folder)


@pytest.mark.lengthy
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_model_is_the_same_beside_the_loading_of_another(folder: Path, precision: Precision) -> None:
    """transformers changes the default type of all threads while it loads."""
    add_exits(folder, (1,), torch.arange(9))
    prompt, rows = random_prompt(1), list[torch.Tensor]()
    for default in (torch.float32, torch.bfloat16):
        before = torch.get_default_dtype()
        torch.set_default_dtype(default)
        try:
            model = load_model(folder, precision=precision)
            rows.append(model.open_session().prefill(prompt))
        finally:
            torch.set_default_dtype(before)
        assert model.exits is not None
    assert torch.equal(*rows)


@pytest.mark.lengthy
def test_several_threads_may_load_at_once(folder: Path) -> None:
    together, loaded = threading.Barrier(6), list[QwenModel]()

    def load() -> None:
        together.wait()
        loaded.append(load_model(folder))

    threads = [threading.Thread(target=load) for _ in range(together.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    prompt = random_prompt(1)
    rows = [model.open_session().prefill(prompt) for model in loaded]
    assert len(rows) == together.parties and all(torch.equal(row, rows[0]) for row in rows)


def test_a_missing_folder_and_bad_options_are_refused(tiny_model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="threads"):
        load_model(tiny_model_folder / "target", threads=0)
    with pytest.raises(ConfigError, match="threads must be at most 1024"):
        load_model(tiny_model_folder / "target", threads=100_000)
    with pytest.raises(ConfigError, match="max_length"):
        load_model(tiny_model_folder / "target", max_length=0)


def test_weights_of_another_shape_are_refused(folder: Path) -> None:
    shutil.copy(folder.parent / "draft" / "model.safetensors", folder / "model.safetensors")
    with pytest.raises(ModelError, match=r"weight has the shape \(8, 3, .*target, but \(16, 3, "):
        load_model(folder)


def test_the_layout_of_the_published_checkpoints_is_read(folder: Path, target: QwenModel) -> None:
    """As in Qwen2-VL-2B and 7B: text settings at the top, `rope_scaling` of type mrope, shards, no card."""
    config = json.loads((folder / "config.json").read_text())
    text = config.pop("text_config")
    rope = text.pop("rope_parameters")
    del text["model_type"], text["layer_types"], text["sliding_window"]
    config |= text | {
        "rope_theta": rope["rope_theta"],
        "rope_scaling": {"type": "mrope", "mrope_section": rope["mrope_section"]},
        "sliding_window": 32768,
    }
    (folder / "config.json").write_text(json.dumps(config))
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    shards = {"model-00001-of-00002.safetensors": names[:20], "model-00002-of-00002.safetensors": names[20:]}
    for file, part in shards.items():
        save_file({name: weights[name] for name in part}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, part in shards.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()
    (folder / "card.json").unlink()
    model = load_model(folder)
    assert model.card.vocabulary is None
    logits = [each.open_session().prefill(random_prompt(1)) for each in (model, target)]
    assert torch.equal(*logits)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model-00002-of-00002.safetensors is missing"):
        load_model(folder)


def test_the_card_gives_the_vocabulary(target: QwenModel, tmp_path: Path) -> None:
    assert target.card.vocabulary == Vocabulary({"colour": ("silver",), "kind": ("bottle",)})
    assert target.card.figures == {"seed": 0}
    assert read_card(tmp_path).vocabulary is None
    words = Vocabulary({"colour": ("red",), "kind": ("ball",)}, (("kind",), ("colour", "kind")), rooms=True)
    (tmp_path / "card.json").write_text(json.dumps(msgspec.to_builtins(words)))
    assert read_card(tmp_path).vocabulary == words


def test_a_pair_must_share_its_tokenizer(target: QwenModel, tiny_model_folder: Path, tmp_path: Path) -> None:
    check_pair(target, load_model(tiny_model_folder / "draft", "draft"))
    build_tiny_model(tmp_path / "draft")
    path = tmp_path / "tokenizer" / "tokenizer.json"
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    path.write_text(json.dumps(content))
    draft = load_model(tmp_path / "draft", "draft")
    with pytest.raises(ModelError, match=f"{draft.name} and {target.name} have different.*one family"):
        check_pair(target, draft)


def test_a_name_tells_weights_and_precisions_apart(folder: Path, target: QwenModel) -> None:
    again, other = load_model(folder), load_model(folder, precision="bf16")
    weights = load_file(folder / "model.safetensors")
    moved = next(name for name in sorted(weights) if "up_proj" in name)
    save_file({**weights, moved: weights[moved] * 1.001}, folder / "model.safetensors", {"format": "pt"})
    names = [target.name, again.name, other.name, load_model(folder).name]
    assert names[0] == names[1] and len(set(names)) == 3
    assert all(is_named("target:target", name) and is_named(name, name) for name in names)
    assert is_named("target:target, constrained", f"{target.name}, constrained")
    assert not is_named("target:other", target.name) and not is_named(names[2], names[0])
    assert is_named(checksum_text(checksum(names[0])), names[0])
    assert not is_named(checksum_text(checksum(names[0])), names[2])


def test_a_growing_text_only_extends(tiny_model_folder: Path) -> None:
    tokenizer = load_tokenizer(tiny_model_folder / "target")
    for text in (SENTENCES[1], "ein Stück weiter, 20 °C, 犬 🐕 läuft"):
        token_ids = tokenizer.encode(text)
        grown = [tokenizer.decode(token_ids[:count]) for count in range(len(token_ids) + 1)]
        assert grown[-1] == text
        assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(grown))


def test_special_tokens_are_parsed_and_left_out_of_texts(tiny_model_folder: Path) -> None:
    tokenizer = load_tokenizer(tiny_model_folder / "draft")
    token_ids = tokenizer.encode("stop<|im_end|>")
    assert token_ids[-1] in tokenizer.end_ids
    assert tokenizer.decode(token_ids) == "stop"


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("models/target", "target"),
        ("hub/models--Qwen--Qwen2-VL-7B-Instruct/snapshots/6f1c", "Qwen/Qwen2-VL-7B-Instruct"),
        ("my/snapshots/target", "target"),
        ("target", "target"),
    ],
)
def test_a_checkpoint_from_the_hub_goes_by_its_name_there(folder, name):
    assert model_name(Path(folder)) == name


@pytest.mark.parametrize("changed", ["norm.weight", "layers.0.bias", "layers.1.bias"])
def test_another_value_of_a_small_tensor_in_any_shard_makes_another_mark(
    tmp_path: Path, changed: str
) -> None:
    shards = {
        f"model-{number}.safetensors": {
            f"layers.{number}.weight": torch.zeros(1000, 1000),
            f"layers.{number}.bias": torch.zeros(10),
            **({} if number else {"norm.weight": torch.ones(10)}),
        }
        for number in range(2)
    }
    index = {"metadata": {}, "weight_map": {name: file for file, held in shards.items() for name in held}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    marks = []
    for added in (0.0, 0.0, 0.5):
        for file, held in shards.items():
            save_file({name: one + added * (name == changed) for name, one in held.items()}, tmp_path / file)
        marks.append(weights_mark(tmp_path, "fp32"))
    assert marks[0] == marks[1] != marks[2]
