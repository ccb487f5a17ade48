# SPDX-License-Identifier: Apache-2.0
"""Stores built graphs in a cache folder, separate from any model, whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from outrider.core.errors import ModelError
from outrider.core.files.given_file import in_home
from outrider.core.files.terminal import tracked
from outrider.core.model_options import Precision
from outrider.models.backbone.text_stack import TextStack
from outrider.models.checkpoint.configuration import num_deep_layers
from outrider.models.checkpoint.files import weight_files
from outrider.models.checkpoint.settings import config_file
from outrider.models.checkpoint.weights import build_text_stack, read_checkpoint
from outrider.models.onnx.blocks import HEAD_FILE, GraphSizes, Phase, graph_file
from outrider.models.onnx.export import export_block, export_head
from outrider.models.onnx.providers import damaged

FORMAT = 4
SIZES_FILE = "graphs.json"
EMBEDDINGS_FILE = "embeddings.npy"
UNFINISHED = "unfinished-"
ABANDONED_S = 86_400.0
OUTDATED_S = 7 * 86_400.0
"""How long graphs of replaced weights, or of another format, are kept after their last use."""
MAX_BLOCKS = 32
PREFILL_ROWS = 128


@dataclass(frozen=True)
class GraphRequest:
    """The inputs and sizes for which graphs are built."""

    folder: Path
    vocab_size: int
    precision: Precision
    packs: bool
    num_slots: int
    decode_rows: int

    @property
    def source(self) -> list[Any]:
        """What identifies the model. A replaced file, or one with a new time, is another model."""
        paths = [config_file(self.folder), *weight_files(self.folder)]
        stats = [path.stat() for path in paths]
        files = [[path.name, s.st_size, s.st_mtime_ns] for path, s in zip(paths, stats, strict=True)]
        return [str(self.folder.resolve()), FORMAT, files]

    @property
    def digest(self) -> str:
        """The name of the folder for graphs of this request."""
        made_for = [self.vocab_size, self.precision, self.packs, self.num_slots, self.decode_rows]
        return hashlib.sha256(json.dumps([*self.source, *made_for]).encode()).hexdigest()[:24]


def cache_root() -> Path:
    """Return $OUTRIDER_CACHE, else a folder in the user's cache."""
    given = os.environ.get("OUTRIDER_CACHE")
    if given:
        return in_home(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or in_home("~/.cache")) / "outrider"


def are_built(request: GraphRequest) -> bool:
    """Return whether the graphs of a request are in the cache."""
    return (_place(request) / SIZES_FILE).exists()


def _place(request: GraphRequest) -> Path:
    return cache_root() / "graphs" / request.digest


def find_graphs(request: GraphRequest) -> tuple[Path, GraphSizes]:
    """Return the folder of a request's graphs, built with a progress bar if missing.

    Raises OutOfMemoryError, and ModelError if it cannot be built, written or read.
    """
    folder = _place(request)
    if not are_built(request):
        _build(request, folder)
    with contextlib.suppress(OSError):
        os.utime(folder)
    return folder, _read_sizes(folder / SIZES_FILE)


def _read_sizes(path: Path) -> GraphSizes:
    """Return the sizes. A truncated graph is found here, and not when a running robot loads it."""
    try:
        content = json.loads(path.read_text())
        files = dict(content.pop("files"))
        content.pop("source")
        sizes = GraphSizes(tuple(content.pop("layers")), **content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise damaged(path, error) from error
    for name, wanted in files.items():
        _check_size(path.parent / name, wanted)
    return sizes


def _check_size(path: Path, wanted: int) -> None:
    try:
        found = path.stat().st_size
        if found != wanted:
            raise ValueError(f"it has {found} bytes, not {wanted}")
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error


def read_embeddings(folder: Path) -> torch.Tensor:
    """Return the table (V, hidden) of a folder of graphs, mapped from its file. Raises ModelError."""
    path = folder / EMBEDDINGS_FILE
    try:
        table = np.load(path, mmap_mode="c")
        if table.ndim != 2 or table.dtype not in (np.int16, np.float32):
            raise ValueError(f"{table.dtype} of {table.shape}")
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error
    numbers = torch.from_numpy(table)
    return numbers.view(torch.bfloat16) if table.dtype == np.int16 else numbers


def block_layers(num_layers: int) -> tuple[int, ...]:
    """Return how many layers each block has: as even as possible, at most MAX_BLOCKS blocks."""
    num_blocks = min(num_layers, MAX_BLOCKS)
    return tuple(len(part) for part in np.array_split(np.arange(num_layers), num_blocks))


def _build(request: GraphRequest, folder: Path) -> None:
    checkpoint = read_checkpoint(request.folder, torch.float32 if request.precision == "fp32" else "auto")
    stack = build_text_stack(checkpoint, request.vocab_size, request.precision, exact=True)
    sizes = GraphSizes(
        block_layers(stack.shape.num_layers),
        PREFILL_ROWS,
        request.decode_rows,
        num_deep_layers(checkpoint.modules.config),
    )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder.parent, request.source)
        unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder.parent))
        try:
            write_graphs(unfinished, stack, sizes, request.num_slots, request.packs, request.source)
            if not folder.exists():  # another process may have finished first
                unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise ModelError(
            f"graphs cannot be written to {folder} ({error.strerror}): make room, or set OUTRIDER_CACHE"
        ) from error


def _sweep(parent: Path, source: list[Any]) -> None:
    """Delete what a killed builder has left, and graphs of the same folder with other weights or formats.

    A builder that still writes has touched its folder recently.
    """
    for folder in parent.iterdir():
        with contextlib.suppress(OSError):  # just finished, or deleted by another process
            unused_s = time.time() - folder.stat().st_mtime
            if folder.name.startswith(UNFINISHED):
                is_left = unused_s > ABANDONED_S
            else:
                is_left = unused_s > OUTDATED_S and _is_outdated(folder / SIZES_FILE, source)
            if is_left:
                shutil.rmtree(folder, ignore_errors=True)


def _is_outdated(path: Path, source: list[Any]) -> bool:
    try:
        theirs = json.loads(path.read_text())["source"]
    except KeyError:
        return True  # older formats lack the entry
    except (OSError, ValueError, TypeError):
        return False
    return bool(theirs[0] == source[0] and theirs != source)


def write_graphs(
    folder: Path,
    stack: TextStack,
    sizes: GraphSizes,
    num_slots: int,
    packs: bool,
    source: Sequence[Any] = (),
) -> None:
    """Write every file of a folder of graphs, with a progress bar; the stack must be an exact one."""
    files = list(_graphs(stack, sizes, num_slots, packs))
    for name, export in tracked(files, "building graphs"):
        export(folder / name)
    table = stack.embeddings
    np.save(
        folder / EMBEDDINGS_FILE, (table if table.dtype == torch.float32 else table.view(torch.int16)).numpy()
    )
    written = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    (folder / SIZES_FILE).write_text(json.dumps(asdict(sizes) | {"files": written, "source": source}))


def _graphs(
    stack: TextStack, sizes: GraphSizes, num_slots: int, packs: bool
) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Yield each file's name and the function that exports it."""
    yield HEAD_FILE, partial(export_head, stack.final_norm, stack.head, sizes.decode_rows, packs)
    first = 0
    for index, count in enumerate(sizes.layers):
        layers = stack.layers[first : first + count]
        first += count
        phases: tuple[Phase, ...] = ("prefill", "decode")
        for phase in phases:
            rows, deep = sizes.rows(phase), sizes.deep_in(index)
            export = partial(export_block, layers, stack.shape, rows, num_slots, deep, packs)
            yield graph_file(index, phase), export
