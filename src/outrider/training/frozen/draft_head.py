# SPDX-License-Identifier: Apache-2.0
"""The draft head of a trained target: learns the target's own distributions several tokens ahead."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from outrider.core.errors import ConfigError
from outrider.core.training_data import NO_TOKEN, Example
from outrider.training.batches import read_shard
from outrider.training.frozen.backbone import Backbone
from outrider.training.frozen.fitting import HELD_OUT_FRAMES, FitConfig, drawn_shards, fit, paths_to_fit
from outrider.training.frozen.shortlist import shortlist

DEPTH = 6
"""How many tokens ahead the head learns."""
MIN_TOKENS = 2
"""The shortlist's least size, in multiples of the model's width: a state is read from their logits."""
BATCH_POSITIONS = 1024


@dataclass(frozen=True, kw_only=True)
class HeadConfig(FitConfig):
    """How a draft head is fitted."""

    rank: int = 160
    frames: int = 4800
    learning_rate: float = 3e-3
    round_steps: int = 160


@dataclass(frozen=True)
class TrainedHead:
    """A trained `HeadNetwork` over the shortlist `token_ids` (S,).

    keep (width,), mix (2 * width, 2 * rank), out (rank, width). `figures` are for the card; agreement is
    measured on a shard not used in training.
    """

    token_ids: Tensor
    keep: Tensor
    mix: Tensor
    out: Tensor
    figures: dict[str, Any]


class HeadNetwork(nn.Module):
    """The head before the target's own LM head.

    With u a state and e the embedding of the token after it, both scaled to a root mean square of 1, the
    next state is keep * u + (silu(g) * v) @ out, scaled alike, where [g, v] = [u, e] @ mix.
    """

    def __init__(self, backbone: Backbone, token_ids: Tensor, rank: int) -> None:
        super().__init__()
        self._backbone, self.token_ids = backbone, token_ids
        self._head = backbone.head[token_ids] * backbone.norm.weight.detach()
        width = self._head.shape[1]
        self.keep = nn.Parameter(torch.zeros(width))
        self.mix = nn.Parameter(torch.randn(2 * width, 2 * rank) / math.sqrt(2 * width))
        self.out = nn.Parameter(torch.zeros(rank, width))

    def forward(self, states: Tensor, tokens: Tensor) -> list[Tensor]:
        """Return logits (K, S) after one token of `tokens` (K, n), after two, and so on.

        `states` (K, width) are the target's last layer's outputs before these tokens.
        """
        ahead, rows = _unit(states), []
        for token in tokens.unbind(1):
            both = torch.cat((ahead, _unit(self._backbone.embed(token))), dim=-1)
            gate, value = (both @ self.mix).chunk(2, dim=-1)
            ahead = _unit(self.keep * ahead + (functional.silu(gate) * value) @ self.out)
            rows.append(ahead @ self._head.T)
        return rows

    def loss(self, states: Tensor, tokens: Tensor, positions: Tensor) -> Tensor:
        """Return the cross-entropy to the target's distributions over the shortlist.

        It is the mean over DEPTH tokens ahead of the positions `positions` (P,), which index all states (K,
        width); each state has the answer token (K,) that it predicts.
        """
        ahead = positions[:, None] + torch.arange(DEPTH)
        with torch.no_grad():
            targets = (_unit(states[ahead + 1]) @ self._head.T).softmax(-1)
        rows = torch.stack(self(states[positions], tokens[ahead]), dim=1)
        return -(targets * rows.log_softmax(-1)).sum(-1).mean()


def train_head(backbone: Backbone, data: Path, config: HeadConfig) -> TrainedHead:
    """Fit a draft head. A run is not resumed: for the small target it takes minutes on one core.

    Raises ConfigError for too little data, or a run that diverges.
    """
    paths = paths_to_fit(data)
    torch.manual_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    network = HeadNetwork(backbone, _shortlist(backbone, rng, paths[:-1]), config.rank)
    round_frames = config.round_frames(0, len(network.keep))

    def losses(examples: list[Example]) -> Callable[[], Tensor]:
        states, tokens = backbone.states(examples, ())[-1], backbone.answers(examples)
        positions = trainable_positions(tokens)
        return lambda: network.loss(
            states, tokens, positions[torch.randint(len(positions), (BATCH_POSITIONS,))]
        )

    num_frames = fit(network, config, round_frames, rng, paths[:-1], losses, "draft head")
    figures = {
        "rank": config.rank,
        "parameters": sum(weight.numel() for weight in network.parameters()),
        "training_frames": num_frames,
        **_assess(backbone, network, paths[-1], round_frames),
    }
    keep, mix, out = network.keep.detach(), network.mix.detach(), network.out.detach()
    return TrainedHead(network.token_ids, keep, mix, out, figures)


def _unit(rows: Tensor) -> Tensor:
    return functional.rms_norm(rows, rows.shape[-1:])


def trainable_positions(tokens: Tensor) -> Tensor:
    """Return the positions that at least DEPTH more states of the same answer follow.

    Raises ConfigError if there are none.
    """
    follows = (tokens != NO_TOKEN).unfold(0, DEPTH, 1) if len(tokens) > DEPTH else tokens.new_zeros(0, DEPTH)
    positions = follows[: len(tokens) - DEPTH].all(1).nonzero().squeeze(1)
    if len(positions) == 0:
        raise ConfigError(f"no answer in the data has more than {DEPTH} tokens, which a draft head needs")
    return positions


def _shortlist(backbone: Backbone, rng: np.random.Generator, paths: list[Path]) -> Tensor:
    chosen = shortlist(backbone, drawn_shards(rng, paths))
    width = len(backbone.norm.weight)
    chosen.update(range(min(backbone.vocab_size, MIN_TOKENS * width)))
    return torch.tensor(sorted(chosen))


@torch.no_grad()
def _assess(backbone: Backbone, network: HeadNetwork, path: Path, frames: int) -> dict[str, Any]:
    """Return how often the head agrees with the target at each depth, and the mean accepted run of four.

    Both are measured on answers of a shard not used in training.
    """
    examples = read_shard(path)[: min(HELD_OUT_FRAMES, frames)]
    states, tokens = backbone.states(examples, ())[-1], backbone.answers(examples)
    choices, positions, ids = backbone.choices(states), trainable_positions(tokens), network.token_ids
    ahead = positions[:, None] + torch.arange(DEPTH)
    rows = network(states[positions], tokens[ahead])
    agrees = torch.stack([ids[row.argmax(-1)] for row in rows], 1) == choices[ahead + 1]
    return {
        "shortlist": len(ids),
        "agreement": [round(share, 4) for share in agrees.float().mean(0).tolist()],
        "accepted_of_4": round(agrees[:, :4].cumprod(1).sum(1).float().mean().item(), 3),
    }
