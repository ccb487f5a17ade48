# SPDX-License-Identifier: Apache-2.0
"""Declares a node's parameters in ROS."""

from __future__ import annotations

from collections.abc import Mapping

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.exceptions import InvalidTopicNameException
from rclpy.expand_topic_name import expand_topic_name
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter
from rclpy.validate_full_topic_name import validate_full_topic_name
from rclpy.validate_topic_name import validate_topic_name

from outrider.core.errors import ConfigError
from outrider.runtime.node_graph.parameters import NodeSpec, Parameter, Value, is_ros_own


def ros_parameters(values: Mapping[str, Value] | None) -> list[RosParameter]:
    """Returns overrides in ROS's type."""
    return [RosParameter(name, value=value) for name, value in (values or {}).items()]


def declare_parameters(node: Node, spec: NodeSpec) -> dict[str, Value]:
    """Declare a node's parameters with descriptions and ranges. Returns their values.

    The node must have been made with `automatically_declare_parameters_from_overrides=True`: ROS then tells
    which names were given. Raises ConfigError for wrong values and unknown names.
    """
    given = {
        name: parameter.value
        for name, parameter in node.get_parameters_by_prefix("").items()
        if not is_ros_own(name)
    }
    values = spec.checked(given)
    for name in given:
        node.undeclare_parameter(name)
    for parameter in spec.parameters:
        value = values[parameter.name]
        node.declare_parameter(parameter.name, value, _descriptor(parameter), ignore_override=True)
    return values


def topic_name(name: str, parameter: str) -> str:
    """Returns a topic's name from a parameter. Raises ConfigError if ROS does not accept it."""
    try:
        validate_topic_name(name)
        validate_full_topic_name(expand_topic_name(name, "node", "/"))
    except (InvalidTopicNameException, ValueError) as error:
        reason = str(error).splitlines()[0].partition(": ")[2].partition(", at ")[0].rstrip(":")
        raise ConfigError(f"{parameter}: {name!r} is no topic: {reason}") from error
    return name


def _descriptor(parameter: Parameter) -> ParameterDescriptor:
    descriptor = ParameterDescriptor(description=parameter.description, read_only=parameter.read_only)
    if parameter.choices:
        descriptor.additional_constraints = f"one of {', '.join(parameter.choices)}"
    low, high = parameter.minimum, parameter.maximum
    if low is not None and high is not None:
        if isinstance(parameter.default, float):
            descriptor.floating_point_range = [
                FloatingPointRange(from_value=float(low), to_value=float(high))
            ]
        else:
            descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high), step=1)]
    return descriptor
