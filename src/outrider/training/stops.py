# SPDX-License-Identifier: Apache-2.0
"""Trains the spotter of stop words: the network of `voice.stop_spotter`, in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

TAPS, CHANNELS, DROPPED = 5, 24, 0.2
BATCH, LEARNING_RATE, WEIGHT_DECAY = 64, 3e-3, 0.1
MEASURED = 2000
"""The number of examples from which means and deviations of the states are taken."""
SCORED = 512
"""The number of examples scored at a time."""
EASY_DB, LET_THROUGH = 15.0, 0.95
"""The threshold passes this share of windows with a word, from this SNR on; a word is in several windows."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StopExamples:
    """Examples of windows of sound, with their labels.

    `states` (count, states, width). `words` (count,): the number of the word that has just been said in the
    window, -1 for none. `snr_db` (count,): its decibels above noise.
    """

    states: npt.NDArray[np.float16]
    words: Numbers
    snr_db: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.words)


class StopModule(nn.Module):
    """The network: scores (batch, words) of states (batch, states, width)."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(width), requires_grad=False)
        self.deviation = nn.Parameter(torch.ones(width), requires_grad=False)
        self.point = nn.Linear(width, CHANNELS)
        self.taps = nn.Conv1d(CHANNELS, CHANNELS, TAPS, padding=TAPS // 2)
        self.head = nn.Linear(CHANNELS, words)

    def forward(self, states: Tensor) -> Tensor:
        """Return the scores of the states."""
        known = self._dropped((states - self.mean) / self.deviation)
        hidden = functional.relu(self.point(known))
        hidden = hidden + functional.relu(self.taps(hidden.transpose(1, 2))).transpose(1, 2)
        scores: Tensor = self.head(self._dropped(hidden)).amax(1)
        return scores

    def _dropped(self, hidden: Tensor) -> Tensor:
        return functional.dropout(hidden, DROPPED, self.training)

    def arrays(self) -> dict[str, npt.NDArray[np.float32]]:
        """Return the weights, with the names and shapes of `voice.stop_spotter.StopNetwork`."""
        state = {name: one.numpy().astype(np.float32) for name, one in self.state_dict().items()}
        return {
            "mean": state["mean"],
            "deviation": state["deviation"],
            "point": state["point.weight"].T,
            "point_bias": state["point.bias"],
            "taps": state["taps.weight"].transpose(2, 1, 0),
            "taps_bias": state["taps.bias"],
            "head": state["head.weight"].T,
            "head_bias": state["head.bias"],
        }


def train_stops(examples: StopExamples, words: int, steps: int, seed: int) -> Iterator[StopModule]:
    """Yield the module after each step."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    module = StopModule(examples.states.shape[2], words)
    measured = examples.states[rng.permutation(len(examples))[:MEASURED]].astype(np.float32)
    module.mean.data = torch.from_numpy(measured.mean((0, 1)))
    module.deviation.data = torch.from_numpy(measured.std((0, 1)) + 1e-3)
    trained = [one for one in module.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(trained, LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    is_word = torch.from_numpy(examples.words[:, None] == np.arange(words)).float()
    for _ in range(steps):
        taken = rng.integers(len(examples), size=BATCH)
        scores = module(torch.from_numpy(examples.states[taken].astype(np.float32)))
        loss = functional.binary_cross_entropy_with_logits(scores, is_word[taken])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        yield module


def set_threshold(module: StopModule, examples: StopExamples) -> dict[str, float]:
    """Make a score of zero the threshold; return shares of `examples`, which were not used in training.

    The threshold is the highest that passes LET_THROUGH of the windows with a word and little noise.
    """
    highest = _highest(module.eval(), examples)
    is_said, is_easy = examples.words >= 0, examples.snr_db >= EASY_DB
    threshold = float(np.quantile(highest[is_said & is_easy], 1.0 - LET_THROUGH))
    module.head.bias.data -= threshold
    is_spotted = highest > threshold
    return {
        "threshold": threshold,
        "spotted": float(is_spotted[is_said & is_easy].mean()),
        "spotted_in_more_noise": float(is_spotted[is_said & ~is_easy].mean()),
        "false": float(is_spotted[~is_said & is_easy].mean()),
        "false_in_more_noise": float(is_spotted[~is_said & ~is_easy].mean()),
    }


@torch.no_grad()
def _highest(module: StopModule, examples: StopExamples) -> npt.NDArray[np.float32]:
    """Return the highest score (count,) of each example."""
    parts = (examples.states[start : start + SCORED] for start in range(0, len(examples), SCORED))
    return np.concatenate(
        [module(torch.from_numpy(part.astype(np.float32))).amax(1).numpy() for part in parts]
    )
