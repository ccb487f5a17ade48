"""The command line, built once."""

from __future__ import annotations

from functools import cache
from typing import Any

import typer

from outrider.cli import app


@cache
def command_line() -> Any:
    """The group of all commands, not to be changed."""
    return typer.main.get_command(app)
