# SPDX-License-Identifier: Apache-2.0
"""The tokens that end a model's texts, determined like transformers' `generate`.

`generation_config.json` names one or several. If it names none, `config.json` does, for a model of several
parts in its text part; else the tokenizer does.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from outrider.core.errors import ModelError
from outrider.models.checkpoint.card import read_json

CONFIG_FILE, GENERATION_FILE = "config.json", "generation_config.json"
KEY = "eos_token_id"


def read_end_ids(folder: Path, vocab_size: int, otherwise: Iterable[int]) -> frozenset[int]:
    """Return the end tokens of a model folder; `otherwise` are the tokenizer's own.

    Raises ModelError if they are not token ids, or none is in the vocabulary.
    """
    for path in (folder / GENERATION_FILE, folder / CONFIG_FILE):
        content = read_json(path) if path.exists() else {}
        text_part = content.get("text_config")
        for part in (content, text_part if isinstance(text_part, dict) else {}):
            if part.get(KEY) is not None:
                return _token_ids(path, part[KEY], vocab_size)
    return frozenset(otherwise)


def _token_ids(path: Path, given: Any, vocab_size: int) -> frozenset[int]:
    ids = given if isinstance(given, list) else [given]
    if not ids or not all(type(one) is int and one >= 0 for one in ids):
        raise ModelError(f"{path}: {KEY} is {given!r}, not a token id or a list of them: restore the file")
    known = frozenset(one for one in ids if one < vocab_size)
    if not known:
        raise ModelError(
            f"{path}: {KEY} is {given!r}, beyond the tokenizer's {vocab_size} tokens: use the tokenizer that "
            "the model was trained with"
        )
    return known
