# SPDX-License-Identifier: Apache-2.0
"""Starts the robot's graph, with the web console instead of the mission node.

ros2 launch outrider teleop.launch.py endpoint:=tcp://cloud:5757
"""

from launch import LaunchDescription

from outrider.nodes.bringup.launching import describe
from outrider.runtime.node_graph.node_graphs import TELEOP_GRAPH


def generate_launch_description() -> LaunchDescription:
    return describe(TELEOP_GRAPH)
