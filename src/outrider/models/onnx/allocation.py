# SPDX-License-Identifier: Apache-2.0
"""Controls where glibc allocates weights, so that a freed graph leaves its memory to the next one."""

from __future__ import annotations

import contextlib
import ctypes

_MMAP_THRESHOLD = -3
_APART_BYTES = 1 << 20
"""Less than the weights of a layer's smallest product, and more than the rows of a decode step."""


def map_weights_apart() -> None:
    """Map allocations above _APART_BYTES separately from now on; freed ones return to the system.

    By default glibc soon takes all below 32 MB from heaps that it keeps. Freed weights leave holes there
    that only some of the next graph's fit, so memory grows with each switch, by up to a third. As a cost, a
    prompt's larger rows are mapped anew each time, a tenth of its time. Without glibc nothing happens.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _APART_BYTES)
