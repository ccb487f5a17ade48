# SPDX-License-Identifier: Apache-2.0
"""Memory of a group of processes, from Linux's /proc: a page that several share counts once."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable
from pathlib import Path

PERIOD_S = 1.0


def proportional_bytes(pid: int) -> int:
    """A process's proportional set size; 0 for one that has ended or is not ours to look at."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    lines = (line.split() for line in rollup.splitlines() if line.startswith("Pss:"))
    return sum(int(fields[1]) * 1024 for fields in lines)


class PeakMemory:
    """The most that a group held at any look; looks that come too soon after the last are not taken."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        """`period_s`: seconds from one look to the next at least."""
        self.peak_bytes = 0
        self._period_s = period_s
        self._next_s = 0.0

    def look(self, pids: Iterable[int]) -> None:
        """Measures the processes' memory, at most once in a period, and keeps the maximum."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + self._period_s
            self.peak_bytes = max(self.peak_bytes, sum(map(proportional_bytes, pids)))


def peak_bytes() -> int:
    """The most that this process has held so far, mapped files included; 0 where Linux does not tell."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    lines = (line.split() for line in status.splitlines() if line.startswith("VmHWM:"))
    return sum(int(fields[1]) * 1024 for fields in lines)


def keep_loaded() -> None:
    """Exclude all present objects from garbage collections; call it once everything is loaded.

    A full collection stops every thread, with torch and a model loaded for tenths of a second: longer than a
    robot may go without a picture. Garbage among the objects that an earlier call excluded is freed first.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
