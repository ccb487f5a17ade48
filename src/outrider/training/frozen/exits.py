# SPDX-License-Identifier: Apache-2.0
"""Early exits of a trained target: adapters fitted to its own last layer; everything else is frozen.

As in Venkatesha et al. (FSD), section 3 and figure 3, each adapter reads one layer's output and uses the
frozen LM head. Here it is linear, and learns the target's own distribution over a shortlist.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from outrider.core.errors import ConfigError
from outrider.core.training_data import Example
from outrider.training.batches import read_shard
from outrider.training.frozen.backbone import Backbone
from outrider.training.frozen.fitting import HELD_OUT_FRAMES, FitConfig, drawn_shards, fit, paths_to_fit
from outrider.training.frozen.shortlist import shortlist

BATCH_TOKENS = 1024


@dataclass(frozen=True, kw_only=True)
class ExitsConfig(FitConfig):
    """How exits are fitted. `layers` are the decoder layers to exit after, from 1; none: all but the last."""

    layers: tuple[int, ...] = field(default=(), kw_only=False)
    rank: int = 64
    frames: int = 1600
    learning_rate: float = 1e-2
    round_steps: int = 100


@dataclass(frozen=True)
class TrainedExits:
    """`down` (E, width, rank) and `up` (E, rank, width) for `layers`; `token_ids` (S,), ascending.

    `figures` are for the card; agreement and coverage are measured on a shard not used in training.
    """

    layers: tuple[int, ...]
    token_ids: Tensor
    down: Tensor
    up: Tensor
    figures: dict[str, Any]


class ExitNetwork(nn.Module):
    """All exits in parallel, on a shortlist of S tokens.

    With u a layer's output scaled to a root mean square of 1, an exit's logits are head @ (norm_weight * u
    + u @ down @ up).
    """

    def __init__(self, backbone: Backbone, token_ids: Tensor, num_exits: int, rank: int) -> None:
        """Raises ConfigError if the rank exceeds the model's width."""
        super().__init__()
        self._head = backbone.head[token_ids]
        width = self._head.shape[1]
        if rank > width:
            raise ConfigError(f"rank={rank} is above the model's width: no adapter has more than {width}")
        self.down = nn.Parameter(torch.randn(num_exits, width, rank) / math.sqrt(width))
        self.up = nn.Parameter(torch.zeros(num_exits, rank, width))
        self._norm = backbone.norm

    def forward(self, outputs: Tensor) -> Tensor:
        """Return the logits (E, K, S) of the exits from their layers' outputs (E, K, width)."""
        unit = functional.rms_norm(outputs, outputs.shape[-1:], eps=self._norm.variance_epsilon)
        return (self._norm.weight * unit + unit @ self.down @ self.up) @ self._head.T

    def loss(self, states: Tensor) -> Tensor:
        """Return the cross-entropy to the target's distribution over the shortlist, summed over the exits."""
        target = functional.log_softmax(self._norm(states[-1]) @ self._head.T, dim=-1)
        exits = functional.log_softmax(self(states[:-1]), dim=-1)
        return -(target.exp() * exits).sum(-1).mean(-1).sum()


def train_exits(backbone: Backbone, data: Path, config: ExitsConfig) -> TrainedExits:
    """Fit exits to a model. A run is not resumed: for the small model it takes minutes on one core.

    Raises ConfigError for layers that the model does not have, too little data, or a run that diverges.
    """
    paths = paths_to_fit(data)
    torch.manual_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    layers = _checked_layers(config.layers, backbone.num_layers)
    token_ids = torch.tensor(sorted(shortlist(backbone, drawn_shards(rng, paths[:-1]))))
    adapters = ExitNetwork(backbone, token_ids, len(layers), config.rank)
    round_frames = config.round_frames(len(layers), adapters.down.shape[1])

    def losses(examples: list[Example]) -> Callable[[], Tensor]:
        states = backbone.states(examples, layers)
        return lambda: adapters.loss(states[:, torch.randint(states.shape[1], (BATCH_TOKENS,))])

    num_frames = fit(adapters, config, round_frames, rng, paths[:-1], losses, "exits")
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


@torch.no_grad()
def _assess(backbone: Backbone, adapters: ExitNetwork, token_ids: Tensor, states: Tensor) -> dict[str, Any]:
    """Return how often the shortlist holds the target's own token, and how often each exit chooses it."""
    choices = backbone.choices(states[-1])
    agreement = (token_ids[adapters(states[:-1]).argmax(-1)] == choices).float().mean(-1)
    return {
        "shortlist": len(token_ids),
        "coverage": round(torch.isin(choices, token_ids).float().mean().item(), 5),
        "agreement": [round(share, 4) for share in agreement.tolist()],
    }
