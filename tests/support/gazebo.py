"""A stand-in for an installed Gazebo, for tests of launch files."""

from __future__ import annotations

from pathlib import Path

import pytest


def install_gazebo(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes what a launch looks for: the program and the bridge's package. Its own files go to `folder`."""
    (folder / "gz").touch(mode=0o755)
    (folder / "share" / "ros_gz_bridge").mkdir(parents=True)
    for name, value in (("PATH", folder), ("AMENT_PREFIX_PATH", folder), ("ROS_DISTRO", "jazzy")):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
