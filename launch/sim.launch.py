"""The whole graph in simulation: ros2 launch outrider sim.launch.py instruction:="find the red chair"."""

from launch import LaunchDescription

from outrider.nodes.launching import describe
from outrider.runtime.graphs import SIM_GRAPH


def generate_launch_description() -> LaunchDescription:
    return describe(SIM_GRAPH)
