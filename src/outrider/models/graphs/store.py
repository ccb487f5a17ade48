"""Built graphs on disk: beside no model, but in a cache folder, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from outrider.core.errors import ModelError
from outrider.core.model_options import Precision
from outrider.models.checkpoint import CONFIG_FILE, build_text_stack, read_checkpoint, weight_files
from outrider.models.graphs.blocks import HEAD_FILE, GraphSizes, Phase, graph_file
from outrider.models.graphs.export import export_block, export_head
from outrider.models.memory import check_memory
from outrider.models.text_stack import TextStack

FORMAT = 2
SIZES_FILE = "graphs.json"
EMBEDDINGS_FILE = "embeddings.npy"
MAX_BLOCKS = 32
PREFILL_ROWS = 128


@dataclass(frozen=True)
class GraphRequest:
    """What graphs are built of and for."""

    folder: Path
    vocab_size: int
    precision: Precision
    packs: bool
    num_slots: int
    decode_rows: int

    @property
    def digest(self) -> str:
        """Another file, or one that was touched, is another model."""
        names = [CONFIG_FILE, *(path.name for path in weight_files(self.folder))]
        stats = [(self.folder / name).stat() for name in names]
        parts = [FORMAT, *[(name, s.st_size, s.st_mtime_ns) for name, s in zip(names, stats, strict=True)]]
        parts += [self.vocab_size, self.precision, self.packs, self.num_slots, self.decode_rows]
        return hashlib.sha256(json.dumps([str(self.folder.resolve()), *parts]).encode()).hexdigest()[:24]


def cache_root() -> Path:
    """$OUTRIDER_CACHE, else a folder in the user's cache."""
    given = os.environ.get("OUTRIDER_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(base) / "outrider"


def find_graphs(request: GraphRequest) -> tuple[Path, GraphSizes]:
    """The folder of a request's graphs, built with a progress bar where it is not there yet.

    Raises ModelError where it cannot be built or written.
    """
    folder = cache_root() / "graphs" / request.digest
    if not (folder / SIZES_FILE).exists():
        _build(request, folder)
    content = json.loads((folder / SIZES_FILE).read_text())
    return folder, GraphSizes(tuple(content.pop("layers")), **content)


def block_layers(num_layers: int) -> tuple[int, ...]:
    """How many layers each block has: as even as can be, at most MAX_BLOCKS blocks."""
    num_blocks = min(num_layers, MAX_BLOCKS)
    return tuple(len(part) for part in np.array_split(np.arange(num_layers), num_blocks))


def _build(request: GraphRequest, folder: Path) -> None:
    check_memory(request.folder, weight_files(request.folder), request.precision)
    checkpoint = read_checkpoint(request.folder, torch.float32 if request.precision == "fp32" else "auto")
    stack = build_text_stack(checkpoint, request.vocab_size, request.precision, exact=True)
    sizes = GraphSizes(block_layers(stack.shape.num_layers), PREFILL_ROWS, request.decode_rows)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=folder.parent))
        try:
            write_graphs(unfinished, stack, sizes, request.num_slots, request.packs)
            if not folder.exists():  # another process may have been faster
                unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise ModelError(
            f"graphs cannot be written to {folder} ({error.strerror}): make room, or set OUTRIDER_CACHE"
        ) from error


def write_graphs(folder: Path, stack: TextStack, sizes: GraphSizes, num_slots: int, packs: bool) -> None:
    """Every file of a folder of graphs, with a progress bar; the stack is an exact one."""
    files = list(_graphs(stack, sizes, num_slots, packs))
    for name, export in track(files, "building graphs", console=Console(stderr=True)):
        export(folder / name)
    table = stack.embeddings
    np.save(
        folder / EMBEDDINGS_FILE, (table if table.dtype == torch.float32 else table.view(torch.int16)).numpy()
    )
    (folder / SIZES_FILE).write_text(json.dumps(asdict(sizes)))


def _graphs(
    stack: TextStack, sizes: GraphSizes, num_slots: int, packs: bool
) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Each file's name, and what exports it."""
    yield HEAD_FILE, partial(export_head, stack.final_norm, stack.head, sizes.decode_rows, packs)
    first = 0
    for index, count in enumerate(sizes.layers):
        layers = stack.layers[first : first + count]
        first += count
        phases: tuple[Phase, ...] = ("prefill", "decode")
        for phase in phases:
            export = partial(export_block, layers, stack.shape, sizes.rows(phase), num_slots, packs)
            yield graph_file(index, phase), export
