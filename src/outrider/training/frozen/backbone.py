# SPDX-License-Identifier: Apache-2.0
"""A trained target, frozen, as the networks that are fitted to its hidden states see it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import Qwen2VLForConditionalGeneration
from transformers.utils import logging as transformers_logging

from outrider.core.training_data import NO_TOKEN, Example
from outrider.training.batches import Packer
from outrider.training.network import PackedModel
from outrider.training.tokenizer import read_tokenizer

BATCH_FRAMES = 16


class Backbone(Protocol):
    """A frozen target. `norm` and `head` are its final norm and LM head.

    head[token_ids] (S, width) are the rows of some tokens. `tokenizer` maps texts to {"input_ids": ...}.
    Every shortlist contains the first `common_tokens` of the `vocab_size` ids.
    """

    tokenizer: Any
    norm: Any
    head: Any
    num_layers: int
    common_tokens: int
    vocab_size: int

    def states(self, examples: Sequence[Example], layers: tuple[int, ...]) -> Tensor:
        """Return the outputs (E + 1, K, width) of `layers` and of the last layer at K answer tokens."""

    def answers(self, examples: Sequence[Example]) -> Tensor:
        """Return, for each of the K states, the answer token (K,) that it predicts, int64.

        NO_TOKEN stands at the last state of each answer.
        """

    def embed(self, token_ids: Tensor) -> Tensor:
        """Return the input embeddings (..., width) of tokens (...), none of them NO_TOKEN."""

    def choices(self, last: Tensor) -> Tensor:
        """Return the target's own tokens (K,) from its last layer's output (K, width)."""


class PackedBackbone(Backbone):
    """The small target in its training view: many frames and queries at once."""

    common_tokens = 0

    def __init__(self, folder: Path, tokenizer: Path) -> None:
        transformers_logging.disable_progress_bar()
        model = Qwen2VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        self.tokenizer = read_tokenizer(tokenizer)
        self.norm: Any = model.model.language_model.norm
        self.head: Tensor = model.lm_head.weight.detach()[: len(self.tokenizer)]
        self.vocab_size = len(self.head)
        self.num_layers: int = model.config.text_config.num_hidden_layers
        self._embeddings = model.get_input_embeddings().weight.detach()
        self._packer = Packer(self.tokenizer)
        self._network = PackedModel(model, self._packer.image_start).eval().requires_grad_(False)

    @torch.no_grad()
    def states(self, examples: Sequence[Example], layers: tuple[int, ...]) -> Tensor:
        wanted = (*layers, self.num_layers)
        parts = []
        for start in range(0, len(examples), BATCH_FRAMES):
            batch = self._packer.pack(examples[start : start + BATCH_FRAMES])
            outputs = self._network.layer_outputs(self._network.see(batch.pixels), batch)
            parts.append(torch.stack([h for layer, h in enumerate(outputs, start=1) if layer in wanted]))
        return torch.cat(parts, dim=1)

    def answers(self, examples: Sequence[Example]) -> Tensor:
        parts = []
        for start in range(0, len(examples), BATCH_FRAMES):
            batch = self._packer.pack(examples[start : start + BATCH_FRAMES])
            learnt = batch.task_targets >= 0
            tokens, task = batch.task_targets[learnt], (batch.padded_index // batch.width)[learnt]
            tokens[torch.cat([task.diff() != 0, torch.tensor([True])])] = NO_TOKEN
            parts.append(tokens)
        return torch.cat(parts)

    def embed(self, token_ids: Tensor) -> Tensor:
        return self._embeddings[token_ids]

    @torch.no_grad()
    def choices(self, last: Tensor) -> Tensor:
        return (self.norm(last) @ self.head.T).argmax(-1)
