"""A missing GPU or package is reported before any import that takes seconds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.runtime.common import present
from outrider.runtime.common.present import check_device, check_ray

A_LIBRARY = "libc.so.6"
Check = Callable[..., None]


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Check:
    """Returns the check for a machine without drivers, with a torch for GPUs."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(present, "version", lambda package: "2.9.0")
    return partial(check_device, nvidia_driver="libnowhere.so.1", amd_driver=tmp_path / "kfd")


def test_a_gpu_without_a_driver_is_refused(check: Check) -> None:
    check("cpu")
    with pytest.raises(ConfigError, match="device=cuda: this machine has no driver"):
        check("cuda")


def test_where_nvidia_has_a_driver_torch_is_asked(check: Check) -> None:
    check("cuda", nvidia_driver=A_LIBRARY)


def test_where_amd_has_a_driver_torch_is_asked(check: Check, tmp_path: Path) -> None:
    (tmp_path / "kfd").touch()
    check("cuda")


def test_a_torch_for_cpus_uses_no_gpu(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(present, "version", lambda package: "2.9.0+cpu")
    with pytest.raises(ConfigError, match=r"torch 2.9.0\+cpu runs on no GPU"):
        check("cuda", nvidia_driver=A_LIBRARY)


def test_a_cluster_has_devices_of_its_own(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://elsewhere:10001")
    check("cuda")


def test_replicas_without_their_package_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(present, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'outrider\[replicas\]'"):
        check_ray()
