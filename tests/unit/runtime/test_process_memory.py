"""The memory figures of real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from outrider.runtime.common.json_figures import amend_figures, write_figures
from outrider.runtime.common.process_memory import PeakMemory, proportional_bytes

HELD_BYTES = 60_000_000
HOLDER = f"""
block = b"x" * {HELD_BYTES}
print("held")
input()
del block
print("freed")
input()
"""


def test_the_peak_is_kept_when_the_memory_is_given_back() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-u", "-c", HOLDER], **pipes) as holder:  # type: ignore[call-overload]
        assert holder.stdout.readline() == "held\n"
        peak = PeakMemory(period_s=0.0)
        peak.look([holder.pid])
        highest = peak.peak_bytes
        assert highest > HELD_BYTES
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "freed\n"
        assert proportional_bytes(holder.pid) < highest - HELD_BYTES / 2
        peak.look([holder.pid])
        assert peak.peak_bytes == highest
        holder.stdin.write("\n")
    assert proportional_bytes(holder.pid) == 0


def test_all_processes_count_and_looks_too_soon_are_left_out() -> None:
    one, two = PeakMemory(period_s=3600.0), PeakMemory(period_s=3600.0)
    one.look([os.getpid()])
    two.look([os.getpid(), os.getpid()])
    assert two.peak_bytes > 1.5 * one.peak_bytes > 0
    one.look([os.getpid()] * 5)
    assert one.peak_bytes < two.peak_bytes


def test_figures_are_written_and_amended_where_there_are_any(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "f.json"
    amend_figures(path, {"b": 2})
    assert not path.exists()
    write_figures(path, {"a": 1})
    amend_figures(path, {"b": 2})
    assert json.loads(path.read_text()) == {"a": 1, "b": 2}
    write_figures(None, {"a": 1})


KEEPER = """
import gc
from outrider.runtime.common.process_memory import keep_loaded

class Loop:
    def __init__(self): self.own = self

loaded = [Loop() for _ in range(10_000)]
keep_loaded()
assert len(gc.get_objects()) < 1_000, "a collection has little to look at"
before = gc.get_freeze_count()
del loaded
assert gc.collect() < 1_000, "what was kept is not looked at"
keep_loaded()
assert gc.get_freeze_count() < before - 5_000, "what nobody has any more is freed"
"""


def test_what_is_loaded_costs_no_collection_and_is_freed_when_the_next_is_loaded() -> None:
    subprocess.run([sys.executable, "-c", KEEPER], check=True, timeout=60)
