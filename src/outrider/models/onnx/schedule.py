# SPDX-License-Identifier: Apache-2.0
"""Plans when to load which block's decode graph while a prompt is computed: sd.npu's greedy choice of k.

A prefill of C chunks over N blocks has C * N steps; step s computes block s % N. A block cannot be computed
while its decode graph is loading, because its prefill graph has been dropped. Independent of onnxruntime.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

CAUTION = 2.0
"""Loads are planned to take this much longer than profiled, if that fits: other programs may slow them."""


@dataclass(frozen=True)
class Profile:
    """Seconds for each block: to load either graph, and to compute one chunk with either."""

    load_decode: tuple[float, ...]
    load_prefill: tuple[float, ...]
    chunk_prefill: tuple[float, ...]
    chunk_decode: tuple[float, ...]

    @property
    def num_blocks(self) -> int:
        """The number of blocks."""
        return len(self.load_decode)


@dataclass(frozen=True)
class Load:
    """Load a block's decode graph while the steps first..last are computed."""

    block: int
    first: int
    last: int


def plan_switch(profile: Profile, num_chunks: int) -> tuple[Load, ...]:
    """Return loads hidden behind steps, started as late as all of them fit:
    decode graphs compute chunks slowly.

    Blocks that no plan can hide are missing; they are loaded after the last step.
    """
    total = num_chunks * profile.num_blocks
    for times in (_slower_loads(profile, CAUTION), profile):
        for first_step in range(total - 1, -1, -1):
            loads = tuple(_greedy(times, first_step, total))
            if len(loads) == profile.num_blocks:
                return loads
    return tuple(_greedy(profile, 0, total))


def _slower_loads(profile: Profile, factor: float) -> Profile:
    return replace(profile, load_decode=tuple(factor * load_s for load_s in profile.load_decode))


def prefers_decode(profile: Profile, num_chunks: int) -> bool:
    """Return whether a prompt finishes sooner on loaded decode graphs than after loading prefill graphs."""
    slower_s = num_chunks * (sum(profile.chunk_decode) - sum(profile.chunk_prefill))
    hidden = {load.block for load in plan_switch(profile, num_chunks)}
    back_s = sum(load_s for block, load_s in enumerate(profile.load_decode) if block not in hidden)
    return slower_s <= reload_exposed_s(profile) + back_s


def reload_exposed_s(profile: Profile) -> float:
    """Return the seconds waited if prefill graphs load in order while the blocks before them compute."""
    loaded_s = computed_s = 0.0
    for load_s, compute_s in zip(profile.load_prefill, profile.chunk_prefill, strict=True):
        loaded_s += load_s
        computed_s = max(computed_s, loaded_s) + compute_s
    return computed_s - sum(profile.chunk_prefill)


def _greedy(profile: Profile, first_step: int, total: int) -> Iterator[Load]:
    """Yield loads from `first_step` on, each hidden behind the fewest steps (eq. 2).

    A block that has been computed for the last time comes first, because no chunk then runs on its decode
    graph; otherwise the last block.
    """
    waiting, step = list(range(profile.num_blocks)), first_step
    last_chunk = total - profile.num_blocks
    while waiting and step < total:
        run = next(
            (
                load
                for block in sorted(waiting, key=lambda block: (last_chunk + block >= step, -block))
                if (load := _hidden(profile, waiting, block, step, total))
            ),
            None,
        )
        if run is None:
            step += 1
            continue
        waiting.remove(run.block)
        step = run.last + 1
        yield run


def _hidden(profile: Profile, waiting: Sequence[int], block: int, step: int, total: int) -> Load | None:
    """Return the fewest steps from `step` on that hide a load; None if they need the block or are too few."""
    left_s = profile.load_decode[block]
    for last in range(step, total):
        computed = last % profile.num_blocks
        if computed == block:
            return None
        left_s -= (profile.chunk_prefill if computed in waiting else profile.chunk_decode)[computed]
        if left_s <= 0.0:
            return Load(block, step, last)
    return None
