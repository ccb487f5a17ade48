"""Builds folders with the published checkpoints' settings and widths, but fewer layers and random weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch
from safetensors.torch import save_file
from support.tiny_models import build_tokenizer

from outrider.models.checkpoint.architectures import ARCHITECTURES
from outrider.models.checkpoint.configuration import read_config

VOCABULARY = 151_665
"""The vocabulary size of the published tokenizers. The checkpoints have more rows."""


@dataclass(frozen=True)
class Published:
    """The settings that differ between the checkpoints' `config.json` files."""

    architecture: str
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    vocab_rows: int
    tied: bool


PUBLISHED = {
    "Qwen2-VL-2B": Published("qwen2_vl", 1536, 8960, 12, 2, 151_936, True),
    "Qwen2-VL-7B": Published("qwen2_vl", 3584, 18944, 28, 4, 152_064, False),
    "Qwen2.5-VL-3B": Published("qwen2_5_vl", 2048, 11008, 16, 2, 151_936, True),
    "Qwen2.5-VL-7B": Published("qwen2_5_vl", 3584, 18944, 28, 4, 152_064, False),
    "Qwen3-VL-2B": Published("qwen3_vl", 2048, 6144, 16, 8, 151_936, True),
    "Qwen3-VL-4B": Published("qwen3_vl", 2560, 9728, 32, 8, 151_936, True),
    "Qwen3-VL-8B": Published("qwen3_vl", 4096, 12288, 32, 8, 151_936, False),
}
SPECIAL_IDS = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
    "eos_token_id": "<|im_end|>",
    "bos_token_id": "<|endoftext|>",
}


def published_config(one: Published, layers: int, vision_layers: int, vocab_rows: int) -> dict[str, Any]:
    """Returns the published `config.json`, except for depth, vocabulary and the ids of special tokens.

    In Qwen2.5-VL, only the last vision layer attends to the whole image; in the checkpoints, every eighth.
    """
    if one.architecture == "qwen3_vl":
        return _newest_config(one, layers, vision_layers, vocab_rows)
    newer = one.architecture == "qwen2_5_vl"
    vision = {"depth": vision_layers, "num_heads": 16, "in_chans": 3, "patch_size": 14}
    vision |= {"spatial_merge_size": 2, "temporal_patch_size": 2, "spatial_patch_size": 14}
    if newer:
        vision |= {"hidden_size": 1280, "intermediate_size": 3420, "out_hidden_size": one.hidden}
        vision |= {"window_size": 112, "fullatt_block_indexes": [vision_layers - 1], "tokens_per_second": 2}
        vision |= {"hidden_act": "silu"}
    else:
        vision |= {"embed_dim": 1280, "mlp_ratio": 4, "hidden_size": one.hidden}
    return {
        "architectures": [ARCHITECTURES[one.architecture].modules.__name__],
        "model_type": one.architecture,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "hidden_size": one.hidden,
        "initializer_range": 0.02,
        "intermediate_size": one.intermediate,
        "max_position_embeddings": 128_000 if newer else 32_768,
        "max_window_layers": 28,
        "num_attention_heads": one.heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": one.kv_heads,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1_000_000.0,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "sliding_window": 32_768,
        "tie_word_embeddings": one.tied,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vision_config": vision,
        "vocab_size": vocab_rows,
    }


def _newest_config(one: Published, layers: int, vision_layers: int, vocab_rows: int) -> dict[str, Any]:
    """Returns Qwen3-VL's settings. Each vision layer's features are added to a decoder layer."""
    wide = one.hidden == 4096
    text = {
        "model_type": "qwen3_vl_text",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": one.hidden,
        "intermediate_size": one.intermediate,
        "max_position_embeddings": 262_144,
        "num_attention_heads": one.heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": one.kv_heads,
        "rms_norm_eps": 1e-06,
        "rope_scaling": {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"},
        "rope_theta": 5_000_000,
        "tie_word_embeddings": one.tied,
        "vocab_size": vocab_rows,
    }
    vision = {
        "model_type": "qwen3_vl",
        "deepstack_visual_indexes": list(range(vision_layers)),
        "depth": vision_layers,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": 1152 if wide else 1024,
        "in_channels": 3,
        "intermediate_size": 4304 if wide else 4096,
        "num_heads": 16,
        "num_position_embeddings": 2304,
        "out_hidden_size": one.hidden,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    }
    return {
        "architectures": [ARCHITECTURES[one.architecture].modules.__name__],
        "model_type": one.architecture,
        "text_config": text,
        "tie_word_embeddings": one.tied,
        "vision_config": vision,
    }


def build_published(
    folder: Path, name: str, *, layers: int = 2, vision_layers: int = 2, whole_vocabulary: bool = False
) -> Path:
    """Writes `folder`, with bfloat16 weights under their published names, and `tokenizer/` next to it."""
    tokenizer = build_tokenizer(folder.parent / "tokenizer")
    one, count = PUBLISHED[name], tokenizer.get_vocab_size()
    if whole_vocabulary:
        _fill(folder.parent / "tokenizer" / "tokenizer.json", count)
    rows = one.vocab_rows if whole_vocabulary else count + 5
    config = published_config(one, layers, vision_layers, rows) | _special_ids(tokenizer)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    with torch.device("meta"):
        modules = ARCHITECTURES[one.architecture].modules(read_config(folder))
    save_file(_random_weights(modules, one), folder / "model.safetensors", {"format": "pt"})
    return folder


def _fill(path: Path, count: int) -> None:
    """Adds unused tokens to a tokenizer, up to the published vocabulary size."""
    content = json.loads(path.read_text())
    content["model"]["vocab"] |= {f"spare-{index}": index for index in range(count, VOCABULARY)}
    path.write_text(json.dumps(content))


def _special_ids(tokenizer: tokenizers.Tokenizer) -> dict[str, int]:
    return {name: tokenizer.token_to_id(token) for name, token in SPECIAL_IDS.items()}


def _random_weights(modules: torch.nn.Module, one: Published) -> dict[str, torch.Tensor]:
    """Returns seeded weights. Older checkpoints name their two halves without the model's prefix."""
    prefixes = () if one.architecture == "qwen3_vl" else ("model.language_model.", "model.visual.")
    seeded = torch.Generator().manual_seed(0)
    weights = {}
    for name, weight in modules.state_dict().items():
        if one.tied and name == "lm_head.weight":
            continue
        scale = 1.0 if weight.dim() == 1 else weight[0].numel() ** -0.5
        made = torch.empty(weight.shape, dtype=torch.bfloat16).normal_(generator=seeded).mul_(scale)
        weights[_without(prefixes, name)] = made
    return weights


def _without(prefixes: Sequence[str], name: str) -> str:
    for prefix in prefixes:
        if name.startswith(prefix):
            return prefix.split(".")[1].replace("language_model", "model") + "." + name.removeprefix(prefix)
    return name
