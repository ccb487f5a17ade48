# SPDX-License-Identifier: Apache-2.0
"""Descriptions of nodes and parameters: names, types, allowed values, and the check of given values."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import in_home

Value = bool | int | float | str
# Parameters that every ROS node has besides its own; `ros2 param dump` writes them too.
ROS_OWN = ("use_sim_time", "start_type_description_service", "qos_overrides")


@dataclass(frozen=True)
class Parameter:
    """One parameter: its type is its default's.

    A `live` one takes effect when it is set; the others are read when the node is configured. One with
    `is_path` may name a file or folder, and then may begin with `~`.
    """

    name: str
    default: Value
    description: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    read_only: bool = False
    live: bool = False
    is_path: bool = False

    def checked(self, value: Any, owner: str) -> Value:
        """Returns the value in this parameter's type.

        ConfigError names the parameter, its value, and the allowed values.
        """
        kind = type(self.default)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not kind:
            raise ConfigError(f"{owner}: parameter {self.name}={value!r} must be of type {kind.__name__}")
        if self.choices and value not in self.choices:
            raise ConfigError(
                f"{owner}: parameter {self.name}={value!r} must be one of {', '.join(self.choices)}"
            )
        if isinstance(value, (int, float)) and not self._in_range(value):
            raise ConfigError(f"{owner}: parameter {self.name}={value!r} must {self._range()}")
        if isinstance(value, str) and not _is_text(value):
            raise ConfigError(
                f"{owner}: parameter {self.name}={value!r} has bytes that are no text: give another"
            )
        if self.is_path and isinstance(value, str) and value.startswith("~"):
            return str(in_home(value))
        return value

    def _range(self) -> str:
        if self.maximum is None:
            return f"be at least {self.minimum}"
        return f"lie between {self.minimum} and {self.maximum}"

    def _in_range(self, value: float) -> bool:
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        return low <= value <= high


@dataclass(frozen=True)
class NodeSpec:
    """A node: its name in the graph, its module in `outrider.nodes`, and its parameters.

    If `wanted_by` names a parameter, the node is started only if that is set. A `restarted` node is started
    again if it ends while the others run. Nothing depends on its earlier state: the robot stands still until
    the node is back.
    """

    name: str
    module_path: str
    parameters: tuple[Parameter, ...]
    wanted_by: str = ""
    restarted: bool = False

    @property
    def module(self) -> str:
        """The module for `python -m` if no executable is installed."""
        return f"outrider.nodes.{self.module_path}"

    @property
    def executable(self) -> str:
        """The program that ROS starts."""
        return self.module_path.rpartition(".")[2]

    def checked(self, values: Mapping[str, Any]) -> dict[str, Value]:
        """Returns all parameters, given or default. Raises ConfigError for a wrong or an unknown one."""
        known = {parameter.name: parameter for parameter in self.parameters}
        unknown = sorted(set(values) - set(known))
        if unknown:
            near = near_name(unknown[0], known)
            names = ", ".join(unknown) + (f": did you mean {near}?" if near else ";")
            raise ConfigError(f"{self.name}: unknown parameter {names} known: {', '.join(sorted(known))}")
        return {name: p.checked(values.get(name, p.default), self.name) for name, p in known.items()}


def _is_text(value: str) -> bool:
    """Whether a text has an encoding: a word of the command line may hold bytes that are none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_ros_own(name: str) -> bool:
    """Whether a parameter, also one in a group, is one that every ROS node has."""
    return name.partition(".")[0] in ROS_OWN


def near_name(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Returns the known name with the most similar spelling, or an empty text if none is similar."""
    return next(iter(difflib.get_close_matches(name, list(known), 1, likeness)), "")
