# SPDX-License-Identifier: Apache-2.0
"""Finds how much memory this process can still get: from the machine, its control groups, and a GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch


class _Hierarchy(NamedTuple):
    """The names of memory files in a version of control groups (kernel.org, cgroup-v1 and cgroup-v2)."""

    controller: str
    mount: str
    limit: str
    used: str
    stat: str


_HIERARCHIES = (
    _Hierarchy("memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    _Hierarchy("", "sys/fs/cgroup", "memory.max", "memory.current", ""),
)


def available_on(device: torch.device | None) -> float:
    """Return the GPU memory that this process can still get: what is free, and its allocator's reserve."""
    kept_back = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept_back


def available_bytes(root: Path = Path("/")) -> float:
    """Return the machine's memory that this process can get, within its container's or service's limits.

    Infinite if Linux does not report it.
    """
    return min(_free_on_machine(root), *_free_in_groups(root))


def _free_on_machine(root: Path) -> float:
    lines = _text(root / "proc/meminfo").splitlines()
    kilobytes = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return math.inf if kilobytes is None else int(kilobytes) * 1024


def _free_in_groups(root: Path) -> Iterator[float]:
    """Yield the memory left in this process's group and all above it; a container may see only its own."""
    yield math.inf
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for hierarchy in _HIERARCHIES:
            if hierarchy.controller in controllers.split(","):
                parts = path.strip("/").split("/")
                for depth in range(len(parts) + 1):
                    yield _free_in(root.joinpath(hierarchy.mount, *parts[:depth]), hierarchy)


def _free_in(group: Path, names: _Hierarchy) -> float:
    """Return the memory left in a group. Pages of files count as used, but are freed if memory is short."""
    limit, used = _text(group / names.limit).strip(), _text(group / names.used)
    if limit in ("", "max") or not used:
        return math.inf
    stat = dict(line.split(maxsplit=1) for line in _text(group / "memory.stat").splitlines())
    files = sum(int(stat.get(f"{names.stat}{kind}_file", 0)) for kind in ("active", "inactive"))
    return max(0, int(limit) - int(used) + files)


def _text(path: Path) -> str:
    """Return the content of a file; empty if it does not exist."""
    try:
        return path.read_text()
    except OSError:
        return ""
