# SPDX-License-Identifier: Apache-2.0
"""Runs a node that can be made to fail, for `outrider eval kills`: `python -m` this, then the node's module.

The signal THREAD makes one of its threads raise, CALLBACK one of its callbacks. Nothing else differs.
"""

from __future__ import annotations

import importlib
import signal
import sys
import threading

from outrider.nodes.common.node import OutriderNode

THREAD, CALLBACK = signal.SIGRTMIN, signal.SIGRTMIN + 1


def _fail(origin: str) -> None:
    raise RuntimeError(f"a {origin} of the node failed")


def _wait_to_fail(node: OutriderNode) -> None:
    in_callback = node.create_guard_condition(lambda: _fail("callback"))
    while signal.sigwait({THREAD, CALLBACK}) == CALLBACK:
        in_callback.trigger()
    _fail("thread")


def main() -> int:
    """Run a node that fails when it is signalled to; return its exit status."""
    module = sys.argv.pop(1)
    # Block them before other threads start, which would receive them.
    signal.pthread_sigmask(signal.SIG_BLOCK, {THREAD, CALLBACK})
    start = OutriderNode.start

    def start_and_wait(node: OutriderNode) -> None:
        start(node)
        threading.Thread(target=_wait_to_fail, args=(node,), daemon=True).start()

    setattr(OutriderNode, "start", start_and_wait)  # noqa: B010
    return int(importlib.import_module(module).main())


if __name__ == "__main__":
    raise SystemExit(main())
