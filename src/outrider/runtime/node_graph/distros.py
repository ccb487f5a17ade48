# SPDX-License-Identifier: Apache-2.0
"""One table of the differences between the supported ROS 2 distributions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

_RANGE = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}


@dataclass(frozen=True)
class Distro:
    """The properties of one ROS 2 distribution.

    `gazebo` is its Gazebo release. `stay_local` are the variables that keep discovery on this machine.
    `nav2_stamps` says whether nav2 sends and takes TwistStamped by default, `mux_stamps` the same of
    twist_mux.
    """

    gazebo: str
    stay_local: Mapping[str, str]
    nav2_stamps: bool
    mux_stamps: bool


DISTROS = {
    # Humble lacks the newer variable. The others warn of the older one, which overrides the newer.
    "humble": Distro("fortress", {"ROS_LOCALHOST_ONLY": "1"}, nav2_stamps=False, mux_stamps=False),
    "jazzy": Distro("harmonic", _RANGE, nav2_stamps=False, mux_stamps=True),
    "kilted": Distro("ionic", _RANGE, nav2_stamps=True, mux_stamps=True),
    "lyrical": Distro("jetty", _RANGE, nav2_stamps=True, mux_stamps=True),
}
DEFAULT = "jazzy"
FIRST_PYTHON, LAST_PYTHON = (3, 10), (3, 14)


def distro_name() -> str:
    """Returns the sourced distribution, or the one whose wheels are the default."""
    return os.environ.get("ROS_DISTRO") or DEFAULT


def stay_local(env: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the variables that keep discovery on this machine, for an environment's distribution."""
    return DISTROS.get(env.get("ROS_DISTRO", ""), DISTROS[DEFAULT]).stay_local
