# SPDX-License-Identifier: Apache-2.0
"""Message types by name: their classes, and their definitions for recordings."""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError

_NESTED = re.compile(r"\b([a-z]\w*)/([A-Z]\w*)")
_RULE = "=" * 80


def message_class(type_name: str) -> Any:
    """Returns the class of a type such as `nav_msgs/msg/Odometry`.

    Raises ConfigError if it is not installed.
    """
    package, _, name = type_name.replace("/msg/", "/").partition("/")
    try:
        return getattr(importlib.import_module(f"{package}.msg"), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"the message type {type_name} is not installed here: build its package") from error


def full_definition(type_name: str) -> str:
    """Returns the .msg text of a type and of all types in it, in MCAP's form `ros2msg`.

    https://mcap.dev/spec/registry#ros2msg
    """
    package, name = type_name.replace("/msg/", "/").split("/")
    waiting, texts = [f"{package}/{name}"], dict[str, str]()
    while waiting:
        current = waiting.pop(0)
        if current not in texts:
            texts[current] = _own_definition(current)
            waiting += _nested_types(current)
    first, *rest = texts.items()
    return "\n".join([first[1], *(f"{_RULE}\nMSG: {key}\n{text}" for key, text in rest)])


def _nested_types(type_name: str) -> list[str]:
    fields = message_class(type_name).get_fields_and_field_types().values()
    return ["/".join(parts) for field in fields for parts in _NESTED.findall(field)]


def _own_definition(type_name: str) -> str:
    package, name = type_name.split("/")
    prefixes = [*filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)), sys.prefix]
    for prefix in prefixes:
        path = Path(prefix) / "share" / package / "msg" / f"{name}.msg"
        if path.is_file():
            return path.read_text()
    raise ConfigError(f"the definition of {type_name} is not installed here: build its package")
