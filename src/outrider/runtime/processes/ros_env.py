# SPDX-License-Identifier: Apache-2.0
"""The environment for ROS nodes as child processes: no setup file has to be sourced first."""

from __future__ import annotations

import os
import random
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from outrider.core.errors import ConfigError
from outrider.runtime.node_graph.distros import DISTROS, stay_local

# DDS discovery of a domain uses ports from 7400 plus 250 times the domain. Linux allows domains 0 to 101.
_DISCOVERY_PORT, _PORTS_PER_DOMAIN, _LAST_DOMAIN = 7400, 250, 101


def ros_environment(domain_id: int | None = None) -> dict[str, str]:
    """Returns the variables for a child process that imports rclpy.

    If ROS 2 is installed but not sourced, its setup.bash is sourced. The Python environment becomes a ROS
    prefix too, which it is for ROS 2 wheels. With a `domain_id`, discovery stays on this machine.
    """
    env = dict(os.environ)
    if "AMENT_PREFIX_PATH" not in env:
        env = _sourced(env)
    prefixes = env.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    if sys.prefix not in prefixes:
        env["AMENT_PREFIX_PATH"] = os.pathsep.join([sys.prefix, *filter(None, prefixes)])
    libraries = [str(Path(sys.prefix) / "lib"), *env.get("LD_LIBRARY_PATH", "").split(os.pathsep)]
    env["LD_LIBRARY_PATH"] = os.pathsep.join(dict.fromkeys(filter(None, libraries)))
    env.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    env.setdefault("MUJOCO_GL", "egl")
    env["PYTHONUNBUFFERED"] = "1"
    if domain_id is not None:
        env["ROS_DOMAIN_ID"] = str(domain_id)
        env |= stay_local(env)
    return env


def check_ros(env: Mapping[str, str]) -> None:
    """Raise ConfigError if a child process with these variables could not import rclpy."""
    folders = [Path(folder) for folder in env.get("PYTHONPATH", "").split(os.pathsep) if folder]
    if find_spec("rclpy") is None and not any((folder / "rclpy").is_dir() for folder in folders):
        raise ConfigError(
            "ROS 2 is not installed for this Python: source its setup.bash, run `make setup` in a checkout, "
            "or use `outrider demo --no-ros`"
        )


def installed_ros() -> Path | None:
    """Returns the ROS 2 installation whose setup.bash can be sourced, or None."""
    names = (os.environ.get("ROS_DISTRO"), *DISTROS)
    candidates = [Path("/opt/ros") / name for name in names if name]
    return next((path for path in candidates if (path / "setup.bash").is_file()), None)


def free_domain() -> int:
    """Returns a ROS domain that no node on this machine seems to use. Raises ConfigError without one."""
    domains = list(range(1, _LAST_DOMAIN))
    random.shuffle(domains)
    for domain in domains:
        if _port_is_free(discovery_port(domain)):
            return domain
    raise ConfigError("every ROS domain of this machine is in use: set ROS_DOMAIN_ID and stop other nodes")


def discovery_port(domain: int) -> int:
    """Returns the UDP port of the first participant of a domain on this machine."""
    return _DISCOVERY_PORT + _PORTS_PER_DOMAIN * domain + 10


def _port_is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _sourced(env: dict[str, str]) -> dict[str, str]:
    ros = installed_ros()
    if ros is None:
        return env
    command = ["bash", "-c", f"source {shlex.quote(str(ros / 'setup.bash'))} && env -0"]
    result = subprocess.run(command, env=env, capture_output=True, text=True)
    if result.returncode != 0:
        raise ConfigError(f"{ros / 'setup.bash'} cannot be sourced: {result.stderr.strip()}")
    return dict(line.split("=", 1) for line in result.stdout.split("\0") if "=" in line)
