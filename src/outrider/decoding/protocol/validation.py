# SPDX-License-Identifier: Apache-2.0
"""Checks of configured values. Each raises ConfigError with the field, the value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Collection

from outrider.core.errors import ConfigError


def require_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Check that a value is one of the choices. Raises ConfigError that names them."""
    if value not in choices:
        raise ConfigError(f"{name}={value!r} is not one of {', '.join(choices)}")


def require_whole(name: str, value: object, low: int, high: int) -> None:
    """Check that a value is a whole number within its bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{name}={value!r} must be a whole number from {low} to {high}")


def require_seconds(name: str, value: float) -> None:
    """Check that a value is a finite number of seconds above 0."""
    if not is_number(value) or not 0 < value < math.inf:
        raise ConfigError(f"{name}={value!r} must be a positive number of seconds")


def is_number(value: object) -> bool:
    """Return whether a value is an int or a float, and no bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
