"""Builds Qwen2 text models with tiny random weights: as folders, and as GGUF files by the `gguf` package."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType
from support.tiny_models import build_tokenizer
from transformers import Qwen2Config, Qwen2ForCausalLM

PROMPT = "<|im_start|>user\nmove forward<|im_end|>\n<|im_start|>assistant\n"
KINDS = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
K_KINDS = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
_SCALES = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
"""Byte offsets of the half-precision scales in a block of each K type."""


def random_text_modules(vocab_size: int, seed: int = 0, **settings: Any) -> Qwen2ForCausalLM:
    """Returns a model with random weights, spread enough that greedy texts differ from prompt to prompt."""
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": vocab_size}
    torch.manual_seed(seed)
    config = Qwen2Config(**{**sizes, **heads, "tie_word_embeddings": False, **settings})
    modules = Qwen2ForCausalLM(config).eval()
    with torch.no_grad():
        for name, weight in modules.named_parameters():
            weight.normal_(mean=float("norm" in name), std=0.2 if weight.dim() > 1 else 0.1)
    return modules


def build_text_model(folder: Path, seed: int = 0, **settings: Any) -> Path:
    """Writes `folder`, and `tokenizer/` next to it; returns `folder`."""
    tokenizer = build_tokenizer(folder.parent / "tokenizer")
    eos = {"bos_token_id": None, "eos_token_id": tokenizer.token_to_id("<|im_end|>")}
    random_text_modules(tokenizer.get_vocab_size() + 5, seed, **eos, **settings).save_pretrained(folder)
    return folder


def write_gguf(
    path: Path,
    kind: str = "Q8_0",
    change: Callable[[gguf.GGUFWriter], None] = lambda _: None,
    architecture: str = "qwen2",
    tokenizer: bool = True,
    **settings: Any,
) -> Qwen2ForCausalLM:
    """Writes a model's GGUF file with matrices of one ggml type; returns the modules that it holds."""
    words = build_tokenizer(path.parent / "words")
    modules = random_text_modules(words.get_vocab_size() + 5, **settings)
    writer = gguf.GGUFWriter(path, architecture)
    _write_sizes(writer, modules.config)
    if tokenizer:
        _write_tokenizer(writer, words, path.parent / "words", modules.config.vocab_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, modules.config.num_hidden_layers)
    for name, weight in modules.state_dict().items():
        if name == "lm_head.weight" and modules.config.tie_word_embeddings:
            continue
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        _write_tensor(writer, stored, weight.float().numpy(), kind if weight.dim() > 1 else "F32")
    change(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return modules


def _write_sizes(writer: gguf.GGUFWriter, config: Qwen2Config) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)


def _write_tokenizer(writer: gguf.GGUFWriter, words: Any, folder: Path, num_rows: int) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    special = {one["id"] for one in content["added_tokens"]}
    size = words.get_vocab_size()
    tokens = [words.id_to_token(index) for index in range(size)]
    kinds = [gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for i in range(size)]
    spare = range(size, num_rows)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*tokens, *(f"[PAD{index}]" for index in spare)])
    writer.add_token_types([*kinds, *(gguf.TokenType.UNUSED for _ in spare)])
    writer.add_token_merges([" ".join(merge) for merge in content["model"]["merges"]])
    writer.add_eos_token_id(words.token_to_id("<|im_end|>"))


def _write_tensor(writer: gguf.GGUFWriter, name: str, weight: Any, kind: str) -> None:
    number = GGMLQuantizationType[kind]
    data = random_blocks(weight.shape, kind) if kind in K_KINDS else gguf.quantize(weight, number)
    writer.add_tensor(name, data, raw_dtype=number)


def random_blocks(shape: tuple[int, int], kind: str) -> Any:
    """Returns blocks of a K type, which `gguf` cannot quantize to: random bytes, with sensible scales."""
    block, block_bytes = gguf.GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    seeded = np.random.default_rng(sum(shape))
    blocks = seeded.integers(0, 256, (shape[0] * shape[1] // block, block_bytes), np.uint8)
    for at in _SCALES[kind]:
        scales = seeded.uniform(1e-4, 5e-4, len(blocks)).astype(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(shape[0], -1)
