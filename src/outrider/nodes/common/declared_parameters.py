# SPDX-License-Identifier: Apache-2.0
"""A node's parameters as ROS declares them."""

from __future__ import annotations

from collections.abc import Mapping

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter

from outrider.runtime.node_graph.parameters import NodeSpec, Parameter, Value, is_ros_own


def ros_parameters(values: Mapping[str, Value] | None) -> list[RosParameter]:
    """Overrides as ROS takes them."""
    return [RosParameter(name, value=value) for name, value in (values or {}).items()]


def declare_parameters(node: Node, spec: NodeSpec) -> dict[str, Value]:
    """Declare a node's parameters with descriptions and ranges.

    The node must have been made with `automatically_declare_parameters_from_overrides=True`: only so does ROS
    tell which names were given. ConfigError for wrong values and unknown names.
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
