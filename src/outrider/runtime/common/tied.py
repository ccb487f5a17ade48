# SPDX-License-Identifier: Apache-2.0
"""Runs a program of others that ends with the process it belongs to: `python -m` this, then its command.

It ends when asked to as well, though it may hang at its end and heed no signal any more, as the server of
Gazebo Fortress does now and then: whoever kills this process for that would leave it behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

from outrider.runtime.common.ending_signals import ENDING_SIGNALS, on_ending_signals, when_parent_ends

END_S = 5.0


def main() -> int:
    """The program's exit status, as a shell gives it. What asks for the end goes to all of its processes."""
    # Not lost in between: a signal that comes before there is a handler would end this process alone.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    program = subprocess.Popen(sys.argv[1:], start_new_session=True, preexec_fn=_unblock)
    on_ending_signals(
        lambda number, _: threading.Thread(target=_end, args=(program.pid, number), daemon=True).start()
    )
    _unblock()
    when_parent_ends(lambda: _end(program.pid, signal.SIGTERM))
    status = program.wait()
    _signal(program.pid, signal.SIGKILL)  # what it has started and left behind
    return status if status >= 0 else 128 - status


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
