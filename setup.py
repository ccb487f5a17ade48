# SPDX-License-Identifier: Apache-2.0
"""Lists the files that ROS 2 expects in share/; the metadata of the package is in setup.cfg."""

from pathlib import Path

from setuptools import setup

SHARE = "share/outrider"


def shared_files(folder: str) -> list[tuple[str, list[str]]]:
    """Returns the files under `folder`, grouped by their folder in share/outrider."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    folders = sorted({path.parent for path in files})
    return [
        (f"{SHARE}/{parent}", [str(path) for path in files if path.parent == parent]) for parent in folders
    ]


setup(
    # Not in setup.cfg: colcon cannot read the object that setuptools makes of it there.
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
