# SPDX-License-Identifier: Apache-2.0
"""The language half of a model as static graphs, from embedded tokens to logits."""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from outrider.core.ports import Pause
from outrider.models.backbone.mrope import RotaryTable
from outrider.models.backbone.text_stack import TextShape
from outrider.models.onnx.blocks import (
    GraphBlocks,
    GraphCache,
    GraphSizes,
    Phase,
    Rows,
    Slots,
    Strand,
)
from outrider.models.onnx.providers import find_provider
from outrider.models.onnx.schedule import Profile
from outrider.models.onnx.store import read_embeddings

PROFILE_RUNS = 3


class GraphLanguage:
    """The graphs in a folder, made for `num_slots` slots, on one execution provider."""

    def __init__(
        self,
        folder: Path,
        sizes: GraphSizes,
        shape: TextShape,
        rotary: RotaryTable,
        num_slots: int,
        provider: str = "cpu",
        threads: int = 1,
    ) -> None:
        """Profile the graphs if that has not been done yet.

        Raises ModelError, OutOfMemoryError, and ConfigError without the provider.
        """
        self.folder = folder
        self._shape = shape
        self._rotary = rotary
        self.num_slots = num_slots
        self.blocks = GraphBlocks(folder, sizes, find_provider(provider), threads)
        self._table = read_embeddings(folder)
        self.profile = self._find_profile(folder / f"profile-{provider}-{threads}.json", sizes.prefill_rows)
        self.blocks.settle("prefill")

    def open_cache(self) -> GraphCache:
        """Return an empty cache of keys and values."""
        shape = self._shape
        size = (shape.num_layers, shape.num_kv_heads, self.num_slots, shape.head_dim)
        return GraphCache(np.zeros(size, dtype=np.float32), np.zeros(size, dtype=np.float32))

    def embed(self, token_ids: Sequence[int]) -> Tensor:
        """Return embedded tokens (M, hidden)."""
        return self._table[torch.tensor(token_ids, dtype=torch.long)].float()

    def prefill(
        self, hidden: Tensor, positions: Tensor, cache: GraphCache, deep: Sequence[Tensor] = ()
    ) -> Tensor:
        """Run a prompt's embedded tokens into the first slots; return the last layer's output (M, hidden).

        `deep`: what is added to all rows after each of the first layers.
        """
        rows = replace(self.first_rows(hidden, positions), deep=tuple(one.numpy() for one in deep))
        return torch.from_numpy(self.blocks.prefill(rows, cache, self.profile))

    def forward(self, rows: Rows, cache: GraphCache, pause: Pause | None = None) -> Tensor:
        """Run rows after prompts; return the last layer's output (M, hidden)."""
        return torch.from_numpy(self.blocks.decode(rows, cache, pause))

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits (M, V) of hidden rows (M, hidden)."""
        return torch.from_numpy(self.blocks.logits(hidden.numpy()))

    def first_rows(self, hidden: Tensor, positions: Tensor) -> Rows:
        """Return the rows of embedded tokens that begin a text in slot 0."""
        count = len(hidden)
        return self.rows(
            hidden, positions, np.arange(count), (Strand(0, count, np.empty(0, dtype=np.int64)),)
        )

    def rows(self, hidden: Tensor, positions: Tensor, slots: Slots, strands: tuple[Strand, ...]) -> Rows:
        """Return embedded tokens (M, hidden) at positions (3, M) as input for the blocks."""
        cos, sin = self._rotary.at(positions)
        return Rows(hidden.numpy(), cos.numpy(), sin.numpy(), slots, strands)

    def _find_profile(self, path: Path, prefill_rows: int) -> Profile:
        """Return the profile, measured once per provider and thread count; each time if not saved."""
        try:
            known = {name: tuple(times) for name, times in json.loads(path.read_text()).items()}
            if any(len(times) != self.blocks.count for times in known.values()):
                raise ValueError("a profile of other blocks")
            return Profile(**known)
        except (OSError, ValueError, TypeError, AttributeError):  # missing, or incomplete
            profile = self._measure(prefill_rows)
        with contextlib.suppress(OSError):
            path.write_text(json.dumps(asdict(profile)))
        return profile

    def _measure(self, num_rows: int) -> Profile:
        hidden = torch.zeros(num_rows, self._table.shape[1], dtype=torch.float32)
        rows = self.first_rows(hidden, torch.zeros(3, num_rows, dtype=torch.long))
        cache = self.open_cache()
        loads: dict[Phase, list[float]] = {"decode": [], "prefill": []}
        chunks: dict[Phase, list[float]] = {"decode": [], "prefill": []}
        for index in range(self.blocks.count):
            for phase in loads:
                runs = [self.blocks.measure(index, phase, cache, rows) for _ in range(PROFILE_RUNS)]
                loads[phase].append(statistics.median(load_s for load_s, _ in runs))
                chunks[phase].append(statistics.median(chunk_s for _, chunk_s in runs))
        times = loads["decode"], loads["prefill"], chunks["prefill"], chunks["decode"]
        return Profile(*map(tuple, times))
