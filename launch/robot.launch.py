# SPDX-License-Identifier: Apache-2.0
"""Starts the robot's graph.

ros2 launch outrider robot.launch.py endpoint:=tcp://cloud:5757 key_file:=robot.key
"""

from launch import LaunchDescription

from outrider.nodes.bringup.launching import describe
from outrider.runtime.node_graph.node_graphs import ROBOT_GRAPH


def generate_launch_description() -> LaunchDescription:
    return describe(ROBOT_GRAPH)
