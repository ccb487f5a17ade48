"""Text to ids and back with a checkpoint's own byte-level BPE."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import tokenizers

from outrider.core.errors import ModelError
from outrider.core.prompt import END_OF_TEXT

TOKENIZER_FILE = "tokenizer.json"
IMAGE_TOKEN = "<|image_pad|>"
INCOMPLETE_CHARACTER = "\ufffd"


class QwenTokenizer:
    """Implements `core.ports.Tokenizer`. Special tokens are parsed in `encode` and left out by `decode`."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        vocabulary = backend.get_vocab(with_added_tokens=True)
        self._backend = backend
        self.vocab_size: int = max(vocabulary.values()) + 1
        self.eos_id: int = vocabulary[END_OF_TEXT]
        self.image_id: int = vocabulary[IMAGE_TOKEN]

    def encode(self, text: str) -> list[int]:
        return list(self._backend.encode(text, add_special_tokens=False).ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Holds back a character whose last bytes have not come yet, so that a growing text only extends."""
        return self._backend.decode(list(token_ids), skip_special_tokens=True).rstrip(INCOMPLETE_CHARACTER)

    @cached_property
    def fingerprint(self) -> str:
        """Equal for tokenizers that give every token the same id: what a draft and its target must share."""
        pairs = sorted(
            (index, token) for token, index in self._backend.get_vocab(with_added_tokens=True).items()
        )
        return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()


def load_tokenizer(model_folder: Path, tokenizer_folder: Path | None = None) -> QwenTokenizer:
    """The tokenizer in `tokenizer_folder`, else in the model's folder, else in `tokenizer/` beside it."""
    candidates = [tokenizer_folder] if tokenizer_folder else [model_folder, model_folder.parent / "tokenizer"]
    for candidate in candidates:
        path = candidate / TOKENIZER_FILE
        if path.exists():
            return _read_tokenizer(path)
    looked = " and ".join(str(candidate / TOKENIZER_FILE) for candidate in candidates)
    raise ModelError(f"no tokenizer: looked for {looked}; restore it beside the models")


def _read_tokenizer(path: Path) -> QwenTokenizer:
    try:
        backend = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for every kind of bad file
        raise ModelError(f"{path} is no tokenizer ({error}): restore the file") from error
    try:
        return QwenTokenizer(backend)
    except KeyError as error:
        raise ModelError(
            f"{path} has no token {error}: use the tokenizer of a Qwen2-VL checkpoint"
        ) from error
