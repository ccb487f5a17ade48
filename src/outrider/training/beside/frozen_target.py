# SPDX-License-Identifier: Apache-2.0
"""A trained target whose states small networks beside it are fitted to, everything of it frozen.

Frames come in rounds: gather the states of some, fit on them, forget them. So memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Qwen2VLForConditionalGeneration
from transformers.utils import logging as transformers_logging

from outrider.core.errors import ConfigError
from outrider.core.training_data import NO_TOKEN, Example, shard_paths
from outrider.training.batches import Packer, read_shard
from outrider.training.beside.shortlist import choose_shortlist
from outrider.training.imitation import learning_rate
from outrider.training.network import PackedModel
from outrider.training.tokenizer import read_tokenizer

ROUND_FRAMES = 200
FRAME_TOKENS = 160
ROUND_SHARDS = 4
BATCH_FRAMES = 16
WARMUP_STEPS = 20
HELD_OUT_FRAMES = 200


class Backbone(Protocol):
    """A frozen target: `norm` and `head` are its last ones, head[token_ids] (S, width) the rows of some
    tokens; `tokenizer` maps texts to {"input_ids": ...}. `common_tokens`: so many of the first of its
    `vocab_size` ids belong to any shortlist.
    """

    tokenizer: Any
    norm: Any
    head: Any
    num_layers: int
    common_tokens: int
    vocab_size: int

    def states(self, examples: Sequence[Example], layers: tuple[int, ...]) -> Tensor:
        """Outputs (E + 1, K, width) of `layers` and of the last layer at K answer tokens."""

    def answers(self, examples: Sequence[Example]) -> Tensor:
        """For each of the K states the answer's token (K,) in the place that it predicts, int64; NO_TOKEN at
        an answer's last state.
        """

    def embed(self, token_ids: Tensor) -> Tensor:
        """What the target reads a token as: (..., width) of (...), none of them NO_TOKEN."""

    def choices(self, last: Tensor) -> Tensor:
        """The target's own tokens (K,) from its last layer's output (K, width)."""


class PackedBackbone:
    """The small pair's target in its training view: many frames and queries at once."""

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
        """Outputs (E + 1, K, width) of `layers` and of the last layer at all K answer tokens."""
        wanted = (*layers, self.num_layers)
        parts = []
        for start in range(0, len(examples), BATCH_FRAMES):
            batch = self._packer.pack(examples[start : start + BATCH_FRAMES])
            outputs = self._network.layer_outputs(self._network.see(batch.pixels), batch)
            parts.append(torch.stack([h for layer, h in enumerate(outputs, start=1) if layer in wanted]))
        return torch.cat(parts, dim=1)

    def answers(self, examples: Sequence[Example]) -> Tensor:
        """The answers' tokens (K,), as `Backbone.answers`."""
        parts = []
        for start in range(0, len(examples), BATCH_FRAMES):
            batch = self._packer.pack(examples[start : start + BATCH_FRAMES])
            learnt = batch.task_targets >= 0
            tokens, task = batch.task_targets[learnt], (batch.place // batch.width)[learnt]
            tokens[torch.cat([task.diff() != 0, torch.tensor([True])])] = NO_TOKEN
            parts.append(tokens)
        return torch.cat(parts)

    def embed(self, token_ids: Tensor) -> Tensor:
        """What the target reads a token as: (..., width)."""
        return self._embeddings[token_ids]

    @torch.no_grad()
    def choices(self, last: Tensor) -> Tensor:
        """The target's own tokens (K,) from its last layer's output (K, width)."""
        return (self.norm(last) @ self.head.T).argmax(-1)


class Fit:
    """The optimizer over a run of `total` steps."""

    def __init__(self, network: nn.Module, total: int, peak_rate: float) -> None:
        self._optimizer = torch.optim.AdamW(network.parameters(), betas=(0.9, 0.98), weight_decay=0.01)
        self._step, self._total, self._peak_rate = 0, total, peak_rate

    def step(self, loss: Callable[[], Tensor]) -> None:
        """One step down a loss. Raises ConfigError where it diverges."""
        rate = learning_rate(self._step, self._total, WARMUP_STEPS, self._peak_rate)
        self._optimizer.param_groups[0]["lr"] = rate
        self._optimizer.zero_grad(set_to_none=True)
        value = loss()
        if not torch.isfinite(value):
            raise ConfigError(f"training diverged at step {self._step}; lower the learning rate")
        value.backward()
        self._optimizer.step()
        self._step += 1


def paths_to_fit(data: Path) -> list[Path]:
    """The shards of a data set, of which the last judges. Raises ConfigError where there is but one."""
    paths = shard_paths(data)
    if len(paths) < 2:
        raise ConfigError(f"{data} holds one shard; a second is needed to judge what was trained")
    return paths


def shortlist(backbone: Backbone, examples: Sequence[Example]) -> set[int]:
    """The tokens that nearly all texts keep to."""
    queries = [query for example in examples for query in example.queries]
    return {*choose_shortlist(backbone.tokenizer, queries), *range(backbone.common_tokens)}


def drawn_examples(
    rng: np.random.Generator, paths: Sequence[Path], num_rounds: int, frames: int
) -> Iterator[list[Example]]:
    """The frames of each round."""
    for _ in range(num_rounds):
        pool = drawn_shards(rng, paths)
        yield [pool[index] for index in rng.permutation(len(pool))[:frames]]


def drawn_shards(rng: np.random.Generator, paths: Sequence[Path]) -> list[Example]:
    """The examples of a few shards drawn at random."""
    drawn = rng.permutation(len(paths))[:ROUND_SHARDS]
    return [example for index in drawn for example in read_shard(paths[index])]
