# SPDX-License-Identifier: Apache-2.0
"""Fits a small network to a frozen target's hidden states.

Frames come in rounds: the states of some frames are gathered, fitted on, and freed. So memory is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.core.training_data import Example, shard_paths
from outrider.training.batches import read_shard
from outrider.training.imitation import learning_rate

ROUND_FRAMES = 200
FRAME_TOKENS = 160
ROUND_SHARDS = 4
WARMUP_STEPS = 20
HELD_OUT_FRAMES = 200


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
