# SPDX-License-Identifier: Apache-2.0
"""Which results were measured with another engine or pair than those of this checkout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from figure_results import Results

OTHER = {"engine": "another engine", "pair": "another pair"}
UNKNOWN = "an engine and a pair that they do not name"


def outdated(results: Results, now: Mapping[str, str]) -> dict[str, list[str]]:
    """Returns the results that were not made with `now`, of `made_with`, by what they were made with.

    Cards of models, which come with their weights, are left out, and what `make` does.
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
