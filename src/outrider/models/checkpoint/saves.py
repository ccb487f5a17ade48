# SPDX-License-Identifier: Apache-2.0
"""Checks whether a checkpoint's shards come from one save, by their index and their headers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from outrider.models.checkpoint.headers import WeightHeader, read_headers


def difference_of_saves(
    index_name: str, shard_of: Mapping[str, str], total_size: int | None, files: Sequence[Path]
) -> str | None:
    """Return what shows that the shards do not belong to their index; None if nothing does.

    `shard_of`: the shard of each tensor by the index; `total_size`: the index's total bytes, if given.
    """
    headers = {path.name: list(read_headers([path])) for path in files}
    for name, held in headers.items():
        odd = sorted({one.name for one in held} ^ {one for one, shard in shard_of.items() if shard == name})
        if odd:
            says = "puts" if shard_of.get(odd[0]) == name else "does not put"
            holds = "holds" if odd[0] in {one.name for one in held} else "lacks"
            return f"{index_name} {says} {odd[0]} in {name}, which {holds} it"
    total = sum(one.total_bytes for held in headers.values() for one in held)
    return _difference_of_types(headers) or (
        f"{index_name} says that all weights have {total_size} bytes, and they have {total}"
        if total_size not in (None, total)
        else None
    )


def _difference_of_types(headers: Mapping[str, Sequence[WeightHeader]]) -> str | None:
    """Return a part whose type differs between files; None if there is none.

    In one save all layers have the same type. A part is skipped if one file has several types for it.
    """
    types: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file, held in headers.items():
        for one in held:
            types[_part(one.name)][file].add(one.dtype)
    for part, by_file in types.items():
        if all(len(found) == 1 for found in by_file.values()) and len(set().union(*by_file.values())) > 1:
            said = ", ".join(f"{min(found)} in {file}" for file, found in sorted(by_file.items()))
            return f"{part} is {said}"
    return None


def _part(name: str) -> str:
    """Return a weight's name without its layer number."""
    return ".".join("*" if word.isdigit() else word for word in name.split("."))
