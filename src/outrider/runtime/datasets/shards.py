# SPDX-License-Identifier: Apache-2.0
"""Data sets on disk: resumable shards of a thousand frames.

A shard is one msgpack file. It is written to a temporary file and renamed, so it exists only when complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from outrider.core.errors import ConfigError
from outrider.core.files.writing import make_folder, replace_file
from outrider.core.ports import TextDecoder
from outrider.core.processes import work_through
from outrider.core.training_data import Example, Shard
from outrider.decoding.config import DecodingConfig
from outrider.runtime.datasets.dagger import driven_examples
from outrider.runtime.datasets.dataset import home_examples
from outrider.runtime.datasets.held_out import FIRST_HOME_SEED
from outrider.simulation.looks.styles import checked_looks

FRAMES_PER_SHARD = 1000
HOMES_PER_SHARD = 1000
SHARDS_PER_SEED = 1000
NUM_SEEDS = FIRST_HOME_SEED // (HOMES_PER_SHARD * SHARDS_PER_SEED)


@dataclass(frozen=True)
class ShardTask:
    """One shard to write. `driver` is the folder of the driving model; None means the expert."""

    path: Path
    first_home: int
    driver: Path | None
    looks: tuple[str, ...] = ("plain",)
    num_frames: int = FRAMES_PER_SHARD


def write_dataset(
    folder: Path,
    num_shards: int,
    seed: int,
    processes: int,
    driver: Path | None = None,
    looks: Sequence[str] = ("plain",),
    frames_per_shard: int = FRAMES_PER_SHARD,
) -> Iterator[Path]:
    """Write the missing shards of a data set, and yield each path when it is done.

    With `driver` a model drives (see `driven_examples`); such shards have another name in the folder. Each
    shard gets `frames_per_shard` frames, from homes that use the `looks` in turn. Raises ConfigError if the
    homes would be held-out ones, a look is unknown, or the folder cannot be written.
    """
    if seed >= NUM_SEEDS or num_shards > SHARDS_PER_SEED:
        raise ConfigError(
            f"seed must be below {NUM_SEEDS} and shards at most {SHARDS_PER_SEED}: "
            "the homes beyond are held out for evaluation"
        )
    checked = checked_looks(looks)
    make_folder(folder)
    name = "shard" if driver is None else "shard-driven"
    tasks = [
        ShardTask(
            folder / f"{name}-{index:04d}.msgpack",
            (seed * SHARDS_PER_SEED + index) * HOMES_PER_SHARD,
            driver,
            checked,
            frames_per_shard,
        )
        for index in range(num_shards)
    ]
    yield from work_through(write_shard, tasks, processes)


def write_shard(task: ShardTask) -> Path:
    """Write a shard, unless it exists. Raises ConfigError if it cannot be written."""
    if task.path.exists():
        return task.path
    examples: list[Example] = []
    home_seed = task.first_home
    while len(examples) < task.num_frames:
        examples.extend(_home(home_seed, task))
        home_seed += 1
    replace_file(task.path, msgspec.msgpack.encode(Shard(examples[: task.num_frames])))
    return task.path


def _home(home_seed: int, task: ShardTask) -> Iterator[Example]:
    if task.driver is None:
        return home_examples(home_seed, task.looks)
    return driven_examples(home_seed, _decoder(task.driver), task.looks)


@lru_cache(maxsize=1)
def _decoder(folder: Path) -> TextDecoder:
    """Returns the driving model's decoder, loaded once per process."""
    from outrider.models import load_model  # takes seconds to import, and the expert needs none
    from outrider.runtime.wiring.decoders import local_decoder

    return local_decoder(load_model(folder), None, DecodingConfig(strategy="ar"))
