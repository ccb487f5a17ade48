"""The robot's side: ros2 launch outrider robot.launch.py endpoint:=tcp://cloud:5757 key_file:=robot.key"""

from launch import LaunchDescription

from outrider.nodes.launching import describe
from outrider.runtime.graphs import ROBOT_GRAPH


def generate_launch_description() -> LaunchDescription:
    return describe(ROBOT_GRAPH)
