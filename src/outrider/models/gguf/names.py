# SPDX-License-Identifier: Apache-2.0
"""The names of a Qwen2 model's tensors and settings in GGUF and in transformers."""

from __future__ import annotations

import re

_WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_OF_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BIASED = ("attn_q", "attn_k", "attn_v")
_TENSOR = re.compile(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)")
HEAD = "lm_head.weight"
EMBEDDINGS = "model.embed_tokens.weight"


def module_name(tensor: str) -> str | None:
    """Return a tensor's name among transformers' modules; None for one that no Qwen2 model has."""
    match = _TENSOR.fullmatch(tensor)
    if match is None:
        return None
    layer, part, kind = match.groups()
    if kind == "bias" and part not in _BIASED:
        return None
    if layer is None:
        return f"{_WHOLE[part]}.{kind}" if part in _WHOLE else None
    return f"model.layers.{int(layer)}.{_OF_LAYER[part]}.{kind}" if part in _OF_LAYER else None
