# SPDX-License-Identifier: Apache-2.0
"""Starts the cloud's graph: the verifier.

ros2 launch outrider cloud.launch.py endpoint:=tcp://0.0.0.0:5757 key_file:=verifier.key
"""

from launch import LaunchDescription

from outrider.nodes.bringup.launching import describe
from outrider.runtime.node_graph.node_graphs import CLOUD_GRAPH


def generate_launch_description() -> LaunchDescription:
    return describe(CLOUD_GRAPH)
