# SPDX-License-Identifier: Apache-2.0
"""Finds the results that were measured with another engine or pair than those of this checkout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from figure_results import Results

OTHER = {"engine": "another engine", "pair": "another pair"}
UNKNOWN = "an engine and a pair that they do not name"


def outdated(results: Results, now: Mapping[str, str]) -> dict[str, list[str]]:
    """Returns the names of the results that differ from `now`, grouped by what they were made with.

    `now` is the return value of `made_with`. Cards of models and results of `make` commands are excluded.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for name, entry in results.index.items():
        if "file" in entry or entry["command"].startswith("make "):
            continue
        made = results[name].get("made_with")
        other = [words for key, words in OTHER.items() if made and made.get(key) != now.get(key)]
        if made is None or other:
            found[" and ".join(other) or UNKNOWN].append(name)
    return dict(found)
