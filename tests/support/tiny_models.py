"""Builds folders of vision-language models with tiny random weights, complete enough for `load_model`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)

from outrider.core.language.prompt import PromptContext, Step, render_prompt
from outrider.core.sensors.camera import JPEG_QUALITY, MODEL_IMAGE_HEIGHT, MODEL_IMAGE_WIDTH
from outrider.core.values import Prompt
from outrider.models import load_model
from outrider.models.backbone.draft_head import HeadWeights
from outrider.models.backbone.early_exits import ExitAdapters, write_exits
from outrider.models.backbone.text_stack import TextStack

SPECIAL_TOKENS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
SENTENCES = [
    render_prompt(PromptContext("find the silver bottle", (Step("look", "turn left small"),), 45)),
    "move forward medium\nsearch: the silver bottle is ahead at 2.5 m, past the grey bottle",
    "turn right large\nlook: no red chair here; a door is on the right",
    "stop\nreach: the green cup is slightly left at 0.5 m",
]


@dataclass(frozen=True)
class TinySize:
    """Sizes of a random model. `spare_rows`: vocabulary rows beyond the tokenizer's.

    `head_dim`: only for version 3, where it does not depend on the hidden width.
    """

    hidden: int = 32
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    vision: int = 16
    vision_layers: int = 2
    spare_rows: int = 5
    version: str = "2"
    head_dim: int = 8


TARGET_SIZE = TinySize()
DRAFT_SIZE = TinySize(hidden=16, layers=1, heads=2, kv_heads=1, vision=8, vision_layers=1)


def build_tokenizer(folder: Path) -> tokenizers.Tokenizer:
    """Trains a byte-level BPE on a few sentences, saves it as `tokenizer.json` and returns it."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


Config = Qwen2VLConfig | Qwen2_5_VLConfig | Qwen3VLConfig


def tiny_config(size: TinySize, tokenizer: tokenizers.Tokenizer) -> Config:
    newest = size.version == "3"
    pairs = (size.head_dim if newest else size.hidden // size.heads) // 2
    rows, columns = pairs // 3, pairs // 3
    return VERSIONS[size.version][0](
        text_config={
            "vocab_size": tokenizer.get_vocab_size() + size.spare_rows,
            "hidden_size": size.hidden,
            "intermediate_size": 2 * size.hidden,
            "num_hidden_layers": size.layers,
            "num_attention_heads": size.heads,
            "num_key_value_heads": size.kv_heads,
            **({"head_dim": size.head_dim} if newest else {}),
            "max_position_embeddings": 1024,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [pairs - rows - columns, rows, columns],
                **({"mrope_interleaved": True} if newest else {}),
            },
            "bos_token_id": None,
            "eos_token_id": tokenizer.token_to_id("<|im_end|>"),
        },
        vision_config=VERSIONS[size.version][2](size),
        image_token_id=tokenizer.token_to_id("<|image_pad|>"),
        video_token_id=tokenizer.token_to_id("<|video_pad|>"),
        vision_start_token_id=tokenizer.token_to_id("<|vision_start|>"),
        vision_end_token_id=tokenizer.token_to_id("<|vision_end|>"),
        tie_word_embeddings=True,
    )


def _vision(size: TinySize) -> dict[str, object]:
    return {
        "depth": size.vision_layers,
        "embed_dim": size.vision,
        "hidden_size": size.hidden,
        "num_heads": 2,
        "mlp_ratio": 2,
    }


def _newer_vision(size: TinySize) -> dict[str, object]:
    """Returns settings with windows of 2 x 2 merged patches in all layers but the last."""
    return {
        "depth": size.vision_layers,
        "hidden_size": size.vision,
        "intermediate_size": 2 * size.vision,
        "out_hidden_size": size.hidden,
        "num_heads": 2,
        "window_size": 56,
        "fullatt_block_indexes": [size.vision_layers - 1],
    }


def _newest_vision(size: TinySize) -> dict[str, object]:
    """Returns settings with 6 x 6 learned positions. All layers but the last feed decoder layers."""
    return {
        "depth": size.vision_layers,
        "hidden_size": size.vision,
        "intermediate_size": 2 * size.vision,
        "out_hidden_size": size.hidden,
        "num_heads": 2,
        "num_position_embeddings": 36,
        "deepstack_visual_indexes": list(range(size.vision_layers - 1)),
    }


VERSIONS = {
    "2": (Qwen2VLConfig, Qwen2VLForConditionalGeneration, _vision),
    "2.5": (Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, _newer_vision),
    "3": (Qwen3VLConfig, Qwen3VLForConditionalGeneration, _newest_vision),
}


def random_modules(size: TinySize, tokenizer: tokenizers.Tokenizer, seed: int) -> torch.nn.Module:
    """Returns a model with random weights, spread enough that greedy texts do not repeat one token."""
    torch.manual_seed(seed)
    modules = VERSIONS[size.version][1](tiny_config(size, tokenizer)).eval()
    with torch.no_grad():
        for name, weight in modules.named_parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.5 / weight[0].numel() ** 0.5 if "patch_embed" in name else 0.3)
            elif name.endswith("bias"):
                weight.normal_(std=0.1)
            elif "q_norm" in name or "k_norm" in name:
                weight.normal_(mean=2.0, std=0.5)
    return modules


def build_tiny_model(folder: Path, size: TinySize = TARGET_SIZE, seed: int = 0) -> Path:
    """Writes `folder` (config, weights, card) and `tokenizer/` next to it; returns `folder`."""
    tokenizer = build_tokenizer(folder.parent / "tokenizer")
    random_modules(size, tokenizer, seed).save_pretrained(folder)
    card = {"slots": {"colour": ["silver"], "kind": ["bottle"]}, "figures": {"seed": seed}}
    (folder / "card.json").write_text(json.dumps(card))
    return folder


def build_tiny_pair(folder: Path, seed: int = 0) -> Path:
    """Writes `folder/target`, `folder/draft` and `folder/tokenizer`; returns `folder`."""
    build_tiny_model(folder / "target", TARGET_SIZE, seed)
    build_tiny_model(folder / "draft", DRAFT_SIZE, seed + 1)
    return folder


def random_adapters(layers: tuple[int, ...], hidden: int, token_ids: torch.Tensor) -> ExitAdapters:
    """Returns seeded adapters of rank 3."""
    seeded = torch.Generator().manual_seed(5)
    down = torch.randn(len(layers), hidden, 3, generator=seeded)
    up = torch.randn(len(layers), 3, hidden, generator=seeded) / hidden
    return ExitAdapters(layers, token_ids, down, up)


def random_head(text: TextStack) -> HeadWeights:
    """Returns a seeded draft head of rank 4 for all tokens but the last."""
    seeded, (hidden, vocab_size) = torch.Generator().manual_seed(6), text.head.shape
    mix = torch.randn(2 * hidden, 8, generator=seeded) / hidden**0.5
    out = torch.randn(4, hidden, generator=seeded)
    return HeadWeights(torch.arange(vocab_size - 1), torch.full((hidden,), 0.5), mix, out)


def add_exits(folder: Path, layers: tuple[int, ...], token_ids: torch.Tensor) -> ExitAdapters:
    """Writes random exits into a tiny model's folder; returns them, rounded to the file's precision."""
    text = load_model(folder).text
    adapters = random_adapters(layers, text.head.shape[0], token_ids)
    write_exits(folder, adapters, text)
    stored = (part.bfloat16().float() for part in (adapters.down, adapters.up))
    return ExitAdapters(layers, token_ids, *stored)


def random_jpeg(seed: int, width: int = MODEL_IMAGE_WIDTH, height: int = MODEL_IMAGE_HEIGHT) -> bytes:
    """Returns a camera frame of coloured blocks as JPEG, by default in the model's size."""
    blocks = np.random.default_rng(seed).integers(0, 256, (5, 9, 3), dtype=np.uint8)
    pixels = cv2.resize(blocks, (width, height), interpolation=cv2.INTER_NEAREST)
    return cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1].tobytes()


def random_prompt(seed: int, instruction: str = "find the silver bottle") -> Prompt:
    return Prompt(render_prompt(PromptContext(instruction, turned_deg=15 * seed)), random_jpeg(seed))
