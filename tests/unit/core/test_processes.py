"""Workers do not outlive the process that started them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outrider.core.errors import OutriderError
from outrider.core.processes import work_apart, work_through

POOL = """
import os, time
from outrider.core.processes import work_through

def work(seconds):
    os.write(1, b"%d\\n" % os.getpid())  # in one piece, whatever the other worker writes
    time.sleep(seconds)

if __name__ == "__main__":
    results = work_through(work, [0.0, 0.0, {busy}, {busy}], 2)
    for _ in range(4):
        next(results)
    time.sleep(60.0)
"""


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("busy", [0.0, 60.0], ids=["idle workers", "workers at work"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_is_left_behind(tmp_path: Path, number: int, busy: float) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL.format(busy=busy))
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        workers = {int(process.stdout.readline()) for _ in range(4)}
        assert all(map(is_there, workers))
        process.send_signal(number)
        process.wait(10.0)
        deadline_s = time.monotonic() + 10.0
        while any(map(is_there, workers)) and time.monotonic() < deadline_s:
            os.sched_yield()
        assert not any(map(is_there, workers))


DEAF = """
import functools, signal
from outrider.core.processes import work_through

if __name__ == "__main__":
    blocked = functools.partial(signal.pthread_sigmask, signal.SIG_BLOCK)
    deaf = list(work_through(blocked, [()] * 8, 2))
    assert all(signal.SIGINT in one for one in deaf)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
"""


def test_an_interrupt_of_the_terminal_is_for_the_first_process_alone(tmp_path: Path) -> None:
    script = tmp_path / "deaf.py"
    script.write_text(DEAF)
    subprocess.run([sys.executable, script], check=True, timeout=60)


def test_there_are_no_more_workers_than_tasks() -> None:
    assert sorted(work_through(abs, [-1, 2], 10**20)) == [1, 2]
    assert list(work_through(abs, [], 10**20)) == []


def test_work_apart_has_a_process_of_its_own() -> None:
    assert work_apart(abs, -3) == 3
    with pytest.raises(ZeroDivisionError):
        work_apart((1).__truediv__, 0)


@pytest.mark.timeout(60)
def test_work_whose_worker_is_killed_ends() -> None:
    with pytest.raises(OutriderError, match="a worker was killed"):
        list(work_through(os._exit, [9, 9, 9], 2))
    with pytest.raises(OutriderError, match="a worker was killed"):
        work_apart(os._exit, 9)


def kill_the_other_once_it_idles(shared: str) -> int:
    """Wait until two processes have one task each. One returns; the other kills the idle process."""
    (Path(shared) / str(os.getpid())).touch()
    while len(pids := sorted(int(noted.name) for noted in Path(shared).iterdir())) < 2:
        time.sleep(0.01)
    if os.getpid() == pids[0]:
        return 0
    time.sleep(0.3)  # by now it has returned its result and waits for another task
    os.kill(pids[0], signal.SIGKILL)
    return 1


@pytest.mark.timeout(60)
def test_work_ends_where_an_idle_worker_is_killed(tmp_path: Path) -> None:
    with contextlib.suppress(OutriderError):
        list(work_through(kill_the_other_once_it_idles, [str(tmp_path)] * 2, 2))


def test_an_error_of_a_worker_is_that_of_the_work() -> None:
    with pytest.raises(FileNotFoundError):
        list(work_through(os.stat, ["/no such file"], 2))
