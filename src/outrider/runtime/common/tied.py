# SPDX-License-Identifier: Apache-2.0
"""Runs a foreign program until the process it belongs to ends: `python -m` this module, then its command.

An ending signal ends the program too, even if it hangs at its end and ignores signals, as Gazebo Fortress's
server does at times. If this process is killed instead, the program keeps running.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

from outrider.runtime.common.ending_signals import (
    ENDING_SIGNALS,
    POLL_S,
    on_ending_signals,
    when_parent_ends,
)

END_S = 5.0


def main() -> int:
    """Run the program and return its exit status, as a shell does.

    Ending signals are passed on to all of its processes.
    """
    # Block signals until the handler is installed: an earlier one would end only this process.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    program = subprocess.Popen(sys.argv[1:], start_new_session=True, preexec_fn=_unblock)
    on_ending_signals(
        lambda number, _: threading.Thread(target=_end, args=(program.pid, number), daemon=True).start()
    )
    _unblock()
    when_parent_ends(lambda: _end(program.pid, signal.SIGTERM))
    status = _status_of(program)
    _signal(program.pid, signal.SIGKILL)  # to the processes that the program started and did not end
    return status if status >= 0 else 128 - status


def _status_of(program: subprocess.Popen[bytes]) -> int:
    """Wait for the program. Signals are handled between the waits at the latest; see `wait_for_ending`."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return program.wait(POLL_S)


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


def _end(group: int, number: int) -> None:
    _signal(group, number)
    time.sleep(END_S)
    _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    raise SystemExit(main())
