# SPDX-License-Identifier: Apache-2.0
"""Turns shards into batches: frames as patches, and tasks packed on a shared image prefix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import cv2
import msgspec
import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from transformers import PreTrainedTokenizerFast

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import cause_of
from outrider.core.language.prompt import END_OF_TEXT, PROMPT_PREFIX, PROMPT_SUFFIX
from outrider.core.training_data import (
    CELL_COLUMNS,
    CELL_LABELS,
    CELL_ROWS,
    Example,
    Query,
    Shard,
    shard_paths,
)

ACTION_WEIGHT = 4.0
SHARDS_AT_ONCE = 4
IMAGE_TOKENS = CELL_ROWS * CELL_COLUMNS
IMAGE_SPAN = max(CELL_ROWS, CELL_COLUMNS)
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True)
class Batch:
    """B frames with S tasks in all; the T tokens of the tasks are concatenated, without padding.

    `pixels` uint8 (B, 140, 252, 3); `cells` int64 (B, 45, 3); `prefix_ids` (P,), the same for every frame;
    `prefix_positions` (3, P); `task_ids`, `task_targets` (-100 at tokens without a loss), `task_weights`
    (T,); `task_positions` (T,); `owner` (S,), the frame of each task; `padded_index` (T,), each token's index
    in a padded (S, `width`) layout.
    """

    pixels: torch.Tensor
    cells: torch.Tensor
    prefix_ids: torch.Tensor
    prefix_positions: torch.Tensor
    task_ids: torch.Tensor
    task_targets: torch.Tensor
    task_weights: torch.Tensor
    task_positions: torch.Tensor
    owner: torch.Tensor
    padded_index: torch.Tensor
    width: int

    def to(self, device: torch.device) -> Batch:
        """Returns the batch on another device."""
        parts: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors = {name: part for name, part in parts.items() if isinstance(part, torch.Tensor)}
        return Batch(**parts | {name: tensor.to(device) for name, tensor in tensors.items()})


@dataclass(frozen=True)
class _Task:
    ids: list[int]
    targets: list[int]
    weights: list[float]


class Packer:
    """Tokenizes and packs examples; all share the same prefix."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast):
        before, _, after = PROMPT_PREFIX.partition("<|image_pad|>")
        self._tokenizer = tokenizer
        image = tokenizer.convert_tokens_to_ids("<|image_pad|>")
        head, tail = self._ids(before), self._ids(after)
        self.image_start = len(head)
        self._prefix_ids = torch.tensor([*head, *[image] * IMAGE_TOKENS, *tail])
        self._prefix_positions = _prefix_positions(len(head), len(tail))

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]

    def pack(self, examples: Sequence[Example]) -> Batch:
        """Returns the examples as one batch of tensors, with the tokens of all their queries concatenated."""
        tasks = [self._task(query) for example in examples for query in example.queries]
        lengths = [len(task.ids) for task in tasks]
        width, start = max(lengths), int(self._prefix_positions.max()) + 1
        within = torch.cat([torch.arange(length) for length in lengths])
        rows = torch.repeat_interleave(torch.arange(len(tasks)), torch.tensor(lengths))
        owner = [frame for frame, example in enumerate(examples) for _ in example.queries]
        cells = np.stack([np.frombuffer(example.cells, dtype=np.int16) for example in examples])
        return Batch(
            pixels=decoded_pixels([example.jpeg for example in examples]),
            cells=torch.from_numpy(cells.reshape(len(examples), IMAGE_TOKENS, CELL_LABELS).astype(np.int64)),
            prefix_ids=self._prefix_ids,
            prefix_positions=self._prefix_positions,
            task_ids=torch.tensor([i for task in tasks for i in task.ids]),
            task_targets=torch.tensor([t for task in tasks for t in task.targets]),
            task_weights=torch.tensor([w for task in tasks for w in task.weights]),
            task_positions=start + within,
            owner=torch.tensor(owner),
            padded_index=rows * width + within,
            width=width,
        )

    def _task(self, query: Query) -> _Task:
        prompt = self._ids(query.user_text + PROMPT_SUFFIX)
        action, newline, reason = query.answer.partition("\n")
        head, tail = self._ids(action + newline), self._ids(reason + END_OF_TEXT)
        silent = len(prompt) - 1
        return _Task(
            [*prompt, *head, *tail][:-1],
            [-100] * silent + head + tail,
            [0.0] * silent + [ACTION_WEIGHT] * len(head) + [1.0] * len(tail),
        )


def _prefix_positions(head: int, tail: int) -> torch.Tensor:
    """Return Qwen2-VL's M-RoPE positions (3, head + 45 + tail) of text, one image, text."""
    text = torch.arange(head).expand(3, -1)
    rows = torch.arange(CELL_ROWS).repeat_interleave(CELL_COLUMNS)
    columns = torch.arange(CELL_COLUMNS).repeat(CELL_ROWS)
    image = head + torch.stack([torch.zeros_like(rows), rows, columns])
    after = (head + IMAGE_SPAN + torch.arange(tail)).expand(3, -1)
    return torch.cat([text, image, after], dim=1)


def decoded_pixels(jpegs: Sequence[bytes]) -> torch.Tensor:
    """Return pictures of one size as uint8 (B, height, width, 3) RGB."""
    return torch.from_numpy(np.stack([_decode(jpeg) for jpeg in jpegs]))


def _decode(jpeg: bytes) -> np.ndarray:
    bgr = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)


def patchify(pixels: torch.Tensor, patch: int = 14, merge: int = 2, temporal: int = 2) -> torch.Tensor:
    """Return normalised patches (B, N, 3 * 2 * 14 * 14) of uint8 frames (B, H, W, 3), in merge order.

    The order is the one in which Qwen2-VL merges patches.
    """
    mean, std = (torch.tensor(one, device=pixels.device).view(1, 3, 1, 1) for one in (MEAN, STD))
    images = (pixels.permute(0, 3, 1, 2).float() / 255.0 - mean) / std
    batch, channels, height, width = images.shape
    rows, columns = height // patch, width // patch
    grid = images.reshape(batch, channels, rows // merge, merge, patch, columns // merge, merge, patch)
    grid = grid.permute(0, 2, 5, 3, 6, 1, 4, 7)
    grid = grid.reshape(batch, rows * columns, channels, 1, patch, patch).expand(-1, -1, -1, temporal, -1, -1)
    return grid.reshape(batch, rows * columns, -1)


def jitter(pixels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Vary brightness and contrast and add pixel noise, because cameras differ."""
    images, device = pixels.float(), pixels.device
    spread = 2 * torch.rand(len(images), 1, 1, 4, generator=generator, device=device) - 1
    gain, bright = 1.0 + 0.06 * spread[..., :3], 1.0 + 0.15 * spread[..., 3:]
    noise = torch.randn(images.shape, generator=generator, device=device) * 3.0
    return (images * gain * bright + noise).clamp(0, 255).to(torch.uint8)


def read_shard(path: Path) -> list[Example]:
    """Returns the examples of a shard. Raises ConfigError for a file that cannot be read."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=Shard).examples
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(
            f"{path} is no readable shard ({cause_of(error)}); delete it and run `outrider train data`"
        ) from error


def examples_forever(folder: Path, seed: int) -> Iterator[Example]:
    """Yield all examples without end, a few shards at a time in random order.

    Shards written meanwhile are used next.
    """
    rng = np.random.default_rng(seed)
    uses: Counter[Path] = Counter()
    while True:
        paths = rng.permutation(np.array(shard_paths(folder)))
        chosen = sorted(paths, key=lambda path: uses[path])[:SHARDS_AT_ONCE]
        uses.update(chosen)
        pool = [example for path in chosen for example in read_shard(path)]
        for index in rng.permutation(len(pool)):
            yield pool[index]


WORKER_STREAM = 104729
"""The offset between the seeds of the packing processes."""


@dataclass(frozen=True)
class Source:
    """Where examples come from and in which order: a folder of shards, a seed, and frames per batch."""

    data: Path
    seed: int
    frames: int

    def batches(self, packer: Packer, processes: int = 0) -> Iterator[Batch]:
        """Returns batches without end, packed by `processes` processes, or by this one if that is 0.

        Each process goes through the shards in its own order.
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
