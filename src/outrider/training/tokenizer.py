# SPDX-License-Identifier: Apache-2.0
"""The byte-level BPE tokenizer that the small models share, with Qwen2-VL's special tokens."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import cause_of
from outrider.core.files.writing import make_folder, replaced_in, writing_to

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
# Words with their leading space, single digits, punctuation, line ends: as Qwen2 splits.
_SPLIT = Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+")


def train_tokenizer(texts: Iterable[str], folder: Path, vocab_size: int = 768) -> PreTrainedTokenizerFast:
    """Learn merges from texts, and save the tokenizer in the format of transformers."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_SPLIT, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=[t for t in SPECIAL_TOKENS if t not in ("<|im_end|>", "<|endoftext|>")],
        clean_up_tokenization_spaces=False,
    )
    make_folder(folder)
    with writing_to(folder), replaced_in(folder) as made:
        fast.save_pretrained(made)
    return fast


def read_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer saved in a folder. Raises ConfigError if it cannot be read."""
    try:
        tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the libraries raise bare Exception for every kind of bad file
        raise ConfigError(
            f"{folder} holds no tokenizer that can be read ({cause_of(error)}): make it anew"
        ) from error
    return tokenizer
