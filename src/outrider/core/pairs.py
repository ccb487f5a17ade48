# SPDX-License-Identifier: Apache-2.0
"""Draft and target must give every token the same id: the check, and what to do where they do not."""

from __future__ import annotations

from outrider.core.errors import ModelError
from outrider.core.ports import LanguageModel

PAIR_REMEDY = (
    "take both from one family, as Qwen2-VL-2B for Qwen2-VL-7B or Qwen2.5-VL-3B for Qwen2.5-VL-7B, "
    "each with the tokenizer.json that it was trained with"
)


def check_pair(target: LanguageModel, draft: LanguageModel) -> None:
    """Raises ModelError where their tokenizers differ."""
    if target.tokenizer.fingerprint != draft.tokenizer.fingerprint:
        raise ModelError(f"{draft.name} and {target.name} have different tokenizers: {PAIR_REMEDY}")
