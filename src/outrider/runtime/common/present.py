# SPDX-License-Identifier: Apache-2.0
"""Checks that this machine has what an option needs, without imports that take seconds."""

from __future__ import annotations

import ctypes
import os
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from outrider.core.errors import ConfigError

NO_RAY = "replicas need ray: pip install 'outrider[replicas]'"
NVIDIA_DRIVER, AMD_DRIVER = "libcuda.so.1", Path("/dev/kfd")


def check_device(device: str, nvidia_driver: str = NVIDIA_DRIVER, amd_driver: Path = AMD_DRIVER) -> None:
    """Raise ConfigError for a GPU that torch could not find here.

    There is a driver if the library `nvidia_driver` can be loaded or the file `amd_driver` exists; torch
    checks the device itself later. On a Ray cluster nothing is checked: its devices are other machines'.
    """
    if device == "cpu" or os.environ.get("RAY_ADDRESS"):
        return
    if _torch_build().endswith("+cpu"):
        raise ConfigError(
            f"device={device}: torch {_torch_build()} runs on no GPU; install another, or use cpu"
        )
    if not (_can_load(nvidia_driver) or amd_driver.exists()):
        raise ConfigError(f"device={device}: this machine has no driver of a GPU; install one, or use cpu")


def check_ray() -> None:
    """Raise ConfigError if the extra `replicas` is not installed."""
    if find_spec("ray") is None:
        raise ConfigError(NO_RAY)


def _torch_build() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
