# SPDX-License-Identifier: Apache-2.0
"""Prepares what `gazebo.launch.py` starts besides Outrider's nodes: Gazebo with a world, and the bridge."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from outrider.core.errors import ConfigError
from outrider.core.files.writing import writing_to
from outrider.runtime.common.paths import config_file
from outrider.runtime.node_graph.distros import DISTROS, distro_name
from outrider.runtime.node_graph.parameters import Value
from outrider.simulation.homes.home import generate_home
from outrider.simulation.homes.vocabulary import target_of
from outrider.simulation.sdf import RELEASES, world_sdf

BRIDGE_PACKAGE = "ros_gz_bridge"
WORLD_FILE, BRIDGE_FILE = "home.sdf", "gazebo_bridge.yaml"
# The variable that selects a partition of Gazebo's transport; it has two names, by release.
PARTITIONS = "GZ_PARTITION", "IGN_PARTITION"


@dataclass(frozen=True)
class GazeboRun:
    """The command that runs the world, and the bridge's configuration."""

    command: tuple[str, ...]
    world_file: Path
    bridge_file: Path


def prepare_gazebo(parameters: Mapping[str, Value], folder: Path) -> GazeboRun:
    """Write the world and the bridge's file for the parameters of the node `gazebo`.

    Returns the command and the files. Raises ConfigError.
    """
    release = release_of(str(parameters["release"]))
    held = target_of(str(parameters["holds"] or parameters["instruction"]))
    home = generate_home(int(parameters["seed"]), held, str(parameters["placement"]))
    world, bridge = folder / WORLD_FILE, folder / BRIDGE_FILE
    with writing_to(folder):
        world.write_text(
            world_sdf(home, release, str(parameters["frame_prefix"]), int(parameters["scan_hz"]))
        )
        bridge.write_text(bridge_text(release))
    # Without the window only the server runs, and renders for the sensors without a screen.
    window = () if parameters["gui"] else ("-s", "--headless-rendering")
    return GazeboRun((*_program(release), "-r", *window, str(world)), world, bridge)


def check_installed(release: str) -> None:
    """Raise ConfigError for an unknown release, or if its program or its bridge is not installed."""
    program = _program(release_of(release))[0]
    remedy = f"sudo apt-get install ros-{distro_name()}-ros-gz"
    if shutil.which(program) is None:
        raise ConfigError(f"there is no program {program!r}: {remedy}")
    prefixes = map(Path, filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)))
    if not any((prefix / "share" / BRIDGE_PACKAGE).is_dir() for prefix in prefixes):
        raise ConfigError(f"there is no package {BRIDGE_PACKAGE!r}: {remedy}, and source ROS 2")


def own_partition(namespace: str) -> dict[str, str]:
    """Returns the variables that separate Gazebo's topics from those of every other Gazebo.

    In a shared partition only the first Gazebo publishes /clock, and a velocity moves the robots of both. A
    partition that the environment names is kept.
    """
    base = next(filter(None, map(os.environ.get, PARTITIONS)), f"outrider_{os.getpid()}")
    name = "_".join(filter(None, (base, *namespace.split("/"))))
    return dict.fromkeys(PARTITIONS, name)


def release_of(wanted: str) -> str:
    """Returns the given release, or that of the sourced ROS. Raises ConfigError if it is unknown."""
    distro = DISTROS.get(os.environ.get("ROS_DISTRO", ""))
    release = wanted or (distro.gazebo if distro else "")
    if release not in RELEASES:
        raise ConfigError(
            f"release={wanted!r} with ROS_DISTRO={os.environ.get('ROS_DISTRO', '')!r}: "
            f"give release:= one of {', '.join(RELEASES)}"
        )
    return release


def _program(release: str) -> tuple[str, ...]:
    return ("ign", "gazebo") if release == "fortress" else ("gz", "sim")


def bridge_text(release: str) -> str:
    """Returns the bridge's configuration with the message types of a release."""
    text = config_file(BRIDGE_FILE).read_text()
    return text.replace("gz.msgs.", "ignition.msgs.") if release == "fortress" else text
