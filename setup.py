# SPDX-License-Identifier: Apache-2.0
"""Metadata is in setup.cfg; here only what must be listed by looking: the files ROS 2 expects in share/."""

from pathlib import Path

from setuptools import setup

SHARE = "share/outrider"


def shared_files(folder: str) -> list[tuple[str, list[str]]]:
    """Every file under `folder`, grouped by the folder of share/outrider it goes to."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    folders = sorted({path.parent for path in files})
    return [
        (f"{SHARE}/{parent}", [str(path) for path in files if path.parent == parent]) for parent in folders
    ]


setup(
    # Here, not in setup.cfg: colcon cannot read the object that setuptools makes of it there.
    python_requires=">=3.10",
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/outrider"]),
        (SHARE, ["package.xml", "LICENSE"]),
        *shared_files("benchmarks"),
        *shared_files("config"),
        *shared_files("launch"),
        *shared_files("models"),
    ],
)
