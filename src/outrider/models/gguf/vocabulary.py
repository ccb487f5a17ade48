# SPDX-License-Identifier: Apache-2.0
"""The tokenizer in a GGUF file: byte-level BPE that splits words like Qwen2 or GPT-2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from outrider.core.errors import ModelError
from outrider.core.language.prompt import END_OF_TEXT
from outrider.models.gguf.file import GgufFile

_KEY = "tokenizer.ggml."
_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")
_NAMED_ENDS = (END_OF_TEXT, "<|endoftext|>")
"""End tokens of Qwen2's models: their generation_config.json names both, a GGUF file only one."""
_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5
_TURN = "<|im_start|>"
_REMEDY = (
    "choose a file that convert_hf_to_gguf.py of llama.cpp has made of a Qwen2 or Qwen2.5 model, or give the "
    "folder of a tokenizer"
)


def _as_qwen2(backend: tokenizers.Tokenizer) -> None:
    backend.normalizer = normalizers.NFC()
    words = pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), "isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


def _as_gpt2(backend: tokenizers.Tokenizer) -> None:
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)


_SPLITTERS: dict[str, Callable[[tokenizers.Tokenizer], None]] = {"qwen2": _as_qwen2, "gpt-2": _as_gpt2}
"""The word splitters, by `tokenizer.ggml.pre`."""


def has_tokenizer(file: GgufFile) -> bool:
    """Return whether the file has a vocabulary."""
    return f"{_KEY}tokens" in file.metadata


def read_tokenizer(file: GgufFile) -> tokenizers.Tokenizer:
    """Return the tokenizer, without tokens that only pad the embeddings. Raises ModelError."""
    split = _splitter(file)
    tokens, kinds = _tokens(file)
    ids = {token: index for index, token in enumerate(tokens) if kinds[index] != _UNUSED}
    if len(ids) != len(tokens) - kinds.count(_UNUSED):
        raise ModelError(f"{file.path}: {_KEY}tokens holds a token twice: {_REMEDY}")
    try:
        backend = tokenizers.Tokenizer(models.BPE(vocab=ids, merges=_merges(file)))
    except Exception as error:  # the library raises bare Exception for a merge of unknown tokens
        raise ModelError(f"{file.path} holds no sound tokenizer ({error}): {_REMEDY}") from error
    split(backend)
    backend.decoder = decoders.ByteLevel()
    added = [(token, kinds[index]) for token, index in ids.items()]
    for token, kind in added:
        if kind in (_CONTROL, _USER_DEFINED):
            special = kind == _CONTROL
            (backend.add_special_tokens if special else backend.add_tokens)(
                [AddedToken(token, special=special, normalized=False)]
            )
    return backend


def end_ids(file: GgufFile, backend: tokenizers.Tokenizer) -> frozenset[int]:
    """Return the tokens that end the model's texts. Raises ModelError if none is known."""
    given = [file.get(f"{_KEY}{name}", int) for name in _ENDS]
    found = {*given, *map(backend.token_to_id, _NAMED_ENDS)} - {None}
    known = frozenset(one for one in found if backend.id_to_token(one) is not None)
    if not known:
        raise ModelError(f"{file.path} names no token that ends a text: {_REMEDY}")
    return known


def _splitter(file: GgufFile) -> Callable[[tokenizers.Tokenizer], None]:
    """Return the tokenizer's word splitter. Raises ModelError for an unknown one, or unknown markup."""
    model, pre = file.get(f"{_KEY}model", str), file.get(f"{_KEY}pre", str)
    if model != "gpt2" or pre not in _SPLITTERS:
        known = " or ".join(map(repr, _SPLITTERS))
        raise ModelError(
            f"{file.path} has a tokenizer of the kind {model!r}, {pre!r}, and byte-level BPE ('gpt2') that "
            f"splits words as {known} does is read: {_REMEDY}"
        )
    template = file.get("tokenizer.chat_template", str)
    if template is not None and _TURN not in template:
        raise ModelError(
            f"{file.path}: its chat template has no {_TURN}, with which prompts are written here: {_REMEDY}"
        )
    return _SPLITTERS[pre]


def _tokens(file: GgufFile) -> tuple[list[str], list[int]]:
    """Return all tokens and the kind of each. Raises ModelError if their numbers or types do not match."""
    tokens, kinds = file.need(f"{_KEY}tokens", list), file.need(f"{_KEY}token_type", list)
    if len(tokens) != len(kinds) or not _all_are(str, tokens) or not _all_are(int, kinds):
        raise ModelError(
            f"{file.path} has {len(tokens)} tokens, and kinds of {len(kinds)}: restore the file, or download "
            "it again"
        )
    return tokens, kinds


def _merges(file: GgufFile) -> list[tuple[str, str]]:
    halves = [str(merge).split(" ") for merge in file.need(f"{_KEY}merges", list)]
    if any(len(pair) != 2 for pair in halves):
        raise ModelError(f"{file.path}: {_KEY}merges holds what is no pair: {_REMEDY}")
    return [(left, right) for left, right in halves]


def _all_are(kind: type, values: list[Any]) -> bool:
    return all(isinstance(value, kind) for value in values)
