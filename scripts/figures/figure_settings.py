# SPDX-License-Identifier: Apache-2.0
"""Reads settings and limits of the program by name, so that the documents agree with the code."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from outrider.runtime.node_graph.node_specs import NODES


def parameter(path: str) -> Any:
    """Returns the default of a node's parameter. `path`: NODE.PARAMETER. Raises KeyError if there is none."""
    node, _, name = path.partition(".")
    return {one.name: one.default for one in NODES[node].parameters}[name]


def constant(path: str) -> Any:
    """Returns a constant, or a field or item of one. `path`: MODULE.NAME..., without `outrider.`.

    A name is an attribute, which is called if it ends in `()`. A number is an item's index. Raises KeyError.
    """
    module, names = _module(path.split("."))
    value = module
    for name in names:
        try:
            value = value[int(name)] if name.isdigit() else getattr(value, name.removesuffix("()"))
        except (AttributeError, IndexError) as error:
            raise KeyError(f"{path}: the code has no {name}") from error
        value = value() if name.endswith("()") else value
    return value


def _module(names: list[str]) -> tuple[Any, list[str]]:
    """Returns the module that the first names form, and the names that remain."""
    for count in range(len(names) - 1, 0, -1):
        try:
            return import_module(".".join(("outrider", *names[:count]))), names[count:]
        except ModuleNotFoundError:
            continue
    raise KeyError(f"{'.'.join(names)}: outrider has no such module")


SETTINGS = {"code": constant, "parameter": parameter}
