"""A GPU or a package that is not there is told before anything that takes seconds to import."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from outrider.core.errors import ConfigError
from outrider.runtime.common import present
from outrider.runtime.common.present import check_device, check_ray


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without drivers, with a torch for GPUs."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(present, "version", lambda package: "2.9.0")
    monkeypatch.setattr(present, "NVIDIA_DRIVER", "libnowhere.so.1")
    monkeypatch.setattr(present, "AMD_DRIVER", tmp_path / "kfd")


def test_a_gpu_without_a_driver_is_refused(bare: None) -> None:
    check_device("cpu")
    with pytest.raises(ConfigError, match="device=cuda: this machine has no driver"):
        check_device("cuda")


def test_where_nvidia_has_a_driver_torch_is_asked(bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda library: None)
    check_device("cuda")


def test_where_amd_has_a_driver_torch_is_asked(bare: None, tmp_path: Path) -> None:
    (tmp_path / "kfd").touch()
    check_device("cuda")


def test_a_torch_for_cpus_uses_no_gpu(bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(present, "version", lambda package: "2.9.0+cpu")
    monkeypatch.setattr(ctypes, "CDLL", lambda library: None)
    with pytest.raises(ConfigError, match=r"torch 2.9.0\+cpu runs on no GPU"):
        check_device("cuda")


def test_a_cluster_has_devices_of_its_own(bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://elsewhere:10001")
    check_device("cuda")


def test_replicas_without_their_package_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(present, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'outrider\[replicas\]'"):
        check_ray()
