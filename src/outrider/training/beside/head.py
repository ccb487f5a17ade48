# SPDX-License-Identifier: Apache-2.0
"""The draft head of a trained target: it learns the target's own distributions some tokens ahead."""

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
from outrider.training.beside.frozen_target import (
    HELD_OUT_FRAMES,
    Backbone,
    FitConfig,
    drawn_shards,
    fit,
    paths_to_fit,
    shortlist,
)

DEPTH = 6
"""So many tokens ahead are learnt."""
LEAST_TOKENS = 2
"""The shortlist has so many times as many tokens as the model is wide: of their logits a state is read."""
BATCH_PLACES = 1024


@dataclass(frozen=True, kw_only=True)
class HeadConfig(FitConfig):
    """How a draft head is fitted."""

    rank: int = 160
    frames: int = 4800
    learning_rate: float = 3e-3
    round_steps: int = 160


@dataclass(frozen=True)
class TrainedHead:
    """What `HeadNetwork` has learnt over the shortlist `token_ids` (S,): keep (width,), mix (2 * width,
    2 * rank), out (rank, width). `figures` are for the card; agreement is on a shard that training did not
    see.
    """

    token_ids: Tensor
    keep: Tensor
    mix: Tensor
    out: Tensor
    figures: dict[str, Any]


class HeadNetwork(nn.Module):
    """The head over the target's own LM head. With u a state and e the embedding of the token after it, both
    at a root mean square of 1, the next state is that of keep * u + (silu(g) * v) @ out, where [g, v] =
    [u, e] @ mix.
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
        """Logits (K, S) after one token of `tokens` (K, n), after two, and so on. `states` (K, width): the
        target's last layer's output before them.
        """
        ahead, rows = _unit(states), []
        for taken in tokens.unbind(1):
            both = torch.cat((ahead, _unit(self._backbone.embed(taken))), dim=-1)
            gate, value = (both @ self.mix).chunk(2, dim=-1)
            ahead = _unit(self.keep * ahead + (functional.silu(gate) * value) @ self.out)
            rows.append(ahead @ self._head.T)
        return rows

    def loss(self, states: Tensor, tokens: Tensor, places: Tensor) -> Tensor:
        """Cross-entropy to the target's distributions over the shortlist, the mean over DEPTH tokens ahead of
        some places (P,) of all states (K, width), each with the answer's token (K,) that it predicts.
        """
        ahead = places[:, None] + torch.arange(DEPTH)
        with torch.no_grad():
            targets = (_unit(states[ahead + 1]) @ self._head.T).softmax(-1)
        rows = torch.stack(self(states[places], tokens[ahead]), dim=1)
        return -(targets * rows.log_softmax(-1)).sum(-1).mean()


def train_head(backbone: Backbone, data: Path, config: HeadConfig) -> TrainedHead:
    """Fit a draft head: minutes on one core for the small target, so a run is not resumed.

    Raises ConfigError for too little data, or a run that diverges.
    """
    paths = paths_to_fit(data)
    torch.manual_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    network = HeadNetwork(backbone, _shortlist(backbone, rng, paths[:-1]), config.rank)
    round_frames = config.round_frames(0, len(network.keep))

    def losses(examples: list[Example]) -> Callable[[], Tensor]:
        states, tokens = backbone.states(examples, ())[-1], backbone.answers(examples)
        places = places_of(tokens)
        return lambda: network.loss(states, tokens, places[torch.randint(len(places), (BATCH_PLACES,))])

    num_frames = fit(network, config, round_frames, rng, paths[:-1], losses, "draft head")
    figures = {
        "rank": config.rank,
        "parameters": sum(one.numel() for one in network.parameters()),
        "training_frames": num_frames,
        **_assess(backbone, network, paths[-1], round_frames),
    }
    keep, mix, out = network.keep.detach(), network.mix.detach(), network.out.detach()
    return TrainedHead(network.token_ids, keep, mix, out, figures)


def _unit(rows: Tensor) -> Tensor:
    return functional.rms_norm(rows, rows.shape[-1:])


def places_of(tokens: Tensor) -> Tensor:
    """The states that DEPTH more of the same answer follow. Raises ConfigError where there is none."""
    follows = (tokens != NO_TOKEN).unfold(0, DEPTH, 1) if len(tokens) > DEPTH else tokens.new_zeros(0, DEPTH)
    places = follows[: len(tokens) - DEPTH].all(1).nonzero().squeeze(1)
    if len(places) == 0:
        raise ConfigError(f"no answer in the data has more than {DEPTH} tokens, which a draft head needs")
    return places


def _shortlist(backbone: Backbone, rng: np.random.Generator, paths: list[Path]) -> Tensor:
    chosen = shortlist(backbone, drawn_shards(rng, paths))
    width = len(backbone.norm.weight)
    chosen.update(range(min(backbone.vocab_size, LEAST_TOKENS * width)))
    return torch.tensor(sorted(chosen))


@torch.no_grad()
def _assess(backbone: Backbone, network: HeadNetwork, path: Path, frames: int) -> dict[str, Any]:
    """How often the head chooses as the target some tokens ahead, and how many of four in a row: along
    answers of a shard that training did not see.
    """
    examples = read_shard(path)[: min(HELD_OUT_FRAMES, frames)]
    states, tokens = backbone.states(examples, ())[-1], backbone.answers(examples)
    choices, places, ids = backbone.choices(states), places_of(tokens), network.token_ids
    ahead = places[:, None] + torch.arange(DEPTH)
    rows = network(states[places], tokens[ahead])
    right = torch.stack([ids[one.argmax(-1)] for one in rows], 1) == choices[ahead + 1]
    return {
        "shortlist": len(ids),
        "agreement": [round(share, 4) for share in right.float().mean(0).tolist()],
        "accepted_of_4": round(right[:, :4].cumprod(1).sum(1).float().mean().item(), 3),
    }
