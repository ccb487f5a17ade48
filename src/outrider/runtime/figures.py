"""Measured figures as JSON, for machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from outrider.core.writing import make_folder, writing_to

REPORT_FILE = "report.json"


def write_figures(json_file: Path | None, figures: dict[str, Any]) -> None:
    """Replaces the file; does nothing where none was asked for."""
    if json_file is not None:
        with writing_to(json_file):
            make_folder(json_file.parent)
            json_file.write_text(json.dumps(figures, indent=1) + "\n")


def amend_figures(json_file: Path, figures: dict[str, Any]) -> None:
    """Add to a file of figures; does nothing where there is no such file."""
    if json_file.is_file():
        write_figures(json_file, json.loads(json_file.read_text()) | figures)
