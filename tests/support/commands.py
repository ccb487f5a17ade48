"""The command line, built once for all tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import typer

from outrider.cli import app


@cache
def command_line() -> Any:
    """Returns the group of all commands. Do not modify it."""
    return typer.main.get_command(app)
