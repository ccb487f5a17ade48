# SPDX-License-Identifier: Apache-2.0
"""Starts the whole graph in simulation.

ros2 launch outrider sim.launch.py instruction:="find the red chair"
"""

from launch import LaunchDescription

from outrider.nodes.bringup.launching import describe
from outrider.runtime.node_graph.node_graphs import SIM_GRAPH


def generate_launch_description() -> LaunchDescription:
    return describe(SIM_GRAPH)
