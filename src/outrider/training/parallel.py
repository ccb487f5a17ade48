# SPDX-License-Identifier: Apache-2.0
"""Runs several one-thread training processes on one machine: steadier than one with many threads."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as distributed

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import make_console
from outrider.core.files.writing import make_folder
from outrider.core.processes import work_through
from outrider.training.imitation import Trainer, TrainingConfig
from outrider.training.tokenizer import read_tokenizer


def train(
    config: TrainingConfig,
    tokenizer: Path,
    data: Path,
    folder: Path,
    processes: int,
    start: Path | None = None,
) -> Path:
    """Train a role to the end; return its checkpoint. Figures go to `<role>.log.jsonl` in the same folder.

    `start` is the checkpoint whose weights a new run begins with. Raises ConfigError for more processes
    than frames in a batch, and what a process raises.
    """
    make_folder(folder)
    if config.device != "cpu":
        config, processes = replace(config, loaders=processes), 1
    frames = min(config.batch_frames, config.vision_batch_frames)
    if processes > frames:
        raise ConfigError(f"processes={processes} share batches of {frames} frames: use {frames} at most")
    with tempfile.TemporaryDirectory() as meeting:
        run = _Run(config, tokenizer, data, folder, start, processes, f"file://{meeting}/ranks")
        try:
            for _ in work_through(run.rank, range(processes), processes):
                pass
        finally:
            make_console().show_cursor()  # a killed process leaves the cursor hidden by its progress bar
    return folder / f"{config.role}.checkpoint.pt"


@dataclass(frozen=True)
class _Run:
    """The settings of every process of a run; `meeting` is the URL at which they connect."""

    config: TrainingConfig
    tokenizer: Path
    data: Path
    folder: Path
    start: Path | None
    processes: int
    meeting: str

    def rank(self, rank: int) -> None:
        """Run one process's part, from the checkpoint to the end."""
        torch.set_num_threads(1)
        if self.processes > 1:
            distributed.init_process_group(
                "gloo", init_method=self.meeting, rank=rank, world_size=self.processes
            )
        trainer = Trainer(self.config, read_tokenizer(self.tokenizer), self.data, self.folder, self.start)
        log = self.folder / f"{self.config.role}.log.jsonl"
        began = time.monotonic()
        for figures in trainer.run():
            if rank == 0:
                seconds = round(time.monotonic() - began)
                line = {"phase": trainer.progressed.phase, "seconds": seconds, **figures}
                with log.open("a") as file:
                    file.write(json.dumps(line) + "\n")
        if self.processes > 1:
            distributed.destroy_process_group()
