"""GGUF files: numbers and ids are those that their own package reads; unsupported files are refused first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.text_models import K_KINDS, KINDS, PROMPT, build_text_model, write_gguf
from support.tiny_models import SENTENCES, SPECIAL_TOKENS
from transformers import AddedToken, Qwen2Tokenizer

from outrider.core.errors import ModelError, OutOfMemoryError
from outrider.core.model_options import PRECISIONS, Precision
from outrider.core.values import Prompt
from outrider.models import check_model, load_model, load_tokenizer
from outrider.models.footprint import footprint

ASKED = Prompt(PROMPT, b"")


def logits_of_transformers(path: Path, modules: torch.nn.Module, token_ids: list[int]) -> torch.Tensor:
    """Return logits of the file's numbers, as the package itself reads them, in the given modules."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, modules.config.num_hidden_layers)
    stored = {one.name: gguf.dequantize(one.data, one.tensor_type) for one in gguf.GGUFReader(path).tensors}
    with torch.inference_mode():
        for name, weight in modules.named_parameters():
            weight.copy_(torch.tensor(stored[names.get_name(name, try_suffixes=(".weight", ".bias"))]))
        return modules(torch.tensor([token_ids])).logits[0]


@pytest.mark.lengthy
@pytest.mark.parametrize("kind", [*KINDS, *K_KINDS])
def test_logits_are_those_that_transformers_computes_from_the_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.gguf"
    wide = {"hidden_size": 256, "intermediate_size": 256} if kind in K_KINDS else {}
    modules = write_gguf(path, kind, **wide)
    model = load_model(path)
    session = model.open_session()
    first, token_ids = session.prefill(ASKED), model.tokenizer.encode(PROMPT)
    rows = torch.cat([first[None], session.forward([7, 8, 9])])
    wanted = logits_of_transformers(path, modules, [*token_ids, 7, 8, 9])[-4:, : model.vocab_size]
    torch.testing.assert_close(rows, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tied", [True, False])
def test_a_folder_with_one_file_is_that_file(tmp_path: Path, tied: bool) -> None:
    modules = write_gguf(tmp_path / "model.gguf", "F32", tie_word_embeddings=tied)
    model = load_model(tmp_path)
    with torch.inference_mode():
        wanted = modules(torch.tensor([model.tokenizer.encode(PROMPT)])).logits[0, -1, : model.vocab_size]
    torch.testing.assert_close(model.open_session().prefill(ASKED), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_logits_are_those_of_the_same_weights_in_a_folder(tmp_path: Path, precision: Precision) -> None:
    write_gguf(tmp_path / "model.gguf", "F32").save_pretrained(tmp_path / "folder")
    of_file = load_model(tmp_path / "model.gguf", precision=precision)
    words = tmp_path / "words"
    of_folder = load_model(tmp_path / "folder", precision=precision, tokenizer_folder=words)
    rows = [model.open_session().prefill(ASKED) for model in (of_file, of_folder)]
    assert torch.equal(*rows)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write_gguf(path)
    return path


texts = st.lists(
    st.one_of(
        st.sampled_from([*SPECIAL_TOKENS, *SENTENCES, "cafe\u0301", "\x00\r\n\t ", "👩‍👩‍👧", "<|im_"]),
        st.text(max_size=20),
    )
).map("".join)


@pytest.mark.lengthy
@settings(max_examples=60, deadline=None)
@given(text=texts)
def test_ids_are_those_of_the_tokenizer_that_was_written(written: Path, text: str) -> None:
    of_file, of_folder = load_tokenizer(written), load_tokenizer(written.parent / "words")
    assert of_file.encode(text) == of_folder.encode(text)
    assert of_file.decode(of_file.encode(text)) == of_folder.decode(of_folder.encode(text))


@pytest.fixture(scope="module")
def written_as_qwen2(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Qwen2Tokenizer]:
    """Return a file whose words are split as Qwen2 does, and transformers' tokenizer for the same words."""
    path = tmp_path_factory.mktemp("qwen2") / "model.gguf"
    write_gguf(path, change=says("tokenizer.ggml.pre", "qwen2"))
    words = json.loads((path.parent / "words" / "tokenizer.json").read_text())["model"]
    own = Qwen2Tokenizer(words["vocab"], [tuple(pair) for pair in words["merges"]])
    own.add_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    return path, own


@settings(max_examples=60, deadline=None)
@given(text=texts)
def test_ids_are_those_of_transformers_qwen2(
    written_as_qwen2: tuple[Path, Qwen2Tokenizer], text: str
) -> None:
    path, own = written_as_qwen2
    assert load_tokenizer(path).encode(text) == own.encode(text, add_special_tokens=False)


def test_the_embedded_tokenizer_is_one_with_a_folders(written: Path) -> None:
    """So a target in one form and a draft in the other are a pair."""
    of_file, of_folder = load_tokenizer(written), load_tokenizer(written.parent / "words")
    assert of_file.fingerprint == of_folder.fingerprint
    ends = {of_folder.encode(name)[0] for name in ("<|im_end|>", "<|endoftext|>")}
    assert of_file.end_ids == ends


def says(key: str, value: Any) -> Callable[[gguf.GGUFWriter], None]:
    def change(writer: gguf.GGUFWriter) -> None:
        if key in writer.kv_data[0]:
            writer.kv_data[0][key].value = value
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_uint32(key, value)

    return change


REFUSED: list[tuple[Callable[[gguf.GGUFWriter], None], str]] = [
    (says("general.architecture", "llama"), r"'llama', and of GGUF files only 'qwen2' is read: choose"),
    (says("general.type", "adapter"), "'adapter', no model"),
    (says("split.count", 3), "one of 3 parts: join them"),
    (says("tokenizer.ggml.pre", "llama-bpe"), "'llama-bpe'.* 'qwen2' or 'gpt-2'"),
    (says("tokenizer.ggml.model", "llama"), "kind 'llama'"),
    (says("tokenizer.chat_template", "[INST] {{ x }} [/INST]"), r"chat template has no <\|im_start\|>"),
    (says("tokenizer.ggml.merges", ["a b c"]), "no pair"),
    (says("tokenizer.ggml.merges", ["a nowhere"]), "no sound tokenizer"),
    (says("tokenizer.ggml.token_type", [1, 2]), "tokens, and kinds of 2"),
    (says("qwen2.embedding_length", 96), r"embed_tokens\.weight has the shape"),
    (says("qwen2.block_count", 3), "lacks 12 weights"),
    (says("qwen2.attention.head_count", 0), "num_attention_heads is 0"),
    (says("qwen2.attention.key_length", 8), "key_length is 8"),
    (says("qwen2.rope.scaling.type", "longrope"), "scaling.factor|longrope"),
    (says("qwen2.attention.sliding_window", 8), "use_sliding_window is True"),
    (lambda writer: writer.add_float32("qwen2.rope.scale_linear", 2.0), "rope_type is 'linear'"),
    (says("qwen2.pooling_type", 3), r"embedding or ranking model \(pooling_type 3\)"),
    (lambda writer: writer.add_bool("qwen2.attention.causal", False), "embedding or ranking model"),
    (lambda writer: writer.add_tensor("blk.0.attn_output.bias", torch.ones(64).numpy()), "attn_output"),
    (lambda writer: writer.add_tensor("blk.0.ffn_gate_exps.weight", torch.ones(2, 2).numpy()), "exps"),
]


@pytest.mark.parametrize(("change", "reason"), REFUSED, ids=[reason[:20] for _, reason in REFUSED])
def test_what_cannot_be_run_is_refused_before_a_weight_is_read(
    tmp_path: Path, change: Callable[[gguf.GGUFWriter], None], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gguf(tmp_path / "model.gguf", change=change)
    monkeypatch.setattr("outrider.models.checkpoint.weights.read_tensors", pytest.fail)
    with pytest.raises(ModelError, match=reason):
        load_model(tmp_path / "model.gguf")


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01, 0.1, 0.3, 0.6, 0.99])
def test_a_file_that_is_cut_off_is_refused(written: Path, tmp_path: Path, share: float) -> None:
    whole = written.read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ModelError, match=r"cut\.gguf .*(download it again)"):
        check_model(tmp_path / "cut.gguf")


@settings(max_examples=80, deadline=None)
@given(place=st.integers(0, 3000), value=st.binary(min_size=1, max_size=8))
def test_a_damaged_header_is_refused_or_read(
    written: Path, tmp_path_factory: pytest.TempPathFactory, place: int, value: bytes
) -> None:
    """Never with another error, and never without end."""
    damaged = bytearray(written.read_bytes())
    damaged[place : place + len(value)] = value
    path = tmp_path_factory.mktemp("damaged") / "model.gguf"
    path.write_bytes(damaged)
    try:
        check_model(path)
    except ModelError as error:
        assert str(error)


def test_numbers_that_are_none_are_refused(written: Path, tmp_path: Path) -> None:
    def spoil(writer: gguf.GGUFWriter) -> None:
        writer.tensors[0]["token_embd.weight"].tensor[5, :2] = 255

    write_gguf(tmp_path / "model.gguf", change=spoil)
    with pytest.raises(ModelError, match=r"embed_tokens\.weight holds what is no number"):
        load_model(tmp_path)


def test_without_a_tokenizer_that_of_a_folder_is_taken_or_asked_for(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", tokenizer=False)
    with pytest.raises(ModelError, match="no tokenizer"):
        load_model(tmp_path / "model.gguf")
    assert load_model(tmp_path / "model.gguf", tokenizer_folder=tmp_path / "words").vocab_size == 400


def test_a_tokenizer_beside_a_file_is_taken(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.GGUF", tokenizer=False)
    (tmp_path / "words" / "tokenizer.json").rename(tmp_path / "tokenizer.json")
    for model in (tmp_path / "model.GGUF", tmp_path):
        assert load_model(model).vocab_size == 400


@pytest.mark.parametrize(
    ("begin", "reason"),
    [
        (b"GGUF\0\0\0\3", "it is big endian"),
        (b"GGUF\4\0\0\0", "of version 4"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
        (b"<!DOCTYPE html>", "does not begin with GGUF"),
    ],
)
def test_a_file_that_begins_otherwise_says_how(
    written: Path, tmp_path: Path, begin: bytes, reason: str
) -> None:
    (tmp_path / "model.gguf").write_bytes(begin + written.read_bytes()[len(begin) :])
    with pytest.raises(ModelError, match=reason):
        check_model(tmp_path / "model.gguf")


def test_of_several_files_one_must_be_named(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        write_gguf(tmp_path / name)
    with pytest.raises(ModelError, match=r"a\.gguf, b\.gguf: give the path of one"):
        load_model(tmp_path)
    load_model(tmp_path / "b.gguf")


def test_a_file_beside_a_configuration_is_named(tmp_path: Path) -> None:
    folder = build_text_model(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    write_gguf(folder / "q8.gguf")
    with pytest.raises(ModelError, match=r"there is q8\.gguf: give the path"):
        load_model(folder)


def test_too_little_memory_is_said_before_anything_is_read(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footprint, "available_bytes", lambda: 1000)
    monkeypatch.setattr("outrider.models.checkpoint.weights.read_tensors", pytest.fail)
    with pytest.raises(OutOfMemoryError, match="GB are free"):
        load_model(written)


def test_without_the_package_the_command_that_installs_it_is_named(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(written.read_bytes())
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    with pytest.raises(ModelError, match=r"pip install 'outrider\[gguf\]'"):
        load_model(copy)


def test_a_folders_end_tokens_go_before_the_files(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf")
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [5]}))
    assert load_tokenizer(tmp_path).end_ids == {5}
