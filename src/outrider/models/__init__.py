# SPDX-License-Identifier: Apache-2.0
"""The Qwen2-VL runtime: weights, tokenizer and frames behind `core.ports.LanguageModel`.

One code path serves the small shipped pair and Qwen2-VL-2B/7B: transformers reads the checkpoints, and our
own forward pass runs them with a static key/value cache. Names are imported on first use, because importing
torch takes seconds and reading a model's card does not need it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outrider.models.checkpoint.card import ModelCard, read_card
    from outrider.models.checkpoint.configuration import check_sees
    from outrider.models.checkpoint.hub import model_name
    from outrider.models.constrained import ConstrainedModel, constrain
    from outrider.models.loading import (
        check_model,
        load_exact_model,
        load_graph_model,
        load_head,
        load_model,
    )
    from outrider.models.reference import ReferenceGenerator
    from outrider.models.session import QwenModel, QwenSession
    from outrider.models.text.tokenizer import QwenTokenizer, load_tokenizer

__all__ = [
    "ConstrainedModel",
    "ModelCard",
    "QwenModel",
    "QwenSession",
    "QwenTokenizer",
    "ReferenceGenerator",
    "check_model",
    "check_sees",
    "constrain",
    "load_exact_model",
    "load_graph_model",
    "load_head",
    "load_model",
    "load_tokenizer",
    "model_name",
    "read_card",
]
_MODULES = {
    "checkpoint.card": ("ModelCard", "read_card"),
    "checkpoint.configuration": ("check_sees",),
    "checkpoint.hub": ("model_name",),
    "constrained": ("ConstrainedModel", "constrain"),
    "loading": ("check_model", "load_exact_model", "load_graph_model", "load_head", "load_model"),
    "reference": ("ReferenceGenerator",),
    "session": ("QwenModel", "QwenSession"),
    "text.tokenizer": ("QwenTokenizer", "load_tokenizer"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
