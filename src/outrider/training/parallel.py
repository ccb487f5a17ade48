# SPDX-License-Identifier: Apache-2.0
"""Several one-thread training processes on one machine: steadier than one with many threads."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing
from transformers import AutoTokenizer

from outrider.core.files.writing import make_folder
from outrider.core.processes import deaf_to_interrupts, end_with_parent
from outrider.training.imitation import Trainer, TrainingConfig


def train(
    config: TrainingConfig,
    tokenizer: Path,
    data: Path,
    folder: Path,
    processes: int,
    start: Path | None = None,
) -> Path:
    """Train a role to the end; returns its checkpoint. Figures go to `<role>.log.jsonl` beside it.

    `start`: the checkpoint whose weights a new run begins with.
    """
    make_folder(folder)
    if config.device != "cpu":
        config, processes = replace(config, loaders=processes), 1
    with tempfile.TemporaryDirectory() as meeting:
        arguments = (config, tokenizer, data, folder, start, processes, f"file://{meeting}/ranks")
        with deaf_to_interrupts():
            ranks = multiprocessing.spawn(_rank, arguments, nprocs=processes, join=False)
        try:
            while not ranks.join():
                pass
        finally:
            for rank in ranks.processes:  # where a signal asks for the end they would train on
                rank.terminate()
    return folder / f"{config.role}.checkpoint.pt"


def _rank(
    rank: int,
    config: TrainingConfig,
    tokenizer: Path,
    data: Path,
    folder: Path,
    start: Path | None,
    processes: int,
    meeting: str,
) -> None:
    end_with_parent()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it puts the terminal in order
    torch.set_num_threads(1)
    if processes > 1:
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=processes)
    trainer = Trainer(config, AutoTokenizer.from_pretrained(tokenizer), data, folder, start)
    log = folder / f"{config.role}.log.jsonl"
    began = time.monotonic()
    for figures in trainer.run():
        if rank == 0:
            line = {"phase": trainer.progressed.phase, "seconds": round(time.monotonic() - began), **figures}
            with log.open("a") as file:
                file.write(json.dumps(line) + "\n")
    if processes > 1:
        distributed.destroy_process_group()
