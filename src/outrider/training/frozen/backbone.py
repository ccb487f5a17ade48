# SPDX-License-Identifier: Apache-2.0
"""A trained target, frozen, to whose states small networks are fitted.

Frames come in rounds: the states of some frames are gathered, fitted on, and freed. So memory is bounded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast, Qwen2VLForConditionalGeneration
from transformers.utils import logging as transformers_logging

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.core.language.actions import ACTION_TEXTS
from outrider.core.language.prompt import END_OF_TEXT
from outrider.core.training_data import NO_TOKEN, Example, Query, shard_paths
from outrider.training.batches import Packer, read_shard
from outrider.training.imitation import learning_rate
from outrider.training.network import PackedModel
from outrider.training.tokenizer import read_tokenizer

ROUND_FRAMES = 200
FRAME_TOKENS = 160
ROUND_SHARDS = 4
BATCH_FRAMES = 16
WARMUP_STEPS = 20
HELD_OUT_FRAMES = 200
ANSWER_SHARE, PROMPT_SHARE = 0.999, 0.99


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
            tokens, task = batch.task_targets[learnt], (batch.place // batch.width)[learnt]
            tokens[torch.cat([task.diff() != 0, torch.tensor([True])])] = NO_TOKEN
            parts.append(tokens)
        return torch.cat(parts)

    def embed(self, token_ids: Tensor) -> Tensor:
        return self._embeddings[token_ids]

    @torch.no_grad()
    def choices(self, last: Tensor) -> Tensor:
        return (self.norm(last) @ self.head.T).argmax(-1)


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """How a network is fitted to a target.

    `memory_mb` bounds the states of a round's frames, on which `round_steps` steps are taken.
    """

    rank: int
    frames: int
    learning_rate: float
    round_steps: int
    seed: int = 0
    memory_mb: int = 2048

    def __post_init__(self) -> None:
        if self.rank < 1 or self.frames < 1:
            raise ConfigError(f"rank ({self.rank}) and frames ({self.frames}) must be at least 1")

    def round_frames(self, num_exits: int, width: int) -> int:
        """Return how many frames' states fit into `memory_mb`, for the last layer and `num_exits` others."""
        frame_bytes = 4 * (num_exits + 1) * width * FRAME_TOKENS
        return max(1, min(ROUND_FRAMES, self.memory_mb * 2**20 // frame_bytes))


class Fit:
    """The optimizer over a run of `total` steps."""

    def __init__(self, network: nn.Module, total: int, peak_rate: float) -> None:
        self._optimizer = torch.optim.AdamW(network.parameters(), betas=(0.9, 0.98), weight_decay=0.01)
        self._step, self._total, self._peak_rate = 0, total, peak_rate

    def step(self, loss: Callable[[], Tensor]) -> None:
        """Take one step on a loss. Raises ConfigError if the loss diverges."""
        rate = learning_rate(self._step, self._total, WARMUP_STEPS, self._peak_rate)
        self._optimizer.param_groups[0]["lr"] = rate
        self._optimizer.zero_grad(set_to_none=True)
        value = loss()
        if not torch.isfinite(value):
            raise ConfigError(f"training diverged at step {self._step}; lower the learning rate")
        value.backward()
        self._optimizer.step()
        self._step += 1


Losses = Callable[[list[Example]], Callable[[], Tensor]]
"""Gathers the states of some frames; returns a function that samples them and returns one step's loss."""


def fit(
    network: nn.Module,
    config: FitConfig,
    round_frames: int,
    rng: np.random.Generator,
    paths: Sequence[Path],
    losses: Losses,
    what: str,
) -> int:
    """Fit a network round by round; return the number of frames. Raises ConfigError if training diverges."""
    num_rounds = math.ceil(config.frames / round_frames)
    steps = Fit(network, num_rounds * config.round_steps, config.learning_rate)
    num_frames = 0
    rounds = drawn_examples(rng, paths, num_rounds, round_frames)
    for examples in tracked(rounds, what, total=num_rounds):
        num_frames += len(examples)
        loss = losses(examples)
        for _ in range(config.round_steps):
            steps.step(loss)
        del loss  # free these states before the next round's are gathered
    return num_frames


def paths_to_fit(data: Path) -> list[Path]:
    """Return the shards of a data set; the last is held out. Raises ConfigError if there is only one."""
    paths = shard_paths(data)
    if len(paths) < 2:
        raise ConfigError(f"{data} holds one shard; a second is needed to judge what was trained")
    return paths


def choose_shortlist(tokenizer: PreTrainedTokenizerFast, queries: Sequence[Query]) -> list[int]:
    """Return ascending ids: of all actions, and the most frequent ones that cover nearly all texts.

    The texts are answers and prompts. Prompts count because answers repeat their words, even words that are
    rare in the data.
    """
    actions = _count(tokenizer, [action + "\n" for action in ACTION_TEXTS] + [END_OF_TEXT])
    answers = _count(tokenizer, [query.answer + END_OF_TEXT for query in queries])
    prompts = _count(tokenizer, [query.user_text for query in queries])
    chosen = set(actions) | most_frequent(answers, ANSWER_SHARE) | most_frequent(prompts, PROMPT_SHARE)
    return sorted(chosen)


def most_frequent(counts: Counter[int], share: float) -> set[int]:
    """Return the fewest tokens that make up at least a share of all occurrences."""
    wanted, chosen = share * counts.total(), set()
    for token_id, count in counts.most_common():
        if wanted <= 0:
            break
        chosen.add(token_id)
        wanted -= count
    return chosen


def _count(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> Counter[int]:
    return Counter(i for ids in tokenizer(texts, add_special_tokens=False)["input_ids"] for i in ids)


def shortlist(backbone: Backbone, examples: Sequence[Example]) -> set[int]:
    """Return the tokens that nearly all texts use, and the backbone's common tokens."""
    queries = [query for example in examples for query in example.queries]
    return {*choose_shortlist(backbone.tokenizer, queries), *range(backbone.common_tokens)}


def drawn_examples(
    rng: np.random.Generator, paths: Sequence[Path], num_rounds: int, frames: int
) -> Iterator[list[Example]]:
    """Yield the frames of each round."""
    for _ in range(num_rounds):
        pool = drawn_shards(rng, paths)
        yield [pool[index] for index in rng.permutation(len(pool))[:frames]]


def drawn_shards(rng: np.random.Generator, paths: Sequence[Path]) -> list[Example]:
    """Return the examples of a few shards drawn at random."""
    drawn = rng.permutation(len(paths))[:ROUND_SHARDS]
    return [example for index in drawn for example in read_shard(paths[index])]
