# SPDX-License-Identifier: Apache-2.0
"""Teach a model's vision tower to see a home in any look as it sees it in plain; the rest is frozen.

The tower is its own teacher: its features of the plain picture are what it must say of the same view in
another look. So texts about plain homes, the early exits and the draft's guesses stay nearly what they were.
After Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", 2015, with features in place
of probabilities.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Qwen2VLForConditionalGeneration
from transformers.utils import logging as transformers_logging

from outrider.core.errors import ConfigError
from outrider.core.files.writing import replace_file
from outrider.core.training_data import CELL_LABELS, Example
from outrider.training.batches import IMAGE_TOKENS, decoded_pixels, examples_forever, jitter
from outrider.training.checkpoints import save_checkpoint
from outrider.training.imitation import learning_rate, make_optimizers
from outrider.training.network import PackedModel

LANDMARK_WEIGHT = 4.0
"""Of the vision tokens that show an object or a door, beside 1 for the others."""
FIRST_OBJECT_KIND, DOOR_KIND = 5, 1
WEIGHTS_FILE = "model.safetensors"
CHECKPOINT_STEPS = 20
RECENT_STEPS = 20


@dataclass(frozen=True)
class LooksConfig:
    """How long and how fast a tower is taught."""

    steps: int = 400
    batch_frames: int = 32
    learning_rate: float = 1e-3
    warmup_steps: int = 20
    seed: int = 0


class LooksTrainer:
    """One run over a model's folder, resumed from `checkpoint`. Raises ConfigError where that is damaged."""

    def __init__(self, config: LooksConfig, model: Path, data: Path, checkpoint: Path) -> None:
        torch.manual_seed(config.seed)
        transformers_logging.disable_progress_bar()
        whole = Qwen2VLForConditionalGeneration.from_pretrained(model, dtype=torch.float32)
        self.network = PackedModel(whole, image_start=0)
        self.step = 0
        self._losses: deque[float] = deque(maxlen=RECENT_STEPS)
        self._config, self._data, self._checkpoint = config, data, checkpoint
        self._tower: nn.Module = whole.model.visual
        self._teacher = deepcopy(self.network).requires_grad_(False)
        self._optimizers = make_optimizers(self._tower, config.learning_rate, weight_decay=0.0)
        self._jitter = torch.Generator().manual_seed(config.seed)
        if checkpoint.exists():
            self._resume()

    @property
    def figures(self) -> dict[str, float]:
        """For the card: `features_missed` is the mean loss of the last steps."""
        return {"steps": self.step, "features_missed": round(statistics.mean(self._losses), 4)}

    def run(self) -> Iterator[float]:
        """Train to the end, yielding each step's loss: the share of the features' variance that is missed."""
        examples = examples_forever(self._data, self._config.seed + self.step)
        while self.step < self._config.steps:
            self._losses.append(self._learn([next(examples) for _ in range(self._config.batch_frames)]))
            self.step += 1
            if self.step % CHECKPOINT_STEPS == 0 or self.step == self._config.steps:
                self._save()
            yield self._losses[-1]

    def write(self, folder: Path) -> None:
        """Replace the weights in the model's folder, in bf16; its other files stay."""
        with tempfile.TemporaryDirectory() as made:
            deepcopy(self.network.model).to(torch.bfloat16).save_pretrained(made)
            replace_file(folder / WEIGHTS_FILE, (Path(made) / WEIGHTS_FILE).read_bytes())

    def _learn(self, examples: Sequence[Example]) -> float:
        config = self._config
        rate = learning_rate(self.step, config.steps, config.warmup_steps, config.learning_rate)
        for optimizer in self._optimizers:
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad(set_to_none=True)
        loss = self._loss(examples)
        loss.backward()
        nn.utils.clip_grad_norm_(self._tower.parameters(), 1.0)
        for optimizer in self._optimizers:
            optimizer.step()
        return loss.item()

    def _loss(self, examples: Sequence[Example]) -> Tensor:
        shown = decoded_pixels([example.jpeg for example in examples])
        plain = decoded_pixels([example.plain_jpeg or example.jpeg for example in examples])
        with torch.autocast("cpu", torch.bfloat16):
            with torch.no_grad():
                taught = self._teacher.see(plain)
            seen = self.network.see(jitter(shown, self._jitter))
        return features_missed(seen.float(), taught.float(), _kinds(examples))

    def _save(self) -> None:
        state: dict[str, Any] = {
            "config": asdict(self._config),
            "step": self.step,
            "losses": list(self._losses),
            "tower": self._tower.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
        }
        save_checkpoint(self._checkpoint, state)

    def _resume(self) -> None:
        try:
            state = torch.load(self._checkpoint, weights_only=True)
            self._tower.load_state_dict(state["tower"])
            for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
            self.step = state["step"]
            self._losses.extend(state["losses"])
        except Exception as error:
            raise ConfigError(
                f"{self._checkpoint} is no checkpoint of this model; delete it to start anew"
            ) from error


def features_missed(seen: Tensor, taught: Tensor, kinds: Tensor) -> Tensor:
    """Mean squared difference of features (B, N, width), over the variance of `taught`; `kinds` (B, N)."""
    landmark = (kinds >= FIRST_OBJECT_KIND) | (kinds == DOOR_KIND)
    weights = torch.where(landmark, LANDMARK_WEIGHT, 1.0)
    errors = (seen - taught).square().mean(-1) / taught.var()
    return (errors * weights).sum() / weights.sum()


def _kinds(examples: Sequence[Example]) -> Tensor:
    cells = np.stack([np.frombuffer(example.cells, np.int16) for example in examples])
    return torch.from_numpy(cells.reshape(len(examples), IMAGE_TOKENS, CELL_LABELS)[..., 0].astype(np.int64))
