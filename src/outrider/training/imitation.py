# SPDX-License-Identifier: Apache-2.0
"""The training loop: first the vision tower on dense labels, then the whole model by imitation. Resumable.

A checkpoint is one file, written every few minutes to a temporary file and renamed. The schedule is a
function of the step, so a resumed run continues the same run.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as distributed
import torch.nn.functional as functional
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import nn
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen2VLForConditionalGeneration

from outrider.core.errors import ConfigError
from outrider.core.files.writing import make_folder, replace_file
from outrider.training.architecture import build_model
from outrider.training.batches import Batch, Packer, Source, jitter
from outrider.training.network import PackedModel

VISION_LOSS_WEIGHT = 0.25
REPORT_EVERY_S = 10.0
TOKEN_ROWS = ("model.language_model.embed_tokens.weight", "lm_head.weight")


@dataclass(frozen=True)
class TrainingConfig:
    """How a model is trained. Counts are optimizer steps of `batch_frames` frames with four tasks each.

    `loaders` processes pack batches for a GPU; if 0, the trainer packs its own.
    """

    role: str
    vision_steps: int = 1500
    steps: int = 3000
    batch_frames: int = 24
    vision_batch_frames: int = 48
    learning_rate: float = 2e-3
    warmup_steps: int = 100
    weight_decay: float = 0.02
    seed: int = 0
    checkpoint_every_s: float = 120.0
    device: str = "cpu"
    loaders: int = 0

    def __post_init__(self) -> None:
        if self.role not in ("target", "draft"):
            raise ConfigError(f"role '{self.role}' is unknown; use target or draft")
        if self.steps < 1 or self.batch_frames < 1:
            raise ConfigError(
                f"steps ({self.steps}) and batch_frames ({self.batch_frames}) must be at least 1"
            )


@dataclass
class Progressed:
    """What a checkpoint holds besides the weights."""

    phase: str = "vision"
    step: int = 0
    frames: int = 0


def learning_rate(step: int, total: int, warmup: int, peak: float) -> float:
    """Return a linear warm-up, then a cosine decay to a twentieth of the peak."""
    if step < warmup:
        return peak * (step + 1) / warmup
    share = min(1.0, (step - warmup) / max(1, total - warmup))
    return peak * (0.05 + 0.95 * 0.5 * (1.0 + math.cos(math.pi * share)))


def make_optimizers(
    model: nn.Module, learning_rate: float, weight_decay: float
) -> list[torch.optim.Optimizer]:
    """Return Muon for hidden matrices, AdamW for embeddings, the patch projection, norms and biases."""
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        hidden = parameter.ndim == 2 and "embed_tokens" not in name and "heads.read" not in name
        (matrices if hidden else others).append(parameter)
    return [
        torch.optim.Muon(
            matrices,
            lr=learning_rate,
            weight_decay=weight_decay,
            adjust_lr_fn="match_rms_adamw",
        ),
        torch.optim.AdamW(others, lr=learning_rate, weight_decay=0.0, betas=(0.9, 0.98)),
    ]


class Trainer:
    """One training run in one folder; `run` yields a line of figures now and then.

    Under `torch.distributed` each rank takes its share of every batch, and gradients are averaged. A new
    run begins with the weights of `start`, a checkpoint or a model's folder; a resumed run uses its own. A
    finished run continues if more steps are requested. Raises ConfigError if fewer are, or if it is given a
    start.
    """

    def __init__(
        self,
        config: TrainingConfig,
        tokenizer: PreTrainedTokenizerFast,
        data: Path,
        folder: Path,
        start: Path | None = None,
    ):
        torch.manual_seed(config.seed)
        self.config = config
        self._tokenizer = tokenizer
        self.packer = Packer(tokenizer)
        self._device = torch.device(config.device)
        self.network = PackedModel(build_model(config.role, tokenizer), self.packer.image_start)
        self.network.to(self._device)
        self.progressed = Progressed()
        self._rank = distributed.get_rank() if distributed.is_initialized() else 0
        self._ranks = distributed.get_world_size() if distributed.is_initialized() else 1
        self._data = data
        self._checkpoint = folder / f"{config.role}.checkpoint.pt"
        self._jitter = torch.Generator(self._device).manual_seed(config.seed + self._rank)
        self._start_phase("vision")
        if self._checkpoint.exists():
            self._resume()
            self._check_asked(start)
        elif start is not None:
            self._take_weights(start)

    def run(self) -> Iterator[dict[str, float]]:
        """Train to the end, from the step of the checkpoint."""
        if self.progressed.phase == "vision":
            yield from self._phase("vision", self.config.vision_steps, self.config.vision_batch_frames)
            self._start_phase("imitation")
        if self.progressed.phase == "imitation":
            yield from self._phase("imitation", self.config.steps, self.config.batch_frames)
            self.progressed.phase = "done"
            self._save()

    def _start_phase(self, phase: str) -> None:
        self.progressed.phase, self.progressed.step = phase, 0
        self._optimizers = make_optimizers(self.network, self.config.learning_rate, self.config.weight_decay)

    def _phase(self, phase: str, total: int, batch_frames: int) -> Iterator[dict[str, float]]:
        seed = self.config.seed + self.progressed.frames + 7919 * self._rank
        share = batch_frames // self._ranks
        source = Source(self._data, seed, share)
        batches = source.batches(self.packer, self.config.loaders)
        saved = reported = time.monotonic()
        with _bar(self._rank == 0) as bar:
            task = bar.add_task(
                f"{self.config.role} {phase}", total=total, completed=self.progressed.step, note=""
            )
            while self.progressed.step < total:
                figures = self._step(phase, next(batches).to(self._device), total)
                self.progressed.step += 1
                self.progressed.frames += share * self._ranks
                now = time.monotonic()
                if now - reported < REPORT_EVERY_S and self.progressed.step < total:
                    continue
                shown = {name: figure.item() for name, figure in figures.items()}
                bar.update(task, completed=self.progressed.step, note=_note(shown))
                yield {"step": self.progressed.step, "frames": self.progressed.frames, **shown}
                reported = now
                if now - saved > self.config.checkpoint_every_s:
                    self._save()
                    saved = now
        self._save()

    def _step(self, phase: str, batch: Batch, total: int) -> dict[str, torch.Tensor]:
        rate = learning_rate(self.progressed.step, total, self.config.warmup_steps, self.config.learning_rate)
        for optimizer in self._optimizers:
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad(set_to_none=True)
        loss, figures = self._loss(phase, batch)
        loss.backward()
        self._average_gradients()
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        if not torch.isfinite(norm):
            raise ConfigError(f"training diverged at step {self.progressed.step}; lower learning_rate")
        for optimizer in self._optimizers:
            optimizer.step()
        return figures

    def _average_gradients(self) -> None:
        if self._ranks == 1:
            return
        gradients = [p.grad for p in self.network.parameters() if p.grad is not None]
        flat = torch.cat([g.flatten() for g in gradients])
        distributed.all_reduce(flat)
        parts = (flat / self._ranks).split([g.numel() for g in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def _loss(self, phase: str, batch: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        with torch.autocast(self._device.type, torch.bfloat16):
            features = self.network.see(jitter(batch.pixels, self._jitter))
            vision_loss, vision_right = self.network.heads.loss(features, batch.cells)
            figures = {"vision_loss": vision_loss.detach(), "vision_accuracy": vision_right}
            if phase == "vision":
                return vision_loss, figures
            logits = self.network.read(features, batch)
        learnt = batch.task_targets >= 0
        targets, weights = batch.task_targets[learnt], batch.task_weights[learnt]
        losses = functional.cross_entropy(logits.float(), targets, reduction="none")
        text_loss = (losses * weights).sum() / weights.sum()
        action = weights > 1.0
        right = (logits.argmax(-1) == targets)[action]
        figures |= {"text_loss": text_loss.detach(), "action_tokens": right.float().mean()}
        return text_loss + VISION_LOSS_WEIGHT * vision_loss, figures

    def _save(self) -> None:
        if self._rank != 0:
            return
        state = {
            "config": asdict(self.config),
            "progressed": asdict(self.progressed),
            "network": self.network.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
        }
        save_checkpoint(self._checkpoint, state)

    def _take_weights(self, start: Path) -> None:
        """Load weights only; the schedule stays this run's. A model's folder has no training heads."""
        try:
            if start.is_dir():
                self.network.model.load_state_dict(
                    _folder_weights(start, self.network.model, self._tokenizer)
                )
            else:
                self.network.load_state_dict(torch.load(start, weights_only=True)["network"])
        except Exception as error:
            raise ConfigError(
                f"{start} holds no weights of a {self.config.role} with this tokenizer; "
                "give the checkpoint.pt of an earlier run or a model's folder"
            ) from error

    def _resume(self) -> None:
        try:
            state = torch.load(self._checkpoint, weights_only=True, map_location=self._device)
            self.network.load_state_dict(state["network"])
            self.progressed = Progressed(**state["progressed"])
            for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
        except Exception as error:
            raise ConfigError(
                f"{self._checkpoint} is no readable checkpoint of a {self.config.role} with this tokenizer; "
                "delete it to start anew, or name another run folder"
            ) from error

    def _check_asked(self, start: Path | None) -> None:
        """Raise ConfigError if the requested run conflicts with the one in the folder."""
        phase, step = self.progressed.phase, self.progressed.step
        if phase != "vision" and step > self.config.steps:
            raise ConfigError(
                f"{self._checkpoint} has {step} steps already: ask for more, or for another run folder"
            )
        if phase == "done" and start is not None:
            raise ConfigError(
                f"{self._checkpoint} is of a run that is done: to begin a new one with {start}, name another "
                "run folder; to write its model again, name no start"
            )
        if phase == "done" and step < self.config.steps:
            self.progressed.phase = "imitation"


def _folder_weights(
    folder: Path, model: Qwen2VLForConditionalGeneration, tokenizer: PreTrainedTokenizerFast
) -> dict[str, torch.Tensor]:
    """Return a folder's weights for a model; embedding rows of tokens new to the folder keep the model's."""
    weights = Qwen2VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).state_dict()
    shared = folder.parent / "tokenizer"
    own = AutoTokenizer.from_pretrained(shared if shared.is_dir() else folder).get_vocab()
    pairs = [(new, own[token]) for token, new in tokenizer.get_vocab().items() if token in own]
    new, old = (torch.tensor(ids) for ids in zip(*pairs, strict=True))
    for name in TOKEN_ROWS:
        rows = model.state_dict()[name].detach().cpu().clone()
        rows[new] = weights[name][old]
        weights[name] = rows
    return weights


def _note(figures: dict[str, float]) -> str:
    return " ".join(f"{name} {value:.3f}" for name, value in figures.items())


def _bar(visible: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        disable=not visible,
    )


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Replace a checkpoint file. Raises ConfigError if it cannot be written."""
    content = io.BytesIO()
    torch.save(dict(state), content)  # in memory first: torch's own error on a full disk is obscure
    make_folder(path.parent)
    replace_file(path, content.getvalue())
