"""Measured figures as JSON, for machines."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError

REPORT_FILE = "report.json"


@contextlib.contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Inside, the system's refusal to write is a ConfigError that names the path."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {path} ({error.strerror}): choose another place") from error


def write_figures(json_file: Path | None, figures: dict[str, Any]) -> None:
    """Replaces the file; does nothing where none was asked for."""
    if json_file is not None:
        with writing_to(json_file):
            json_file.parent.mkdir(parents=True, exist_ok=True)
            json_file.write_text(json.dumps(figures, indent=1) + "\n")


def amend_figures(json_file: Path, figures: dict[str, Any]) -> None:
    """Add to a file of figures; does nothing where there is no such file."""
    if json_file.is_file():
        write_figures(json_file, json.loads(json_file.read_text()) | figures)
