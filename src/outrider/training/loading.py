# SPDX-License-Identifier: Apache-2.0
"""Batches without end, packed in the trainer's process or in processes beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from outrider.training.batches import Batch, Packer, examples_forever

WORKER_STREAM = 104729
"""Between the seeds of processes that pack."""


@dataclass(frozen=True)
class Source:
    """Which examples come in which order: a folder of shards, a seed, and frames a batch."""

    data: Path
    seed: int
    frames: int

    def batches(self, packer: Packer, processes: int = 0) -> Iterator[Batch]:
        """Returns batches without end; so many processes pack them, or this one where there are none.

        Each process goes through the shards in an order of its own.
        """
        packed = _Packed(packer, self)
        return (
            iter(packed)
            if processes == 0
            else iter(DataLoader(packed, batch_size=None, num_workers=processes))
        )


class _Packed(IterableDataset[Batch]):
    def __init__(self, packer: Packer, source: Source) -> None:
        self._packer, self._source = packer, source

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        seed = self._source.seed + WORKER_STREAM * (0 if worker is None else worker.id + 1)
        examples = examples_forever(self._source.data, seed)
        while True:
            yield self._packer.pack([next(examples) for _ in range(self._source.frames)])
