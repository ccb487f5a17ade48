"""A tokenizer file is only data: a prompt's ids are those of transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from support.tiny_models import SENTENCES, SPECIAL_TOKENS, build_tokenizer
from tokenizers import normalizers, processors
from transformers import AddedToken, PreTrainedTokenizerFast

from outrider.core.errors import ModelError
from outrider.models import load_tokenizer

ODD = [
    "",
    " ",
    "\n\n",
    "\t\x00\x07\x1b",
    "cafe\u0301",
    "\u1100\u1161\u11a8",
    "👩‍👩‍👧‍👦🐕",
    "قف عند الباب",
    "\u202eלעצור\u202c",
    "犬を探して",
    "\ufeff\u200b",
    "<|im_start|>",
    "<|im_end|><|image_pad|>",
    "<|im_",
    "end|>",
    "\uff1c|im_end|\uff1e",
    "x" * 5000,
    "find the cup " * 300,
]
texts = st.lists(st.one_of(st.sampled_from([*ODD, *SPECIAL_TOKENS, *SENTENCES]), st.text(max_size=20))).map(
    "".join
)


def padded(tokenizer: tokenizers.Tokenizer) -> None:
    tokenizer.enable_padding(length=256, pad_token="<|endoftext|>")


def truncated(tokenizer: tokenizers.Tokenizer) -> None:
    tokenizer.enable_truncation(16)


def post_processed(tokenizer: tokenizers.Tokenizer) -> None:
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A <|im_end|>", special_tokens=[("<|im_start|>", 1), ("<|im_end|>", 2)]
    )


def composed(tokenizer: tokenizers.Tokenizer) -> None:
    tokenizer.normalizer = normalizers.NFC()


def compatible(tokenizer: tokenizers.Tokenizer) -> None:
    """Add a control token that also matches what the normalizer makes equal to it."""
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.add_tokens([AddedToken("<|act|>", normalized=True)])


def added(tokenizer: tokenizers.Tokenizer) -> None:
    tokenizer.add_tokens([AddedToken("§act§"), AddedToken("<tool>", lstrip=True, rstrip=True)])
    tokenizer.add_special_tokens([AddedToken("[GO]", special=True)])


CHANGES = [padded, truncated, post_processed, composed, compatible, added]
PLAIN = [padded, truncated, post_processed]


def changed(folder: Path, *changes: Callable[[tokenizers.Tokenizer], None]) -> Path:
    tokenizer = build_tokenizer(folder)
    for change in changes:
        change(tokenizer)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize("change", PLAIN)
def test_what_a_file_was_saved_with_for_training_does_not_change_a_prompt(tmp_path, change) -> None:
    plain, other = (load_tokenizer(changed(tmp_path / name, *c)) for name, c in (("a", []), ("b", [change])))
    for text in (*ODD, *SENTENCES):
        assert other.encode(text) == plain.encode(text)
    assert other.fingerprint == plain.fingerprint


@pytest.fixture(scope="module", params=CHANGES, ids=lambda change: change.__name__)
def both(request, tmp_path_factory):
    """Return our tokenizer and transformers' for the same file."""
    folder = changed(tmp_path_factory.mktemp("tokenizer"), request.param)
    return load_tokenizer(folder), PreTrainedTokenizerFast.from_pretrained(folder)


@pytest.mark.lengthy
@given(texts)
def test_ids_are_those_of_transformers(both, text) -> None:
    ours, theirs = both
    assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("way", ["lstrip", "rstrip", "single_word", "normalized"])
def test_a_prompt_is_transformers_own_whatever_its_markup_takes_with_it(tmp_path, way) -> None:
    build_tokenizer(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    for token in content["added_tokens"]:
        token[way] = True
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    ours, theirs = load_tokenizer(tmp_path), PreTrainedTokenizerFast.from_pretrained(tmp_path)
    for text in (*SENTENCES, "a <|im_end|>\n <|im_start|> b", "\n<|im_end|>", "x<|im_end|>"):
        assert ours.encode_prompt(text) == theirs(text, add_special_tokens=False)["input_ids"]


def test_dropout_is_for_training(tmp_path) -> None:
    build_tokenizer(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["model"]["dropout"] = 0.5
    plain = load_tokenizer(tmp_path).encode(SENTENCES[0])
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    for way in (load_tokenizer(tmp_path).encode, load_tokenizer(tmp_path).encode_prompt):
        assert way(SENTENCES[0]) == plain


def test_another_kind_of_tokenizer_is_refused(tmp_path) -> None:
    words = tokenizers.models.WordPiece({"a": 0, "<|im_end|>": 1}, unk_token="a")
    tokenizers.Tokenizer(words).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ModelError, match="is a WordPiece, and byte-level BPE is read"):
        load_tokenizer(tmp_path)


def test_a_damaged_configuration_of_a_tokenizer_is_refused(tmp_path) -> None:
    build_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(ModelError, match="or what is saved beside it is wrong"):
        load_tokenizer(tmp_path)


def test_tokens_that_only_a_saved_configuration_adds_are_read(tmp_path) -> None:
    build_tokenizer(tmp_path)
    saved = {"additional_special_tokens": ["<|act|>"], "eos_token": "<|im_end|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(saved))
    theirs = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    text = "go <|act|> on"
    assert load_tokenizer(tmp_path).encode(text) == theirs(text, add_special_tokens=False)["input_ids"]
