# SPDX-License-Identifier: Apache-2.0
"""How many files and connections this process may have open."""

from __future__ import annotations

import resource
from contextlib import suppress

MAX_FILES = 1 << 16


def have_descriptors() -> None:
    """Raise this process's limit of open files as far as the system permits, up to MAX_FILES.

    A connection that does not complete its handshake holds a descriptor until that times out. If a flood of
    them took all descriptors, whatever else needs one would have to wait for the timeouts: a stop from a
    page, a robot that connects again.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def num_descriptors() -> int:
    """Returns how many files this process may have open, at most MAX_FILES."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_FILES if soft == resource.RLIM_INFINITY else min(MAX_FILES, soft)
