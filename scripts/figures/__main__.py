# SPDX-License-Identifier: Apache-2.0
"""Writes every measured figure of README.md and docs/ from benchmarks/results/, and draws the pictures.

`make figures` calls this. A figure is the text between `<!--fig:NAME-->` and `<!--/fig-->`. NAME is either
RESULT:PATH:FORMAT, for one value of a result, or the name of a table or number in FIGURES. With `code` or
`parameter` as RESULT, the value is a setting of the program (see `value_text`). benchmarks/results.yaml names
the command that writes each result.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from figure_age import outdated
from figure_agents import AGENTS
from figure_alternatives import ALTERNATIVES
from figure_decoding import DECODING
from figure_models import MODELS
from figure_navigation import NAVIGATION
from figure_plots import PICTURES, draw
from figure_results import ROOT, Results, value_text
from figure_robot import ROBOT
from figure_weights import WEIGHTS

from outrider.runtime.common.made_with import made_with

FIGURES = {**AGENTS, **ALTERNATIVES, **DECODING, **NAVIGATION, **ROBOT, **MODELS, **WEIGHTS}
MARKED = re.compile(r"<!--fig:([^>]+?)-->(.*?)<!--/fig-->", re.DOTALL)
PICTURE_FOLDER = ROOT / "docs" / "pictures"


def figure_text(results: Results, name: str) -> str:
    """Returns the text of a figure by its name. Raises KeyError for an unknown name."""
    if ":" in name:
        result, path, form = name.split(":", 2)
        return value_text(results, result, path, form)
    if name not in FIGURES:
        raise KeyError(f"{name} is no table or number of scripts/figures")
    return FIGURES[name](results)


def rendered(results: Results, text: str) -> str:
    """Returns a document with every marked figure replaced by the current result."""
    return MARKED.sub(lambda mark: f"<!--fig:{mark[1]}-->{figure_text(results, mark[1])}<!--/fig-->", text)


def documents() -> list[Path]:
    """Returns the documents that may contain figures."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> None:
    """Writes documents and pictures; prints the names of those that changed."""
    results = Results()
    for document in documents():
        text = document.read_text()
        if (new := rendered(results, text)) != text:
            document.write_text(new)
            print(document.relative_to(ROOT))
    for name in PICTURES:
        path = PICTURE_FOLDER / f"{name}.svg"
        if draw(results, name, path):
            print(path.relative_to(ROOT))
    for other, names in outdated(results, made_with()).items():
        print(f"measured with {other}: {', '.join(names)}", file=sys.stderr)


if __name__ == "__main__":
    main()
