# SPDX-License-Identifier: Apache-2.0
"""Translates a GGUF file's metadata into the content of a config.json."""

from __future__ import annotations

from typing import Any

from outrider.core.errors import ModelError
from outrider.models.gguf.file import ARCHITECTURE, GgufFile
from outrider.models.gguf.names import EMBEDDINGS, HEAD

_SIZES = {
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
    "context_length": "max_position_embeddings",
}
_NUMBER = (int, float)


def config_content(file: GgufFile) -> dict[str, Any]:
    """Return the content of the checkpoint's config.json.

    Raises ModelError for missing or impossible settings.
    """

    def key(name: str) -> str:
        return f"{ARCHITECTURE}.{name}"

    sizes = {name: file.need(key(stored), int) for stored, name in _SIZES.items()}
    if EMBEDDINGS not in file.tensors:
        raise ModelError(f"{file.path} holds no token_embd.weight: restore the file")
    _check_head_width(file, sizes["hidden_size"], sizes["num_attention_heads"])
    _check_writes(file)
    window = file.get(key("attention.sliding_window"), int, 0)
    return sizes | {
        "model_type": ARCHITECTURE,
        "num_key_value_heads": file.get(key("attention.head_count_kv"), int, sizes["num_attention_heads"]),
        "rms_norm_eps": file.need(key("attention.layer_norm_rms_epsilon"), _NUMBER),
        "vocab_size": file.tensors[EMBEDDINGS].shape[0],
        "tie_word_embeddings": HEAD not in file.tensors,
        "use_sliding_window": window > 0,
        "sliding_window": window or None,
        "max_window_layers": 0,
        "rope_parameters": _rope(file),
    }


def _check_head_width(file: GgufFile, hidden: int, heads: int) -> None:
    """Raise ModelError for heads that do not divide the width evenly."""
    for name in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
        width = file.get(f"{ARCHITECTURE}.{name}", int)
        if width is not None and width * heads != hidden:
            raise ModelError(
                f"{file.path}: {ARCHITECTURE}.{name} is {width}, and {heads} heads share {hidden}: "
                "choose another file of the model"
            )


def _check_writes(file: GgufFile) -> None:
    """Raise ModelError for a model that computes vectors or scores and does not write text."""
    pooling = file.get(f"{ARCHITECTURE}.pooling_type", int, 0)
    if pooling > 0 or not file.get(f"{ARCHITECTURE}.attention.causal", bool, True):
        raise ModelError(
            f"{file.path} is an embedding or ranking model (pooling_type {pooling}), which writes no text: "
            "choose one that does"
        )


def _rope(file: GgufFile) -> dict[str, Any]:
    """Return the parameters of the rotary positions, with transformers' names."""
    prefix = f"{ARCHITECTURE}.rope."
    found: dict[str, Any] = {"rope_theta": float(file.get(f"{prefix}freq_base", _NUMBER, 10000.0))}
    kind = file.get(f"{prefix}scaling.type", str, "none")
    linear = float(file.get(f"{prefix}scale_linear", _NUMBER, 1.0))  # in older files
    if kind == "none" and linear != 1.0:
        return found | {"rope_type": "linear", "factor": linear}
    if kind == "none":
        return found | {"rope_type": "default"}
    found |= {"rope_type": kind, "factor": float(file.need(f"{prefix}scaling.factor", _NUMBER))}
    original = file.get(f"{prefix}scaling.original_context_length", int)
    return found if original is None else found | {"original_max_position_embeddings": original}
