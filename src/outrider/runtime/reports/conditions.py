# SPDX-License-Identifier: Apache-2.0
"""The conditions that a run's figures depend on besides its instruction: versions and the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import outrider

_PACKAGES = ("torch", "transformers", "mujoco", "numpy", "pyzmq")


def versions() -> dict[str, str]:
    """Returns the versions of Outrider, Python, ROS 2 and the libraries that decode and simulate."""
    found = {"outrider": outrider.__version__, "python": platform.python_version()}
    if os.environ.get("ROS_DISTRO"):
        found["ros"] = os.environ["ROS_DISTRO"]
    return found | {name: version for name in _PACKAGES if (version := _version(name))}


def host() -> dict[str, Any]:
    """Returns the machine without its name: system, processor, and the cores that this process may use."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
