# SPDX-License-Identifier: Apache-2.0
"""Starts Gazebo and the graph around it.

ros2 launch outrider gazebo.launch.py instruction:="find the red chair" gui:=false
"""

from launch import LaunchDescription

from outrider.nodes.bringup.launching import describe, gazebo_processes
from outrider.runtime.node_graph.node_graphs import GAZEBO_GRAPH


def generate_launch_description() -> LaunchDescription:
    return describe(GAZEBO_GRAPH, gazebo_processes)
