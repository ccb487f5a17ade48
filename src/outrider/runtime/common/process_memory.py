# SPDX-License-Identifier: Apache-2.0
"""Memory of a group of processes, from Linux's /proc. Pages that several share count once."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable
from pathlib import Path

PERIOD_S = 1.0


def proportional_bytes(pid: int) -> int:
    """Returns a process's proportional set size; 0 if it has ended or cannot be read."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    lines = (line.split() for line in rollup.splitlines() if line.startswith("Pss:"))
    return sum(int(fields[1]) * 1024 for fields in lines)


class PeakMemory:
    """The peak memory of a group of processes, over measurements that are at least a period apart."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        """`period_s` is the least time between two measurements, in seconds."""
        self.peak_bytes = 0
        self._period_s = period_s
        self._next_s = 0.0

    def look(self, pids: Iterable[int]) -> None:
        """Measure the processes' memory, at most once in a period, and keep the maximum."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + self._period_s
            self.peak_bytes = max(self.peak_bytes, sum(map(proportional_bytes, pids)))


def peak_bytes() -> int:
    """Returns the peak memory of this process, with mapped files; 0 if Linux does not report it."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    lines = (line.split() for line in status.splitlines() if line.startswith("VmHWM:"))
    return sum(int(fields[1]) * 1024 for fields in lines)


def keep_loaded() -> None:
    """Exclude all existing objects from garbage collection. Call it once everything is loaded.

    A full collection stops every thread, with torch and a model loaded for tenths of a second: longer than
    a robot may go without a picture. Garbage among the objects that an earlier call excluded is freed
    first.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
