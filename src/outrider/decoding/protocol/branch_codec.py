# SPDX-License-Identifier: Apache-2.0
"""Branches of a draft as bytes: runs of tokens, each of which may first go back along the previous run.

`a b c`, back 2, `x y` encodes the branches `abc` and `axy`. An id below 16,384 takes two bytes and a run one
more, so a draft costs little more on the wire than its tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from outrider.core.errors import ProtocolError
from outrider.core.varints import read_varints, write_varints

_MAX_RUN = 15


class Run(NamedTuple):
    """`back`: tokens to go back in the previous run; `preferred`: likelier than all sent at its position."""

    back: int
    tokens: tuple[int, ...]
    preferred: bool = False


def pack_runs(runs: Iterable[Run]) -> bytes:
    """Return runs as bytes. A long run is cut into parts that go back by nothing."""
    numbers: list[int] = []
    for run in runs:
        for start in range(0, len(run.tokens), _MAX_RUN):
            part = run.tokens[start : start + _MAX_RUN]
            back, preferred = (0, False) if start else (run.back, run.preferred)
            numbers += [back << 5 | preferred << 4 | len(part), *part]
    return write_varints(numbers)


def unpack_runs(packed: bytes) -> tuple[Run, ...]:
    """Return the runs. Raises ProtocolError if the bytes are not exactly runs that stay on their branch."""
    numbers = read_varints(packed)
    runs: list[Run] = []
    at = depth = 0
    while at < len(numbers):
        back, preferred, count = numbers[at] >> 5, bool(numbers[at] & 16), numbers[at] & _MAX_RUN
        tokens = tuple(numbers[at + 1 : at + 1 + count])
        if not tokens or len(tokens) != count:
            raise ProtocolError("a draft is cut short or holds an empty run")
        if back > depth:
            raise ProtocolError("a draft goes back beyond its parent")
        depth += count - back
        at += 1 + count
        runs.append(Run(back, tokens, preferred))
    return tuple(runs)
