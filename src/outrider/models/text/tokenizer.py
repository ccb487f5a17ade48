# SPDX-License-Identifier: Apache-2.0
"""Converts text to ids and back with a checkpoint's own byte-level BPE, read by transformers.

Settings saved with a vocabulary (truncation, padding, a post-processor) are for training; they do not
affect a prompt here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import tokenizers
from tokenizers import models
from transformers import Qwen2Tokenizer, TokenizersBackend

from outrider.core.errors import ModelError
from outrider.core.files.git_lfs import unreadable
from outrider.core.language.prompt import END_OF_TEXT, MARKUP, MARKUP_OF_TURNS
from outrider.models.checkpoint.absent import restore
from outrider.models.checkpoint.files import TOKENIZER_FILE, TOKENIZER_PARTS, has_tokenizer_files
from outrider.models.gguf.file import gguf_of, open_gguf
from outrider.models.gguf.vocabulary import end_ids, has_tokenizer, read_tokenizer
from outrider.models.text.end_tokens import read_end_ids

IMAGE_TOKEN = "<|image_pad|>"
INCOMPLETE_CHARACTER = "\ufffd"
_REMEDY = "use the tokenizer that the model came with"


class QwenTokenizer:
    """Implements `core.ports.Tokenizer`. Special tokens are parsed in `encode` and left out by `decode`."""

    def __init__(self, backend: tokenizers.Tokenizer, end_ids: frozenset[int]) -> None:
        """`image_id`: the token that stands for a picture, if the vocabulary has one."""
        vocabulary = backend.get_vocab(with_added_tokens=True)
        backend.no_truncation()
        backend.no_padding()
        backend.model.dropout = None
        self._backend = backend
        self.vocab_size: int = max(vocabulary.values()) + 1
        self.end_ids = end_ids
        self.image_id: int | None = vocabulary.get(IMAGE_TOKEN)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text; special tokens in it are parsed."""
        return list(self._backend.encode(text, add_special_tokens=False).ids)

    def encode_prompt(self, text: str) -> list[int]:
        """Return the ids of a prompt, in which only the control tokens of a prompt's form are markup.

        Any other control token, however it is spelled, is text of a person, a document or a sign, and is
        encoded as words.
        """
        ids: list[int] = []
        for part in self._markup.split(text):
            name = part.strip()
            known = self._backend.token_to_id(name) if name in MARKUP else None
            ids += self._words.encode(part, add_special_tokens=False).ids if known is None else [known]
        return ids

    def id_of(self, token: str) -> int | None:
        """Return the id of a token; None for one that the vocabulary does not have."""
        found: int | None = self._backend.token_to_id(token)
        return found

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of ids without an incomplete last character: a growing text only extends."""
        return self._backend.decode(list(token_ids), skip_special_tokens=True).rstrip(INCOMPLETE_CHARACTER)

    @cached_property
    def _markup(self) -> re.Pattern[str]:
        """An expression for a prompt's markup, including the blanks that the file makes part of a token."""
        added = {one.content: one for one in self._backend.get_added_tokens_decoder().values()}
        return re.compile(f"({'|'.join(_spelled(name, added.get(name)) for name in MARKUP)})")

    @cached_property
    def _words(self) -> tokenizers.Tokenizer:
        """The same vocabulary and rules, but without tokens that are cut out of a text first."""
        content = json.loads(self._backend.to_str())
        content["added_tokens"] = []
        return tokenizers.Tokenizer.from_str(json.dumps(content))

    @cached_property
    def fingerprint(self) -> str:
        """A hash that is equal for tokenizers with the same token ids;
        a draft and its target must share it.
        """
        pairs = sorted(
            (index, token) for token, index in self._backend.get_vocab(with_added_tokens=True).items()
        )
        return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()


def _spelled(name: str, token: tokenizers.AddedToken | None) -> str:
    """Return an expression for a token in a text: with the blanks around it, or only as a whole word."""
    found = re.escape(name)
    if token is None:
        return found
    if token.single_word:
        found = rf"(?<!\w){found}(?!\w)"
    return (r"\s*" if token.lstrip else "") + found + (r"\s*" if token.rstrip else "")


def load_tokenizer(model_folder: Path, tokenizer_folder: Path | None = None) -> QwenTokenizer:
    """Load the tokenizer from `tokenizer_folder`, else the model's GGUF file or folder, else `tokenizer/`.

    Its end tokens are the model's. Raises ModelError.
    """
    path = None if tokenizer_folder else gguf_of(model_folder)
    file = None if path is None else open_gguf(path)
    if file is not None and has_tokenizer(file):
        backend = read_tokenizer(file)
        return _with_ends(backend, model_folder, end_ids(file, backend))
    own = model_folder if path is None else path.parent
    candidates = [tokenizer_folder] if tokenizer_folder else [own, model_folder.parent / "tokenizer"]
    for candidate in filter(has_tokenizer_files, candidates):
        return _read_tokenizer(candidate, model_folder)
    looked = " and ".join(str(candidate / TOKENIZER_FILE) for candidate in candidates)
    raise ModelError(f"no tokenizer: looked for {looked}. {restore(own)}")


def _read_tokenizer(folder: Path, model_folder: Path) -> QwenTokenizer:
    whole = (folder / TOKENIZER_FILE).exists()
    path = folder / (TOKENIZER_FILE if whole else TOKENIZER_PARTS[0])
    try:
        reader = TokenizersBackend if whole else Qwen2Tokenizer
        read = reader.from_pretrained(folder, local_files_only=True)
        backend = read.backend_tokenizer
        own_end = read.eos_token_id
    except Exception as error:  # the libraries raise bare Exception for every kind of bad file
        raise unreadable(
            path, f"is no tokenizer, or what is saved beside it is wrong ({error}): restore its files"
        ) from error
    if not isinstance(backend.model, models.BPE):
        raise ModelError(f"{path} is a {type(backend.model).__name__}, and byte-level BPE is read: {_REMEDY}")
    own_end = backend.token_to_id(END_OF_TEXT) if own_end is None else own_end
    if own_end is None:
        raise ModelError(f"{path} has no token {END_OF_TEXT!r}: {_REMEDY}")
    return _with_ends(backend, model_folder, (own_end,))


def _with_ends(backend: tokenizers.Tokenizer, model_folder: Path, own: Iterable[int]) -> QwenTokenizer:
    vocab_size = max(backend.get_vocab(with_added_tokens=True).values()) + 1
    return QwenTokenizer(backend, read_end_ids(model_folder, vocab_size, own))


def check_markup(folder: Path, tokenizer: QwenTokenizer, image_id: int | None) -> None:
    """Raise ModelError if a token of a prompt's form is missing, or the model has another id for it.

    `image_id`: the model's token for a picture; None for a model without vision.
    """
    wanted = MARKUP_OF_TURNS if image_id is None else MARKUP
    missing = next((name for name in wanted if tokenizer.id_of(name) is None), None)
    if missing is not None:
        raise ModelError(f"{folder}: its tokenizer has no token {missing!r}, as prompts need: {_REMEDY}")
    if image_id not in (None, tokenizer.image_id):
        raise ModelError(
            f"{folder}: {IMAGE_TOKEN} is token {tokenizer.image_id} of its tokenizer, and {image_id} by its "
            f"configuration: {_REMEDY}"
        )
