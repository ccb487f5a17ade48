# SPDX-License-Identifier: Apache-2.0
"""Rounds figures before they are written to a file."""

from __future__ import annotations

from typing import Any

DECIMALS = 4


def rounded(figures: Any) -> Any:
    """Return figures, nested in dictionaries or not, with DECIMALS decimals: further ones are noise."""
    if isinstance(figures, dict):
        return {name: rounded(figure) for name, figure in figures.items()}
    return round(figures, DECIMALS) if isinstance(figures, float) else figures
