# SPDX-License-Identifier: Apache-2.0
"""Where glibc puts weights, so that a graph that is let go of leaves its memory to the next one."""

from __future__ import annotations

import contextlib
import ctypes

_MMAP_THRESHOLD = -3
_APART_BYTES = 1 << 20
"""Less than a layer's smallest product has weights, and more than a decode step's rows take."""


def map_weights_apart() -> None:
    """From now on what is larger than _APART_BYTES is mapped apart, and the system's again when it is freed.

    Left to itself glibc soon takes all below 32 MB from heaps that it keeps: freed weights leave holes there
    of which the next graph's fit but some, and memory grows with each switch, by none to a third. A prompt's
    larger rows are mapped anew each time as well, a tenth of its time. Without glibc nothing happens.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _APART_BYTES)
