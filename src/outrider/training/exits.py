# SPDX-License-Identifier: Apache-2.0
"""Early exits of a trained target: adapters fitted to its own last layer, everything else frozen.

As in Venkatesha et al. (FSD), section 3 and figure 3, each adapter sees one layer's output and speaks through
the frozen LM head; here it is linear, and learns the target's own distribution over a shortlist.
Frames come in rounds: gather the states of some, fit on them, forget them. So memory stays bounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from transformers import AutoTokenizer, Qwen2VLForConditionalGeneration
from transformers.utils import logging as transformers_logging

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.core.training_data import Example, shard_paths
from outrider.training.batches import Packer, read_shard
from outrider.training.imitation import learning_rate
from outrider.training.network import PackedModel
from outrider.training.shortlist import choose_shortlist

ROUND_FRAMES = 200
FRAME_TOKENS = 160
ROUND_STEPS = 100
ROUND_SHARDS = 4
BATCH_FRAMES = 16
BATCH_TOKENS = 1024
WARMUP_STEPS = 20
HELD_OUT_FRAMES = 200


@dataclass(frozen=True)
class ExitsConfig:
    """`layers`: after which decoder layers, counted from 1; none given, after each but the last.
    `round_steps`: how many steps are taken on the states of one round.
    """

    layers: tuple[int, ...] = ()
    rank: int = 64
    frames: int = 1600
    learning_rate: float = 1e-2
    seed: int = 0
    memory_mb: int = 2048
    round_steps: int = ROUND_STEPS

    def __post_init__(self) -> None:
        if self.rank < 1 or self.frames < 1:
            raise ConfigError(f"rank ({self.rank}) and frames ({self.frames}) must be at least 1")

    def round_frames(self, num_exits: int, width: int) -> int:
        """How many frames' states `memory_mb` holds."""
        frame_bytes = 4 * (num_exits + 1) * width * FRAME_TOKENS
        return max(1, min(ROUND_FRAMES, self.memory_mb * 2**20 // frame_bytes))


@dataclass(frozen=True)
class TrainedExits:
    """`down` (E, width, rank) and `up` (E, rank, width) for `layers`; `token_ids` (S,), ascending.

    `figures` are for the card; agreement and coverage are on a shard that training did not see.
    """

    layers: tuple[int, ...]
    token_ids: Tensor
    down: Tensor
    up: Tensor
    figures: dict[str, Any]


class Backbone(Protocol):
    """A frozen target: `norm` and `head` are its last ones, head[token_ids] (S, width) the rows of some
    tokens; `tokenizer` maps texts to {"input_ids": ...}. `common_tokens`: so many of the first ids belong to
    any shortlist.
    """

    tokenizer: Any
    norm: Any
    head: Any
    num_layers: int
    common_tokens: int

    def states(self, examples: Sequence[Example], layers: tuple[int, ...]) -> Tensor:
        """Outputs (E + 1, K, width) of `layers` and of the last layer at K answer tokens."""

    def choices(self, last: Tensor) -> Tensor:
        """The target's own tokens (K,) from its last layer's output (K, width)."""


class PackedBackbone:
    """The small pair's target in its training view: many frames and queries at once."""

    common_tokens = 0

    def __init__(self, folder: Path, tokenizer: Path) -> None:
        transformers_logging.disable_progress_bar()
        model = Qwen2VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        self.tokenizer = AutoTokenizer.from_pretrained(tokenizer)
        self.norm: Any = model.model.language_model.norm
        self.head: Tensor = model.lm_head.weight.detach()[: len(self.tokenizer)]
        self.num_layers: int = model.config.text_config.num_hidden_layers
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

    @torch.no_grad()
    def choices(self, last: Tensor) -> Tensor:
        """The target's own tokens (K,) from its last layer's output (K, width)."""
        return (self.norm(last) @ self.head.T).argmax(-1)


class ExitNetwork(nn.Module):
    """All exits side by side. With u a layer's output at a root mean square of 1, an exit's logits are
    head @ (norm_weight * u + u @ down @ up).
    """

    def __init__(self, backbone: Backbone, token_ids: Tensor, num_exits: int, rank: int) -> None:
        """Raises ConfigError for a rank that no matrix of the model's width has."""
        super().__init__()
        self._head = backbone.head[token_ids]
        width = self._head.shape[1]
        if rank > width:
            raise ConfigError(f"rank={rank} is above the model's width: no adapter has more than {width}")
        self.down = nn.Parameter(torch.randn(num_exits, width, rank) / math.sqrt(width))
        self.up = nn.Parameter(torch.zeros(num_exits, rank, width))
        self._norm = backbone.norm

    def forward(self, outputs: Tensor) -> Tensor:
        """Logits (E, K, S) of the exits from their layers' outputs (E, K, width)."""
        unit = functional.rms_norm(outputs, outputs.shape[-1:], eps=self._norm.variance_epsilon)
        return (self._norm.weight * unit + unit @ self.down @ self.up) @ self._head.T

    def loss(self, states: Tensor) -> Tensor:
        """Cross-entropy to the target's distribution over the shortlist, summed over the exits."""
        target = functional.log_softmax(self._norm(states[-1]) @ self._head.T, dim=-1)
        exits = functional.log_softmax(self(states[:-1]), dim=-1)
        return -(target.exp() * exits).sum(-1).mean(-1).sum()


class Fit:
    """The optimizer over a run of `total` steps."""

    def __init__(self, adapters: ExitNetwork, total: int, peak_rate: float) -> None:
        self._adapters = adapters
        self._parameters = [adapters.down, adapters.up]
        self._optimizer = torch.optim.AdamW(self._parameters, betas=(0.9, 0.98), weight_decay=0.01)
        self._step, self._total, self._peak_rate = 0, total, peak_rate

    def step(self, states: Tensor) -> None:
        """One step on the states (E + 1, K, width) of K tokens. Raises ConfigError where it diverges."""
        rate = learning_rate(self._step, self._total, WARMUP_STEPS, self._peak_rate)
        self._optimizer.param_groups[0]["lr"] = rate
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._adapters.loss(states)
        if not torch.isfinite(loss):
            raise ConfigError(f"training diverged at step {self._step}; lower the learning rate")
        loss.backward()
        self._optimizer.step()
        self._step += 1


def train_exits(backbone: Backbone, data: Path, config: ExitsConfig) -> TrainedExits:
    """Fit exits of a model: minutes on one core for the small one, so a run is not resumed.

    Raises ConfigError for layers the model does not have, too little data, or a run that diverges.
    """
    paths = shard_paths(data)
    if len(paths) < 2:
        raise ConfigError(f"{data} holds one shard; exits need a second to be judged on")
    torch.manual_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    layers = _checked_layers(config.layers, backbone.num_layers)
    queries = [query for example in _pool(rng, paths[:-1]) for query in example.queries]
    chosen = {*choose_shortlist(backbone.tokenizer, queries), *range(backbone.common_tokens)}
    token_ids = torch.tensor(sorted(chosen))
    adapters = ExitNetwork(backbone, token_ids, len(layers), config.rank)
    round_frames = config.round_frames(len(layers), adapters.down.shape[1])
    num_rounds = math.ceil(config.frames / round_frames)
    fit = Fit(adapters, num_rounds * config.round_steps, config.learning_rate)
    num_frames = 0
    for _ in tracked(range(num_rounds), "exits"):
        pool = _pool(rng, paths[:-1])
        drawn = rng.permutation(len(pool))[:round_frames]
        num_frames += len(drawn)
        states = backbone.states([pool[index] for index in drawn], layers)
        for _ in range(config.round_steps):
            fit.step(states[:, torch.randint(states.shape[1], (BATCH_TOKENS,))])
        del states  # or the next round's would lie beside them
    held_out = backbone.states(read_shard(paths[-1])[: min(HELD_OUT_FRAMES, round_frames)], layers)
    figures = {
        "layers": list(layers),
        "rank": config.rank,
        "parameters": adapters.down.numel() + adapters.up.numel(),
        "training_frames": num_frames,
        **_assess(backbone, adapters, token_ids, held_out),
    }
    return TrainedExits(layers, token_ids, adapters.down.detach(), adapters.up.detach(), figures)


def _checked_layers(layers: tuple[int, ...], num_layers: int) -> tuple[int, ...]:
    chosen = tuple(sorted(set(layers))) or tuple(range(1, num_layers))
    if not chosen or chosen[0] < 1 or chosen[-1] >= num_layers:
        raise ConfigError(f"exits after layers {chosen}: the model has {num_layers}, the last is no exit")
    return chosen


def _pool(rng: np.random.Generator, paths: Sequence[Path]) -> list[Example]:
    """The examples of a few shards drawn at random."""
    drawn = rng.permutation(len(paths))[:ROUND_SHARDS]
    return [example for index in drawn for example in read_shard(paths[index])]


@torch.no_grad()
def _assess(backbone: Backbone, adapters: ExitNetwork, token_ids: Tensor, states: Tensor) -> dict[str, Any]:
    """How often the target's own token is on the shortlist, and how often each exit chooses it."""
    choices = backbone.choices(states[-1])
    agreement = (token_ids[adapters(states[:-1]).argmax(-1)] == choices).float().mean(-1)
    return {
        "shortlist": len(token_ids),
        "coverage": round(torch.isin(choices, token_ids).float().mean().item(), 5),
        "agreement": [round(share, 4) for share in agreement.tolist()],
    }
