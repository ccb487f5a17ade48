# SPDX-License-Identifier: Apache-2.0
"""The sizes of the small models, as Qwen2-VL configurations: the same classes as the large checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerFast, Qwen2VLConfig, Qwen2VLForConditionalGeneration

MAX_POSITIONS = 1024


@dataclass(frozen=True)
class Sizes:
    """Widths and depths of the vision and text halves; a vision head's width must be a multiple of 4."""

    vision_width: int
    vision_depth: int
    vision_heads: int
    text_width: int
    text_depth: int
    text_heads: int
    text_kv_heads: int
    text_mlp: int


SIZES = {
    "target": Sizes(160, 6, 5, 192, 6, 4, 2, 512),
    "draft": Sizes(64, 3, 4, 96, 2, 3, 1, 256),
    "reader": Sizes(16, 1, 2, 128, 3, 4, 4, 256),
}
"""The reader gets no pictures; it has a vision half because the classes require one."""


def build_model(role: str, tokenizer: PreTrainedTokenizerFast) -> Qwen2VLForConditionalGeneration:
    """Return a freshly initialised model of a role."""
    sizes = SIZES[role]
    ids = {name: tokenizer.convert_tokens_to_ids(f"<|{name}|>") for name in ("im_end", "endoftext")}
    config = Qwen2VLConfig(
        text_config={
            **_text_sizes(sizes),
            "vocab_size": len(tokenizer),
            "tie_word_embeddings": True,
            "bos_token_id": ids["endoftext"],
            "eos_token_id": ids["im_end"],
            "pad_token_id": ids["endoftext"],
        },
        vision_config={
            "depth": sizes.vision_depth,
            "embed_dim": sizes.vision_width,
            "num_heads": sizes.vision_heads,
            "hidden_size": sizes.text_width,
            "mlp_ratio": 4,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<|image_pad|>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<|video_pad|>"),
        vision_start_token_id=tokenizer.convert_tokens_to_ids("<|vision_start|>"),
        vision_end_token_id=tokenizer.convert_tokens_to_ids("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    model = Qwen2VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = ids["im_end"]
    model.generation_config.pad_token_id = ids["endoftext"]
    return model


def _text_sizes(sizes: Sizes) -> dict[str, Any]:
    head = sizes.text_width // sizes.text_heads
    sideways = head // 8 + head // 16
    return {
        "hidden_size": sizes.text_width,
        "intermediate_size": sizes.text_mlp,
        "num_hidden_layers": sizes.text_depth,
        "num_attention_heads": sizes.text_heads,
        "num_key_value_heads": sizes.text_kv_heads,
        "max_position_embeddings": MAX_POSITIONS,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [head // 2 - 2 * sideways, sideways, sideways],
        },
    }
