# SPDX-License-Identifier: Apache-2.0
"""Writes measured figures as JSON, for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from outrider.core.files.private_files import make_private_folder
from outrider.core.files.writing import replace_file

REPORT_FILE = "report.json"


def write_figures(json_file: Path | None, figures: dict[str, Any]) -> None:
    """Write a file as a whole; does nothing for None. Figures may quote a person: a new folder is private."""
    if json_file is not None:
        make_private_folder(json_file.parent)
        replace_file(json_file, (json.dumps(figures, indent=1) + "\n").encode())


def amend_figures(json_file: Path, figures: dict[str, Any]) -> None:
    """Add figures to a file; does nothing if it does not exist."""
    if json_file.is_file():
        write_figures(json_file, json.loads(json_file.read_text()) | figures)
