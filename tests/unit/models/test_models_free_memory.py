"""Free memory, within the limits of the container that a program runs in."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from outrider.models.footprint.free_memory import available_bytes

GB = 2**30


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return the root of a machine with 16 GB of free memory."""
    write(tmp_path, {"proc/meminfo": f"MemTotal: 99 kB\nMemAvailable: {16 * 2**20} kB\nBuffers: 1 kB\n"})
    return tmp_path


def group_v2(limit: str, used: int, files: int = 0) -> dict[str, str]:
    stat = f"anon 1\nactive_file {files // 2}\ninactive_file {files // 2}\n"
    return {"memory.max": f"{limit}\n", "memory.current": f"{used}\n", "memory.stat": stat}


def at(folder: str, files: dict[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in files.items()}


def test_this_machine_tells_its_memory() -> None:
    assert 1e6 < available_bytes() < math.inf


def test_a_system_that_tells_nothing_has_no_limit(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) == math.inf


def test_without_control_groups_all_that_is_available_counts(machine: Path) -> None:
    assert available_bytes(machine) == 16 * GB


def test_a_container_has_what_its_own_limit_leaves(machine: Path) -> None:
    write(machine, {"proc/self/cgroup": "0::/\n"})
    write(machine, at("sys/fs/cgroup", group_v2(str(8 * GB), 3 * GB)))
    assert available_bytes(machine) == 5 * GB


def test_pages_of_files_can_be_had_again(machine: Path) -> None:
    write(machine, {"proc/self/cgroup": "0::/\n"})
    write(machine, at("sys/fs/cgroup", group_v2(str(8 * GB), 3 * GB, files=2 * GB)))
    assert available_bytes(machine) == 7 * GB


def test_the_tightest_of_the_groups_around_a_process_counts(machine: Path) -> None:
    write(machine, {"proc/self/cgroup": "0::/pods/pod:1/main\n"})
    write(machine, at("sys/fs/cgroup/pods", group_v2("max", 9 * GB)))
    write(machine, at("sys/fs/cgroup/pods/pod:1", group_v2(str(4 * GB), GB)))
    write(machine, at("sys/fs/cgroup/pods/pod:1/main", group_v2(str(6 * GB), GB)))
    assert available_bytes(machine) == 3 * GB


def test_the_machine_itself_may_have_less_than_a_limit_allows(machine: Path) -> None:
    write(machine, {"proc/self/cgroup": "0::/\n"})
    write(machine, at("sys/fs/cgroup", group_v2(str(64 * GB), 0)))
    assert available_bytes(machine) == 16 * GB


def test_a_group_beyond_its_limit_leaves_nothing(machine: Path) -> None:
    write(machine, {"proc/self/cgroup": "0::/\n"})
    write(machine, at("sys/fs/cgroup", group_v2(str(GB), 2 * GB)))
    assert available_bytes(machine) == 0


@pytest.mark.parametrize("mounted", ["sys/fs/cgroup/memory", "sys/fs/cgroup/memory/docker/1f"])
def test_groups_of_the_first_version_are_read_too(machine: Path, mounted: str) -> None:
    """Also if a container finds its own group at the mount, and not at the path that it is given."""
    write(machine, {"proc/self/cgroup": "4:cpu,cpuacct:/docker/1f\n3:memory:/docker/1f\n0::/\n"})
    files = {
        "memory.limit_in_bytes": f"{2 * GB}\n",
        "memory.usage_in_bytes": f"{GB}\n",
        "memory.stat": f"active_file 1\ntotal_active_file {GB // 4}\ntotal_inactive_file {GB // 4}\n",
    }
    write(machine, at(mounted, files))
    assert available_bytes(machine) == 1.5 * GB
