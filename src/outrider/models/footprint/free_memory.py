# SPDX-License-Identifier: Apache-2.0
"""How much memory this process can still have: the machine's, its control groups', a GPU's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch


class _Hierarchy(NamedTuple):
    """How a version of control groups names what it tells of memory (kernel.org, cgroup-v1 and cgroup-v2)."""

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
    """Of a GPU's memory what this process can still have: what is free, and what its allocator keeps back."""
    kept_back = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept_back


def available_bytes(root: Path = Path("/")) -> float:
    """Of this machine's memory what this process can still have, within the limits of its container or
    service; infinite where Linux does not tell.
    """
    return min(_left_on_machine(root), *_left_in_groups(root))


def _left_on_machine(root: Path) -> float:
    lines = _text(root / "proc/meminfo").splitlines()
    kilobytes = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return math.inf if kilobytes is None else int(kilobytes) * 1024


def _left_in_groups(root: Path) -> Iterator[float]:
    """In this process's group and all above it. A container may see none but its own, at the mount itself."""
    yield math.inf
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for one in _HIERARCHIES:
            if one.controller in controllers.split(","):
                parts = path.strip("/").split("/")
                for depth in range(len(parts) + 1):
                    yield _left_in(root.joinpath(one.mount, *parts[:depth]), one)


def _left_in(group: Path, names: _Hierarchy) -> float:
    """Pages of files are counted as used, and given back when memory is short."""
    limit, used = _text(group / names.limit).strip(), _text(group / names.used)
    if limit in ("", "max") or not used:
        return math.inf
    stat = dict(line.split(maxsplit=1) for line in _text(group / "memory.stat").splitlines())
    files = sum(int(stat.get(f"{names.stat}{kind}_file", 0)) for kind in ("active", "inactive"))
    return max(0, int(limit) - int(used) + files)


def _text(path: Path) -> str:
    """Empty where there is no such file."""
    try:
        return path.read_text()
    except OSError:
        return ""
