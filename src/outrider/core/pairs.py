# SPDX-License-Identifier: Apache-2.0
"""Which models belong together: a draft and a target with the same token ids. Also identifies, by its name,
the target that began a text.
"""

from __future__ import annotations

import re
from zlib import crc32

from outrider.core.errors import ModelError
from outrider.core.ports import LanguageModel

PAIR_REMEDY = (
    "take both from one family, as Qwen2-VL-2B for Qwen2-VL-7B or Qwen2.5-VL-3B for Qwen2.5-VL-7B, "
    "each with the tokenizer.json that it was trained with"
)


def check_pair(target: LanguageModel, draft: LanguageModel) -> None:
    """Raise ModelError if the tokenizers of target and draft differ."""
    if target.tokenizer.fingerprint != draft.tokenizer.fingerprint:
        raise ModelError(f"{draft.name} and {target.name} have different tokenizers: {PAIR_REMEDY}")


def marked(name: str, mark: str) -> str:
    """Return a model's name with the mark of its weights, eight hexadecimal digits."""
    return f"{name}@{mark}"


def checksum(name: str) -> int:
    """Return the checksum of a model's name, below 2**32; on the wire it identifies the model of a text."""
    return crc32(name.encode())


def checksum_text(number: int) -> str:
    """Return a checksum as text, to be used in place of a model's name."""
    return f"#{number:08x}"


def is_named(wanted: str, name: str) -> bool:
    """Return whether `wanted` names a model: with or without the mark of its weights, or by its checksum."""
    unmarked = re.sub(r"@[0-9a-f]{8}(?=$|, )", "", name)
    return wanted in (name, unmarked, checksum_text(checksum(name)))
